//! Short episodes with real servers, within the assumptions, beyond them, and with ordinary operations.

use std::path::Path;
use std::time::Duration;

use quorlock_faults::episode::run_episode;
use quorlock_faults::host_runs::Programs;
use quorlock_faults::interrupt::Interrupt;
use quorlock_faults::judge::Findings;
use quorlock_faults::plan::{Assumptions, Fault, FaultKind, Persistence, Plan, Target};
use quorlock_faults::series::Series;
use quorlock_faults::subject::{Program, Subject};
use quorlock_faults::trial;

/// How long each episode injects faults.
const LENGTH: Duration = Duration::from_secs(12);
/// The interval between two memory losses. It is long enough for a client to acquire a lease, even on a busy machine.
const FLUSH_INTERVAL: Duration = Duration::from_millis(700);

/// How long the servers stop: longer than a ttl, so that every lease is lost, and shorter than two ttls, because a client
/// polls a lost lease for only one ttl.
const STOP_TIME: Duration = Duration::from_millis(1_200);
const STOP_INTERVAL: Duration = Duration::from_millis(2_500);

/// The seed in `QUORLOCK_SEED`, or a random seed. Prints it, so that the output of a failed test has it.
fn seed() -> u64 {
    let given = std::env::var("QUORLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("QUORLOCK_SEED={seed}");
    seed
}

fn findings(assumptions: Assumptions) -> Findings {
    findings_with(&program(Subject::Quorlock), &Plan::new(seed(), assumptions, LENGTH))
}

fn program(subject: Subject) -> Program {
    let harness = Path::new(env!("CARGO_BIN_EXE_quorlock-faults")).into();
    Program::prepare(subject, harness).expect("it is built already")
}

fn findings_with(program: &Program, plan: &Plan) -> Findings {
    let contention = if program.is_uncontended { "apart" } else { "together" };
    let file = format!("faults-{}-{}-{contention}.jsonl", program.subject, plan.assumptions);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    println!("history: {}", path.display());
    let records = run_episode(plan, program, &path, &Interrupt::default()).expect("the episode can be played");
    Findings::of(plan.assumptions, &records)
}

/// A plan in which all three servers repeatedly lose their memory at the same time.
fn plan_with_memory_losses() -> Plan {
    let persistence = vec![Persistence::None; 3];
    let fault = |number| Fault {
        at: FLUSH_INTERVAL * number,
        length: Duration::ZERO,
        target: Target::Nodes(persistence.len()),
        kind: FaultKind::Flush,
        amount: 0,
    };
    let faults = (1..LENGTH.div_duration_f64(FLUSH_INTERVAL) as u32).map(fault).collect();
    Plan { seed: 1, assumptions: Assumptions::Kept, persistence: persistence.clone(), faults, length: LENGTH }
}

/// A plan in which all three servers repeatedly stop for longer than a lease is valid.
fn plan_with_stops() -> Plan {
    let persistence = vec![Persistence::None; 3];
    let fault = |number| Fault {
        at: STOP_INTERVAL * number,
        length: STOP_TIME,
        target: Target::Nodes(persistence.len()),
        kind: FaultKind::Freeze,
        amount: 0,
    };
    let faults = (1..LENGTH.div_duration_f64(STOP_INTERVAL) as u32).map(fault).collect();
    Plan { seed: 1, assumptions: Assumptions::Kept, persistence: persistence.clone(), faults, length: LENGTH }
}

#[test]
fn no_guarantee_is_violated_within_the_assumptions() {
    let findings = findings(Assumptions::Kept);
    assert!(findings.grants > 0 && findings.writes > 0 && findings.batched_requests > 0, "{findings:?}");
    assert_eq!(findings.violations(Assumptions::Kept), 0, "{:#?}", findings.messages);
}

#[test]
fn fences_protect_the_register_beyond_the_assumptions() {
    let findings = findings(Assumptions::Broken);
    assert!(findings.grants > 0 && findings.writes > 0, "{findings:?}");
    assert_eq!(findings.violations(Assumptions::Broken), 0, "{:#?}", findings.messages);
}

#[test]
fn the_judge_finds_overlaps_without_quarantine() {
    let findings = findings_with(&program(Subject::Trusting), &plan_with_memory_losses());
    assert!(findings.overlaps > 0 && findings.bare_overwrites > 0, "the judge missed the overlaps: {findings:?}");
}

#[test]
fn the_judge_finds_revived_leases() {
    // The clients do not compete: a lost lease can be revived only if no other client acquires its lock.
    let findings = findings_with(&program(Subject::Reviving).uncontended(), &plan_with_stops());
    assert!(findings.losses > 0 && findings.revived_leases > 0, "the judge missed the revived leases: {findings:?}");
    assert!(
        findings.violations(Assumptions::Kept) >= findings.revived_leases,
        "revived leases count as violations: {findings:?}"
    );
    // With the rule that lost is final, the same faults cause no violation.
    let findings = findings_with(&program(Subject::Quorlock).uncontended(), &plan_with_stops());
    assert!(findings.losses > 0, "{findings:?}");
    assert_eq!(findings.violations(Assumptions::Kept), 0, "{:#?}", findings.messages);
}

/// The programs of the episodes. Builds `quorlock` if it is missing. `./x test` builds it before the tests.
fn programs() -> Programs {
    let harness = Path::new(env!("CARGO_BIN_EXE_quorlock-faults"));
    Programs::next_to(harness).unwrap_or_else(|_| {
        let target = harness.ancestors().nth(2).expect("the harness is in a folder of the target folder");
        let mut build = std::process::Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "quorlock-cli", "--target-dir"]).arg(target);
        assert!(build.status().expect("cargo can be started").success());
        Programs::next_to(harness).expect("it is built now")
    })
}

