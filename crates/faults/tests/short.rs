//! A short run of the real thing: within the assumptions, and beyond them.

use std::path::Path;
use std::time::Duration;

use quorlock_faults::episode::play;
use quorlock_faults::interrupt::Interrupt;
use quorlock_faults::judge::Findings;
use quorlock_faults::plan::{Bound, Plan};
use quorlock_faults::subject::{Program, Subject};

const LENGTH: Duration = Duration::from_secs(12);

/// The seed in `QUORLOCK_SEED`, else a fresh one. It is printed: a test that fails shows it.
fn seed() -> u64 {
    let given = std::env::var("QUORLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("QUORLOCK_SEED={seed}");
    seed
}

fn found(bound: Bound) -> Findings {
    let plan = Plan::new(seed(), bound, LENGTH);
    let this = Path::new(env!("CARGO_BIN_EXE_quorlock-faults")).into();
    let program = Program::prepare(Subject::Quorlock, this).expect("it is built already");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{bound}.jsonl"));
    println!("the history: {}", path.display());
    let records = play(&plan, &program, &path, &Interrupt::default()).expect("the episode can be played");
    Findings::of(bound, &records)
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
