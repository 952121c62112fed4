use std::collections::BTreeSet;

use super::*;
use crate::series::Series;

const LENGTH: Duration = Duration::from_secs(20);

#[test]
fn the_same_seed_gives_the_same_plan_and_another_seed_another() {
    for bound in [Bound::Within, Bound::Beyond] {
        assert_eq!(Plan::new(7, bound, LENGTH), Plan::new(7, bound, LENGTH));
        assert_ne!(Plan::new(7, bound, LENGTH).deeds, Plan::new(8, bound, LENGTH).deeds);
    }
}

#[test]
fn nothing_breaks_an_assumption_unless_it_may() {
    let breaking: BTreeSet<Act> = kinds(Bound::Beyond).map(|kind| kind.act).collect();
    for seed in 0..200 {
        let breaks = |bound| Plan::new(seed, bound, LENGTH).deeds.iter().any(|deed| breaking.contains(&deed.act));
        assert!(!breaks(Bound::Within), "seed {seed}");
        assert!(breaks(Bound::Beyond), "seed {seed}");
    }
}

#[test]
fn every_kind_of_fault_is_planned_sooner_or_later() {
    let mut missing: BTreeSet<Act> =
        [Bound::Within, Bound::Beyond].into_iter().flat_map(kinds).map(|k| k.act).collect();
    for seed in 0..200 {
        for bound in [Bound::Within, Bound::Beyond] {
            for deed in Plan::new(seed, bound, LENGTH).deeds {
                missing.remove(&deed.act);
            }
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn servers_are_killed_whatever_they_keep_in_a_few_episodes() {
    for first in (0..300).step_by(15) {
        let plans = (first..first + 15).map(|seed| Plan::new(seed, Bound::Within, LENGTH));
        let killed: BTreeSet<Memory> = plans
            .flat_map(|plan| {
                let kills = plan.deeds.iter().filter(|deed| deed.act == Act::Kill);
                kills.flat_map(|deed| plan.memories_of(deed)).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(killed, Memory::ALL.into(), "from seed {first} on");
    }
}

#[test]
fn nothing_is_done_to_whom_something_is_being_done() {
    for seed in 0..200 {
        let deeds = Plan::new(seed, Bound::Beyond, LENGTH).deeds;
        for (position, deed) in deeds.iter().enumerate() {
            for later in deeds[position + 1..].iter().filter(|later| later.target == deed.target) {
                assert!(deed.at + deed.length <= later.at, "seed {seed}: {deed:?} and {later:?}");
            }
        }
    }
}

#[test]
fn wall_clocks_stay_together_as_far_as_fences_need_it() {
    for seed in 0..500 {
        for bound in [Bound::Within, Bound::Beyond] {
            let plan = Plan::new(seed, bound, LENGTH);
            let mut offsets = vec![0_i64; plan.nodes()];
            for deed in &plan.deeds {
                if let (Target::Node(node), Act::StepBack | Act::Nudge) = (deed.target, deed.act) {
                    let amount = deed.amount as i64;
                    offsets[node] += if deed.act == Act::Nudge { amount } else { -amount };
                    assert!(OFFSETS_MS.contains(&offsets[node]), "seed {seed}: {offsets:?}");
                }
            }
        }
    }
}

#[test]
fn all_nodes_lose_their_memory_once_or_twice() {
    for seed in 0..200 {
        for bound in [Bound::Within, Bound::Beyond] {
            let plan = Plan::new(seed, bound, LENGTH);
            let at_once = plan.deeds.iter().filter(|deed| deed.target == Target::Nodes(plan.nodes()));
            let at_once = at_once.filter(|deed| deed.act.costs_memory()).count();
            let ends = |deed: &Deed| matches!(deed.act, Act::Kill | Act::Wipe);
            let ended = |node| plan.deeds.iter().any(|deed| deed.target == Target::Node(node) && ends(deed));
            assert!(at_once > 0 || (0..plan.nodes()).all(ended), "seed {seed}: {:?}", plan.deeds);
            assert!(at_once <= STORMS_MAX, "seed {seed}");
        }
    }
}

const SIGNALS: [Act; 5] =
    [Act::StopWrapper, Act::KillWrapper, Act::StopGuard, Act::KillGuard, Act::KillGuardThenWrapper];

#[test]
fn ordinary_operations_are_those_of_their_series() {
    for (series, acts) in [
        (Series::Operations, &[Act::Backup, Act::Replica][..]),
        (Series::Processes, &SIGNALS),
        (Series::Stopped, &[Act::StopBoth]),
        (Series::Restarts, &[Act::Kill]),
        (Series::Sentinel, &[Act::RestartSentinel, Act::SilenceSentinel, Act::FailOver]),
    ] {
        let plan = |seed| Plan::of(series, seed, LENGTH);
        let done: BTreeSet<Act> = (0..50).flat_map(|seed| plan(seed).deeds).map(|deed| deed.act).collect();
        assert_eq!(done, acts.iter().copied().collect(), "{series}");
        assert_eq!((plan(7), plan(7).bound), (plan(7), series.bound()));
    }
}

#[test]
fn a_majority_is_backed_up_in_every_episode_of_operations() {
    for seed in 0..50 {
        let plan = Plan::of(Series::Operations, seed, LENGTH);
        let is_of_majority = |deed: &Deed| deed.act == Act::Backup && matches!(deed.target, Target::Nodes(2..));
        assert!(plan.deeds.iter().any(is_of_majority), "seed {seed}: {plan:?}");
    }
}

#[test]
fn every_signal_is_sent_in_every_episode_of_processes() {
    for seed in 0..50 {
        let plan = Plan::of(Series::Processes, seed, LENGTH);
        let done: BTreeSet<Act> = plan.deeds.iter().map(|deed| deed.act).collect();
        assert_eq!(done, SIGNALS.into(), "seed {seed}");
    }
}

#[test]
fn a_failover_comes_after_the_sentinel_has_restarted_or_fallen_silent() {
    let first: BTreeSet<Act> = (0..50)
        .map(|seed| {
            let plan = Plan::of(Series::Sentinel, seed, LENGTH);
            assert_eq!(plan.deeds[1].act, Act::FailOver);
            assert!(plan.deeds[0].at < plan.deeds[1].at);
            plan.deeds[0].act
        })
        .collect();
    assert_eq!(first, [Act::RestartSentinel, Act::SilenceSentinel].into());
}

#[test]
fn a_majority_that_restarts_has_kept_its_files() {
    for seed in 0..50 {
        let plan = Plan::of(Series::Restarts, seed, LENGTH);
        assert!(plan.memories.iter().all(|memory| *memory != Memory::None), "seed {seed}: {plan:?}");
        assert_eq!(plan.deeds[0].target, Target::Nodes(2));
    }
}
