//! Runs with fresh seeds and with the seeds of past bugs have no violation, and the seed decides all events of a run.

use std::time::{Duration, Instant};

use quorlock::Rule;
use quorlock_sim::past_bugs::{self, PastBug};
use quorlock_sim::plan::Plan;
use quorlock_sim::report::{MutantRuns, RunResults};
use quorlock_sim::run::{Flaw, Options, Violation, fresh_seed, run, run_plan};

/// The smallest number of fresh seeds. Until [`FRESH_SEEDS_TIME`] has passed, the test runs more seeds, up to
/// [`FRESH_SEEDS_MAX`].
const FRESH_SEEDS_MIN: u64 = 2_000;
const FRESH_SEEDS_MAX: u64 = 4_000;
const FRESH_SEEDS_TIME: Duration = Duration::from_secs(30);

#[test]
fn runs_with_fresh_seeds_have_no_violation() {
    let (first_seed, started) = (fresh_seed(), Instant::now());
    println!("from seed {first_seed} on");
    let mut results = RunResults::default();
    for at in 0..FRESH_SEEDS_MAX {
        if at >= FRESH_SEEDS_MIN && started.elapsed() > FRESH_SEEDS_TIME {
            break;
        }
        let seed = first_seed.wrapping_add(at);
        results.add(seed, &run(seed, Options::default()));
        if let Some((seed, violation)) = &results.first_failure {
            panic!("{violation}; to print this run: ./x sim --seed {seed} --trace");
        }
    }
    println!("{} runs in {:.1?}\n{results}", results.runs(), started.elapsed());
}

#[test]
fn every_rule_is_needed() {
    for (name, rule) in Rule::ALL {
        let mutant = MutantRuns::until_failure(rule, fresh_seed());
        println!("{mutant}");
        let (seed, _) = mutant.first_failure.unwrap_or_else(|| panic!("no run failed without {name}"));
        assert!(
            past_bugs::SEEDS_WITHOUT_RULE.contains(&(name, seed)),
            "the stored seed no longer fails without {name}: store {seed}"
        );
    }
}

#[test]
fn past_bugs_do_not_return() {
    for PastBug { name, seed, description, .. } in past_bugs::ALL {
        let violation = run(*seed, Options::default()).violation;
        assert_eq!(violation, None, "{name}, with seed {seed}: {description}");
    }
}

#[test]
fn runs_of_past_bugs_have_their_stored_shape() {
    for PastBug { name, seed, shape, .. } in past_bugs::ALL {
        let shape_now = run(*seed, Options::default()).shape;
        assert_eq!(
            shape_now, *shape,
            "{name}: the run of seed {seed} has changed and may not show the bug any more; see crates/check/sim/src/past_bugs.rs"
        );
    }
}

#[test]
fn a_seed_decides_all_events_of_a_run() {
    for seed in 0..200 {
        let (one, other) = (run(seed, Options::default()), run(seed, Options::default()));
        assert_eq!((one.fingerprint, one.counts, one.steps), (other.fingerprint, other.counts, other.steps), "{seed}");
    }
}

#[test]
fn a_trace_does_not_change_the_run() {
    for seed in 0..100 {
        let (without_trace, with_trace) =
            (run(seed, Options::default()), run(seed, Options { has_trace: true, ..Options::default() }));
        assert_eq!(
            (without_trace.fingerprint, without_trace.counts),
            (with_trace.fingerprint, with_trace.counts),
            "{seed}"
        );
        assert_eq!(with_trace.trace, run(seed, Options { has_trace: true, ..Options::default() }).trace, "{seed}");
    }
}

#[test]
fn the_simulation_detects_deliberate_bugs_in_retirements() {
    for (flaw, violation) in [
        (Flaw::RetirementWithoutTombstone, Violation::RetiredOwnerHolds),
        (Flaw::RetirementFromAllNames, Violation::WronglyRetired),
    ] {
        let mut plans = (0..).map(Plan::of).filter(Plan::has_retirement).take(2_000);
        let options = Options { flaw: Some(flaw), ..Options::default() };
        let found =
            plans.find_map(|plan| run_plan(plan.clone(), options).violation.map(|violation| (plan.seed, violation)));
        println!("{flaw:?}: {found:?}");
        assert_eq!(found.map(|(_, found)| found), Some(violation), "{flaw:?}");
    }
}
