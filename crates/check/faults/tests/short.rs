//! Short episodes with real servers: within the assumptions and beyond them.

use std::path::Path;
use std::time::Duration;

use quorlock_faults::episode::play;
use quorlock_faults::fleet::Programs;
use quorlock_faults::interrupt::Interrupt;
use quorlock_faults::judge::Findings;
use quorlock_faults::plan::{Act, Bound, Fault, Persistence, Plan, Target};
use quorlock_faults::series::Series;
use quorlock_faults::subject::{Program, Subject};
use quorlock_faults::trial;

const LENGTH: Duration = Duration::from_secs(12);
/// Long enough for a client to hold a lease in between, even on a busy machine.
const FORGET_EVERY: Duration = Duration::from_millis(700);

/// Long enough for every lease to be lost, and not much longer: a client polls a lost lease for another ttl.
const HALT: Duration = Duration::from_millis(1_200);
const HALT_EVERY: Duration = Duration::from_millis(2_500);

/// The seed in `QUORLOCK_SEED`, or a random one. Printed, so that a failed test shows it.
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
    let way = if program.is_uncontended { "apart" } else { "together" };
    let path = format!("faults-{}-{}-{way}.jsonl", program.subject, plan.bound);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(path);
    println!("history: {}", path.display());
    let records = play(plan, program, &path, &Interrupt::default()).expect("the episode can be played");
    Findings::of(plan.bound, &records)
}

/// Three servers that lose their memory at once, again and again.
fn forgetful() -> Plan {
    let persistence = vec![Persistence::None; 3];
    let fault = |turn| Fault {
        at: FORGET_EVERY * turn,
        length: Duration::ZERO,
        target: Target::Nodes(persistence.len()),
        act: Act::Flush,
        amount: 0,
    };
    let faults = (1..LENGTH.div_duration_f64(FORGET_EVERY) as u32).map(fault).collect();
    Plan { seed: 1, bound: Bound::Within, persistence: persistence.clone(), faults, length: LENGTH }
}

/// Three servers that stop at once, again and again, for longer than a lease is valid.
fn halting() -> Plan {
    let persistence = vec![Persistence::None; 3];
    let fault = |turn| Fault {
        at: HALT_EVERY * turn,
        length: HALT,
        target: Target::Nodes(persistence.len()),
        act: Act::Freeze,
        amount: 0,
    };
    let faults = (1..LENGTH.div_duration_f64(HALT_EVERY) as u32).map(fault).collect();
    Plan { seed: 1, bound: Bound::Within, persistence: persistence.clone(), faults, length: LENGTH }
}

#[test]
fn no_guarantee_is_violated_within_the_assumptions() {
    let found = found(Bound::Within);
    assert!(found.grants > 0 && found.writes > 0 && found.together > 0, "{found:?}");
    assert_eq!(found.violations(Bound::Within), 0, "{:#?}", found.messages);
}

#[test]
fn fences_protect_the_register_beyond_the_assumptions() {
    let found = found(Bound::Beyond);
    assert!(found.grants > 0 && found.writes > 0, "{found:?}");
    assert_eq!(found.violations(Bound::Beyond), 0, "{:#?}", found.messages);
}

#[test]
fn leases_overlap_without_quarantine() {
    let found = found_in(Subject::Trusting, &forgetful());
    assert!(found.overlaps > 0 && found.bare_overwrites > 0, "the judge missed the overlaps: {found:?}");
}

#[test]
fn a_revived_lease_is_detected() {
    // Without competitors, so that no other client takes the lost lease.
    let found = found_of(&program(Subject::Reviving).uncontended(), &halting());
    assert!(found.losses > 0 && found.revived > 0, "the judge missed the revived leases: {found:?}");
    assert!(found.violations(Bound::Within) >= found.revived, "revived leases count as violations: {found:?}");
    // With the rule that lost is final, the same faults cause no violation.
    let found = found_of(&program(Subject::Quorlock).uncontended(), &halting());
    assert!(found.losses > 0, "{found:?}");
    assert_eq!(found.violations(Bound::Within), 0, "{:#?}", found.messages);
}

/// The command-line tool. Built here if it is missing; `./x test` builds it with everything else.
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
    let fault = |(turn, act): (u32, &Act)| {
        let is_stop = matches!(act, Act::StopWrapper | Act::StopGuard | Act::StopBoth | Act::Replica);
        let length = if is_stop { trial::TTL * 2 } else { Duration::ZERO };
        let target = if matches!(act, Act::Backup | Act::Replica) { Target::Node(0) } else { Target::Holder };
        Fault { at: Duration::from_secs(1) * turn, length, target, act: *act, amount: 0 }
    };
    let faults = (1..).zip(acts).map(fault).collect();
    let plan =
        Plan { seed: seed(), bound: series.bound(), persistence: vec![Persistence::None; 3], faults, length: LENGTH };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{series}.jsonl"));
    println!("history: {}", path.display());
    let records = trial::play(series, &plan, &programs(), &path, &Interrupt::default());
    let found = Findings::of(series.bound(), &records.expect("the episode can be played"));
    assert_eq!(found.faults.values().sum::<usize>(), acts.len(), "{found:?}");
    assert!(found.grants > 0 && found.writes > 0, "{found:?}");
    found
}

#[test]
fn a_backup_and_a_replica_of_one_node_cost_no_run_its_lock() {
    let found = found_in_series(Series::Operations, &[Act::Backup, Act::Replica]);
    assert_eq!(Series::Operations.violations(&found), 0, "{:#?}", found.messages);
}

#[test]
fn the_command_of_a_killed_wrapper_ends_before_another_begins() {
    let found = found_in_series(Series::Processes, &[Act::KillWrapper, Act::KillWrapper]);
    assert_eq!(Series::Processes.violations(&found), 0, "{:#?}", found.messages);
}

#[test]
fn a_command_without_wrapper_and_guard_outlives_its_lease() {
    let found = found_in_series(Series::Stopped, &[Act::StopBoth]);
    assert!(found.overlaps > 0 && found.bare_overwrites > 0, "the judge missed the overlap: {found:?}");
    assert_eq!(Series::Stopped.violations(&found), 0, "the fences did not protect the register: {:#?}", found.messages);
}
