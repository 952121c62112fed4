//! The planned faults of the nodes, which depend only on the seed.

use std::time::Duration;

use quorlock::MemoryNodes;
use quorlock_core::rng::Seeded;
use serde::{Serialize, Serializer};

use super::{NODES, QUARANTINE, TTL};

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum Fault {
    /// The node stops, and returns with an empty memory.
    Crash,
    /// The node stops with its connections open, as on SIGSTOP.
    Freeze,
    /// The node cannot be reached, but keeps its memory.
    Cut,
}

/// The first faults of a demonstration, in this order. Later faults are random.
pub(in super::super) const FAULTS: [Fault; 3] = [Fault::Crash, Fault::Freeze, Fault::Cut];

impl Fault {
    /// Begins the fault on a node, or ends it.
    pub(in super::super) fn perform(self, nodes: &MemoryNodes, node: usize, begins: bool) {
        match (self, begins) {
            (Self::Freeze, true) => nodes.freeze(node),
            (Self::Freeze, false) => nodes.thaw(node),
            (Self::Cut | Self::Crash, true) => nodes.down(node),
            (Self::Cut, false) => nodes.up(node),
            (Self::Crash, false) => nodes.restart_empty(node),
        }
    }
}

/// One fault of one node. Nodes are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Outage {
    pub(super) node: usize,
    pub(super) fault: Fault,
    #[serde(rename = "from_ms", serialize_with = "millis")]
    pub(super) from: Duration,
    #[serde(rename = "until_ms", serialize_with = "millis")]
    pub(super) until: Duration,
}

fn millis<S: Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(crate::duration::millis(*at))
}

/// The time without faults at the beginning and at the end.
const CALM: Duration = Duration::from_secs(1);
/// The time that clients may need to reconnect after a fault has ended.
const RECONNECT_TIME: Duration = Duration::from_millis(1_200);
/// The largest number of nodes that have a fault at the same time, except in a storm (see [`plan`]): a minority.
const FAULTY_NODES_MAX: usize = (NODES - 1) / 2;
/// The number of nodes that freeze at once in a storm: a majority.
const STORM_NODES: usize = quorlock::Quorum::majority_of(NODES);
/// The number of faults before each storm.
const FAULTS_PER_STORM: usize = 4;

/// Returns the plan of a seed: first one fault of each kind, then random faults, with storms in between.
///
/// In a storm, a majority stops for longer than a lease lasts. Every holder loses its lease, and must notice the loss
/// before another worker can acquire the name.
pub(super) fn plan(seed: u64, length: Duration) -> Vec<Outage> {
    let mut rng = Seeded::new(seed);
    // When each node may fail again.
    let mut busy_until = [Duration::ZERO; NODES];
    let mut plan = Vec::new();
    let (mut at, mut faults) = (CALM, 0);
    while at + CALM <= length {
        let mut healthy: Vec<usize> = (0..NODES).filter(|node| busy_until[*node] <= at).collect();
        let is_storm = faults % (FAULTS_PER_STORM + 1) == FAULTS_PER_STORM;
        if !is_storm && NODES - healthy.len() >= FAULTY_NODES_MAX {
            at = busy_until.into_iter().filter(|until| *until > at).min().unwrap_or(at);
            continue;
        }
        let fault = match FAULTS.get(faults) {
            _ if is_storm => Fault::Freeze,
            Some(fault) => *fault,
            None => rng.pick(&FAULTS),
        };
        let (outage, recovery) = match fault {
            _ if is_storm => (TTL + rng.millis(300, 900), Duration::ZERO),
            Fault::Crash => (rng.millis(300, 1_200), QUARANTINE),
            Fault::Freeze => (rng.millis(700, 2_500), Duration::ZERO),
            Fault::Cut => (rng.millis(500, 2_000), Duration::ZERO),
        };
        let until = at + outage;
        for _ in 0..healthy.len().min(if is_storm { STORM_NODES } else { 1 }) {
            let node = healthy.swap_remove(rng.index(healthy.len()));
            plan.push(Outage { node, fault, from: at, until });
            busy_until[node] = until + recovery + RECONNECT_TIME;
        }
        faults += 1;
        at = if is_storm { until + rng.millis(900, 1_900) } else { at + rng.millis(700, 1_900) };
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(60);

    #[test]
    fn the_seed_decides_the_plan() {
        assert_eq!(plan(7, LENGTH), plan(7, LENGTH));
        assert_ne!(plan(7, LENGTH), plan(8, LENGTH));
    }

    #[test]
    fn a_longer_plan_begins_with_the_shorter_plan_of_the_same_seed() {
        let (long, short) = (plan(7, LENGTH), plan(7, LENGTH / 4));
        let beginning =
            |plan: &[Outage]| plan.iter().filter(|outage| outage.from + CALM < LENGTH / 4).copied().collect::<Vec<_>>();
        assert_eq!(beginning(&long), beginning(&short));
    }

    #[test]
    fn a_short_plan_has_every_kind_of_fault_and_a_storm() {
        for seed in 0..50 {
            let plan = plan(seed, LENGTH / 3);
            for fault in FAULTS {
                assert!(plan.iter().any(|outage| outage.fault == fault), "seed {seed}: no {fault:?} in {plan:?}");
            }
            let storm =
                plan.iter().any(|outage| plan.iter().filter(|other| other.from == outage.from).count() >= STORM_NODES);
            assert!(storm, "seed {seed}: {plan:?}");
        }
    }

    #[test]
    fn a_node_has_one_fault_at_a_time() {
        for seed in 0..50 {
            for node in 0..NODES {
                let plan = plan(seed, LENGTH);
                let outages: Vec<_> = plan.iter().filter(|outage| outage.node == node).collect();
                assert!(outages.windows(2).all(|pair| pair[0].until < pair[1].from), "seed {seed}: {outages:?}");
            }
        }
    }
}