fn findings_in_series(series: Series, kinds: &[FaultKind]) -> Findings {
    let fault = |(second, kind): (u32, &FaultKind)| {
        let has_end =
            matches!(kind, FaultKind::StopWrapper | FaultKind::StopGuard | FaultKind::StopBoth | FaultKind::Replica);
        let length = if has_end { trial::TTL * 2 } else { Duration::ZERO };
        let target =
            if matches!(kind, FaultKind::Backup | FaultKind::Replica) { Target::Node(0) } else { Target::Holder };
        Fault { at: Duration::from_secs(1) * second, length, target, kind: *kind, amount: 0 }
    };
    let faults = (1..).zip(kinds).map(fault).collect();
    let plan = Plan {
        seed: seed(),
        assumptions: series.assumptions(),
        persistence: vec![Persistence::None; 3],
        faults,
        length: LENGTH,
    };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{series}.jsonl"));
    println!("history: {}", path.display());
    let records = trial::play(series, &plan, &programs(), &path, &Interrupt::default());
    let findings = Findings::of(series.assumptions(), &records.expect("the episode can be played"));
    assert_eq!(findings.faults.values().sum::<usize>(), kinds.len(), "{findings:?}");
    assert!(findings.grants > 0 && findings.writes > 0, "{findings:?}");
    findings
}

#[test]
fn no_run_loses_its_lock_through_a_backup_or_a_replica_of_one_node() {
    let findings = findings_in_series(Series::Operations, &[FaultKind::Backup, FaultKind::Replica]);
    assert_eq!(Series::Operations.violations(&findings), 0, "{:#?}", findings.messages);
}

#[test]
fn the_command_of_a_killed_wrapper_ends_before_another_begins() {
    let findings = findings_in_series(Series::Processes, &[FaultKind::KillWrapper, FaultKind::KillWrapper]);
    assert_eq!(Series::Processes.violations(&findings), 0, "{:#?}", findings.messages);
}

#[test]
fn a_command_whose_wrapper_and_guard_are_stopped_outlives_its_lease() {
    let findings = findings_in_series(Series::Stopped, &[FaultKind::StopBoth]);
    assert!(findings.overlaps > 0 && findings.bare_overwrites > 0, "the judge missed the overlap: {findings:?}");
    assert_eq!(
        Series::Stopped.violations(&findings),
        0,
        "the fences did not protect the register: {:#?}",
        findings.messages
    );
}
