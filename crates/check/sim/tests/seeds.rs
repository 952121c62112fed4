//! Fresh seeds pass, seeds of past bugs pass, and a seed decides everything.

use std::time::{Duration, Instant};

use quorlock::Rule;
use quorlock_sim::past_bugs::{self, PastBug};
use quorlock_sim::plan::Plan;
use quorlock_sim::report::{MutantRuns, Sweep};
use quorlock_sim::run::{Breach, Flaw, Options, fresh_seed, run, run_plan};

/// The number of fresh seeds: at least this many, and more within a time limit.
const FRESH_MIN: u64 = 2_000;
const FRESH_MAX: u64 = 4_000;
const FRESH_TIME: Duration = Duration::from_secs(30);

#[test]
fn fresh_seeds_break_nothing() {
    let (base, began) = (fresh_seed(), Instant::now());
    println!("from seed {base} on");
    let mut sweep = Sweep::default();
    for at in 0..FRESH_MAX {
        if at >= FRESH_MIN && began.elapsed() > FRESH_TIME {
            break;
        }
        let seed = base.wrapping_add(at);
        sweep.add(seed, &run(seed, Options::default()));
        if let Some((seed, breach)) = &sweep.first_failure {
            panic!("{breach}; to print this run: ./x sim --seed {seed} --trace");
        }
    }
    println!("{} runs in {:.1?}\n{sweep}", sweep.runs(), began.elapsed());
}

#[test]
fn every_rule_is_needed() {
    for (name, rule) in Rule::ALL {
        let mutant = MutantRuns::once(rule, fresh_seed());
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
        let breach = run(*seed, Options::default()).breach;
        assert_eq!(breach, None, "{name}, with seed {seed}: {description}");
    }
}

#[test]
fn runs_of_past_bugs_have_their_stored_shape() {
    for PastBug { name, seed, shape, .. } in past_bugs::ALL {
        let now = run(*seed, Options::default()).shape;
        assert_eq!(
            now, *shape,
            "{name}: the run of seed {seed} has changed and may not show the bug any more; see crates/check/sim/src/past_bugs.rs"
        );
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..200 {
        let (one, other) = (run(seed, Options::default()), run(seed, Options::default()));
        assert_eq!((one.fingerprint, one.counts, one.steps), (other.fingerprint, other.counts, other.steps), "{seed}");
    }
}

#[test]
fn a_story_does_not_change_the_run() {
    for seed in 0..100 {
        let (silent, told) =
            (run(seed, Options::default()), run(seed, Options { has_story: true, ..Options::default() }));
        assert_eq!((silent.fingerprint, silent.counts), (told.fingerprint, told.counts), "{seed}");
        assert_eq!(told.story, run(seed, Options { has_story: true, ..Options::default() }).story, "{seed}");
    }
}

/// Checks that the judge notices deliberate bugs in the retirement of an owner.
#[test]
fn wrong_retirements_are_detected() {
    for (flaw, breach) in [
        (Flaw::RetirementWithoutTombstone, Breach::RetiredOwnerHolds),
        (Flaw::RetirementFromAllNames, Breach::WronglyRetired),
    ] {
        let mut plans = (0..).map(Plan::of).filter(Plan::has_retirement).take(2_000);
        let options = Options { flaw: Some(flaw), ..Options::default() };
        let found = plans.find_map(|plan| run_plan(plan.clone(), options).breach.map(|breach| (plan.seed, breach)));
        println!("{flaw:?}: {found:?}");
        assert_eq!(found.map(|(_, found)| found), Some(breach), "{flaw:?}");
    }
}
