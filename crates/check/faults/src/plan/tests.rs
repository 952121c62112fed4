use std::collections::BTreeSet;

use super::*;
use crate::series::Series;

const LENGTH: Duration = Duration::from_secs(20);

#[test]
fn the_same_seed_gives_the_same_plan_and_another_seed_gives_another_plan() {
    for assumptions in [Assumptions::Kept, Assumptions::Broken] {
        assert_eq!(Plan::new(7, assumptions, LENGTH), Plan::new(7, assumptions, LENGTH));
        assert_ne!(Plan::new(7, assumptions, LENGTH).faults, Plan::new(8, assumptions, LENGTH).faults);
    }
}

#[test]
fn only_plans_beyond_the_assumptions_break_an_assumption() {
    let breaking_kinds: BTreeSet<FaultKind> = templates(Assumptions::Broken).map(|template| template.kind).collect();
    for seed in 0..200 {
        let breaks_an_assumption = |assumptions| {
            Plan::new(seed, assumptions, LENGTH).faults.iter().any(|fault| breaking_kinds.contains(&fault.kind))
        };
        assert!(!breaks_an_assumption(Assumptions::Kept), "seed {seed}");
        assert!(breaks_an_assumption(Assumptions::Broken), "seed {seed}");
    }
}

#[test]
fn every_kind_of_fault_is_planned() {
    let mut missing: BTreeSet<FaultKind> = [Assumptions::Kept, Assumptions::Broken]
        .into_iter()
        .flat_map(templates)
        .map(|template| template.kind)
        .collect();
    for seed in 0..200 {
        for assumptions in [Assumptions::Kept, Assumptions::Broken] {
            for fault in Plan::new(seed, assumptions, LENGTH).faults {
                missing.remove(&fault.kind);
            }
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn fifteen_episodes_kill_servers_of_every_persistence() {
    for first in (0..300).step_by(15) {
        let plans = (first..first + 15).map(|seed| Plan::new(seed, Assumptions::Kept, LENGTH));
        let persistence_of_killed: BTreeSet<Persistence> = plans
            .flat_map(|plan| {
                let kills = plan.faults.iter().filter(|fault| fault.kind == FaultKind::Kill);
                kills.flat_map(|fault| plan.persistence_of(fault)).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(persistence_of_killed, Persistence::ALL.into(), "from seed {first} on");
    }
}

#[test]
fn a_target_has_one_fault_at_a_time() {
    for seed in 0..200 {
        let faults = Plan::new(seed, Assumptions::Broken, LENGTH).faults;
        for (position, fault) in faults.iter().enumerate() {
            for later in faults[position + 1..].iter().filter(|later| later.target == fault.target) {
                assert!(fault.at + fault.length <= later.at, "seed {seed}: {fault:?} and {later:?}");
            }
        }
    }
}

#[test]
fn wall_clocks_stay_within_the_allowed_skew() {
    for seed in 0..500 {
        for assumptions in [Assumptions::Kept, Assumptions::Broken] {
            let plan = Plan::new(seed, assumptions, LENGTH);
            let mut offsets = vec![0_i64; plan.nodes()];
            for fault in &plan.faults {
                if let (Target::Node(node), FaultKind::StepBack | FaultKind::StepAhead) = (fault.target, fault.kind) {
                    let amount = fault.amount as i64;
                    offsets[node] += if fault.kind == FaultKind::StepAhead { amount } else { -amount };
                    assert!(OFFSETS_MS.contains(&offsets[node]), "seed {seed}: {offsets:?}");
                }
            }
        }
    }
}

#[test]
fn all_nodes_lose_their_memory_once_or_twice() {
    for seed in 0..200 {
        for assumptions in [Assumptions::Kept, Assumptions::Broken] {
            let plan = Plan::new(seed, assumptions, LENGTH);
            let faults_of_all_nodes = plan.faults.iter().filter(|fault| fault.target == Target::Nodes(plan.nodes()));
            let faults_of_all_nodes = faults_of_all_nodes.filter(|fault| fault.kind.counts_as_memory_loss()).count();
            let is_restart = |fault: &Fault| matches!(fault.kind, FaultKind::Kill | FaultKind::Wipe);
            let is_restarted =
                |node| plan.faults.iter().any(|fault| fault.target == Target::Node(node) && is_restart(fault));
            assert!(faults_of_all_nodes > 0 || (0..plan.nodes()).all(is_restarted), "seed {seed}: {:?}", plan.faults);
            assert!(faults_of_all_nodes <= ALL_NODES_FAULTS_MAX, "seed {seed}");
        }
    }
}

const SIGNALS: [FaultKind; 5] = [
    FaultKind::StopWrapper,
    FaultKind::KillWrapper,
    FaultKind::StopGuard,
    FaultKind::KillGuard,
    FaultKind::KillGuardThenWrapper,
];

#[test]
fn every_series_plans_only_its_own_operations() {
    for (series, kinds) in [
        (Series::Operations, &[FaultKind::Backup, FaultKind::Replica][..]),
        (Series::Processes, &SIGNALS),
        (Series::Stopped, &[FaultKind::StopBoth]),
        (Series::Restarts, &[FaultKind::Kill]),
        (Series::Sentinel, &[FaultKind::RestartSentinel, FaultKind::SilenceSentinel, FaultKind::FailOver]),
    ] {
        let plan = |seed| Plan::of(series, seed, LENGTH);
        let planned: BTreeSet<FaultKind> = (0..50).flat_map(|seed| plan(seed).faults).map(|fault| fault.kind).collect();
        assert_eq!(planned, kinds.iter().copied().collect(), "{series}");
        assert_eq!((plan(7), plan(7).assumptions), (plan(7), series.assumptions()));
    }
}

#[test]
fn a_majority_is_backed_up_in_every_episode_of_operations() {
    for seed in 0..50 {
        let plan = Plan::of(Series::Operations, seed, LENGTH);
        let is_of_majority =
            |fault: &Fault| fault.kind == FaultKind::Backup && matches!(fault.target, Target::Nodes(2..));
        assert!(plan.faults.iter().any(is_of_majority), "seed {seed}: {plan:?}");
    }
}

#[test]
fn every_signal_is_sent_in_every_episode_of_processes() {
    for seed in 0..50 {
        let plan = Plan::of(Series::Processes, seed, LENGTH);
        let planned: BTreeSet<FaultKind> = plan.faults.iter().map(|fault| fault.kind).collect();
        assert_eq!(planned, SIGNALS.into(), "seed {seed}");
    }
}

#[test]
fn a_failover_comes_after_the_sentinel_has_restarted_or_fallen_silent() {
    let kinds_of_first_fault: BTreeSet<FaultKind> = (0..50)
        .map(|seed| {
            let plan = Plan::of(Series::Sentinel, seed, LENGTH);
            assert_eq!(plan.faults[1].kind, FaultKind::FailOver);
            assert!(plan.faults[0].at < plan.faults[1].at);
            plan.faults[0].kind
        })
        .collect();
    assert_eq!(kinds_of_first_fault, [FaultKind::RestartSentinel, FaultKind::SilenceSentinel].into());
}

#[test]
fn every_server_of_the_series_restarts_has_files() {
    for seed in 0..50 {
        let plan = Plan::of(Series::Restarts, seed, LENGTH);
        assert!(plan.persistence.iter().all(|persistence| *persistence != Persistence::None), "seed {seed}: {plan:?}");
        assert_eq!(plan.faults[0].target, Target::Nodes(2));
    }
}
