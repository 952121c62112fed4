//! A short run of the real thing: within the assumptions, and beyond them.

use std::path::Path;
use std::time::Duration;

use quorlock_faults::episode::play;
use quorlock_faults::fleet::Programs;
use quorlock_faults::interrupt::Interrupt;
use quorlock_faults::judge::Findings;
use quorlock_faults::plan::{Act, Bound, Deed, Memory, Plan, Target};
use quorlock_faults::series::Series;
use quorlock_faults::subject::{Program, Subject};
use quorlock_faults::trial;

const LENGTH: Duration = Duration::from_secs(12);
/// Seldom enough for somebody to hold something meanwhile, also on a machine that is busy with something else.
const FORGET_EVERY: Duration = Duration::from_millis(700);

/// Long enough for every lease to be lost, and not much longer: whoever is told that it has lost one looks at it for another ttl.
const HALT: Duration = Duration::from_millis(1_200);
const HALT_EVERY: Duration = Duration::from_millis(2_500);

/// The seed in `QUORLOCK_SEED`, else a fresh one. It is printed: a test that fails shows it.
fn seed() -> u64 {
    let given = std::env::var("QUORLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("QUORLOCK_SEED={seed}");
    seed
}

fn found(bound: Bound) -> Findings {
    found_in(Subject::Quorlock, &Plan::new(seed(), bound, LENGTH))
}

fn program(subject: Subject) -> Program {
    let this = Path::new(env!("CARGO_BIN_EXE_quorlock-faults")).into();
    Program::prepare(subject, this).expect("it is built already")
}

fn found_in(subject: Subject, plan: &Plan) -> Findings {
    found_of(&program(subject), plan)
}

fn found_of(program: &Program, plan: &Plan) -> Findings {
    let way = if program.is_apart { "apart" } else { "together" };
    let path = format!("faults-{}-{}-{way}.jsonl", program.subject, plan.bound);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(path);
    println!("the history: {}", path.display());
    let records = play(plan, program, &path, &Interrupt::default()).expect("the episode can be played");
    Findings::of(plan.bound, &records)
}

/// Three servers that forget everything at once, again and again.
fn forgetful() -> Plan {
    let memories = vec![Memory::None; 3];
    let deed = |turn| Deed {
        at: FORGET_EVERY * turn,
        length: Duration::ZERO,
        target: Target::Nodes(memories.len()),
        act: Act::Flush,
        amount: 0,
    };
    let deeds = (1..LENGTH.div_duration_f64(FORGET_EVERY) as u32).map(deed).collect();
    Plan { seed: 1, bound: Bound::Within, memories: memories.clone(), deeds, length: LENGTH }
}

/// Three servers that stop at once, again and again, for longer than a lease is valid.
fn halting() -> Plan {
    let memories = vec![Memory::None; 3];
    let deed = |turn| Deed {
        at: HALT_EVERY * turn,
        length: HALT,
        target: Target::Nodes(memories.len()),
        act: Act::Freeze,
        amount: 0,
    };
    let deeds = (1..LENGTH.div_duration_f64(HALT_EVERY) as u32).map(deed).collect();
    Plan { seed: 1, bound: Bound::Within, memories: memories.clone(), deeds, length: LENGTH }
}

#[test]
fn nothing_is_violated_while_the_assumptions_hold() {
    let found = found(Bound::Within);
    assert!(found.grants > 0 && found.writes > 0 && found.together > 0, "{found:?}");
    assert_eq!(found.violations(Bound::Within), 0, "{:#?}", found.told);
}

#[test]
fn fences_protect_the_register_while_the_assumptions_do_not_hold() {
    let found = found(Bound::Beyond);
    assert!(found.grants > 0 && found.writes > 0, "{found:?}");
    assert_eq!(found.violations(Bound::Beyond), 0, "{:#?}", found.told);
}

#[test]
fn without_its_quarantine_two_hold_at_a_time() {
    let found = found_in(Subject::Trusting, &forgetful());
    assert!(found.overlaps > 0 && found.bare_harmed > 0, "nothing is seen where something is wrong: {found:?}");
}

#[test]
fn a_lease_that_is_valid_again_after_it_was_lost_is_seen() {
    // Nobody else is there to take what was lost.
    let found = found_of(&program(Subject::Reviving).apart(), &halting());
    assert!(found.losses > 0 && found.revived > 0, "nothing is seen where something is wrong: {found:?}");
    assert!(found.violations(Bound::Within) >= found.revived, "it counts: {found:?}");
    // With the rule, the same is borne.
    let found = found_of(&program(Subject::Quorlock).apart(), &halting());
    assert!(found.losses > 0, "{found:?}");
    assert_eq!(found.violations(Bound::Within), 0, "{:#?}", found.told);
}

/// The command line tool, built if it was not yet: `./x test` builds it with everything else.
fn programs() -> Programs {
    let harness = Path::new(env!("CARGO_BIN_EXE_quorlock-faults"));
    Programs::beside(harness).unwrap_or_else(|_| {
        let target = harness.ancestors().nth(2).expect("the harness is in a folder of the target folder");
        let mut build = std::process::Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "quorlock-cli", "--target-dir"]).arg(target);
        assert!(build.status().expect("cargo can be started").success());
        Programs::beside(harness).expect("it is built now")
    })
}

fn found_in_series(series: Series, acts: &[Act]) -> Findings {
    let deed = |(turn, act): (u32, &Act)| {
        let is_stop = matches!(act, Act::StopWrapper | Act::StopGuard | Act::StopBoth | Act::Replica);
        let length = if is_stop { trial::TTL * 2 } else { Duration::ZERO };
        let target = if matches!(act, Act::Backup | Act::Replica) { Target::Node(0) } else { Target::Holder };
        Deed { at: Duration::from_secs(1) * turn, length, target, act: *act, amount: 0 }
    };
    let deeds = (1..).zip(acts).map(deed).collect();
    let plan = Plan { seed: seed(), bound: series.bound(), memories: vec![Memory::None; 3], deeds, length: LENGTH };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{series}.jsonl"));
    println!("the history: {}", path.display());
    let records = trial::play(series, &plan, &programs(), &path, &Interrupt::default());
    let found = Findings::of(series.bound(), &records.expect("the episode can be played"));
    assert_eq!(found.faults.values().sum::<usize>(), acts.len(), "{found:?}");
    assert!(found.grants > 0 && found.writes > 0, "{found:?}");
    found
}

#[test]
fn a_backup_and_a_replica_of_one_node_cost_no_run_its_lock() {
    let found = found_in_series(Series::Operations, &[Act::Backup, Act::Replica]);
    assert_eq!(Series::Operations.violations(&found), 0, "{:#?}", found.told);
}

#[test]
fn a_wrapper_that_is_killed_takes_its_command_along_before_another_begins() {
    let found = found_in_series(Series::Processes, &[Act::KillWrapper, Act::KillWrapper]);
    assert_eq!(Series::Processes.violations(&found), 0, "{:#?}", found.told);
}

#[test]
fn a_command_whose_wrapper_and_guard_are_stopped_is_seen_to_outlive_its_lease() {
    let found = found_in_series(Series::Stopped, &[Act::StopBoth]);
    assert!(found.overlaps > 0 && found.bare_harmed > 0, "nothing is seen where something is wrong: {found:?}");
    assert_eq!(Series::Stopped.violations(&found), 0, "the fence protects: {:#?}", found.told);
}
