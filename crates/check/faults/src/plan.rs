//! Plans the faults of an episode: the kind, the target and the time of each fault. The seed decides the plan.

mod fault_kind;
mod ordinary_operations;

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;

pub use fault_kind::{Assumptions, FaultKind, FaultTemplate, TargetChoice, templates};

use crate::task::MAX_TTL;

/// The number of client processes.
pub const CLIENTS: usize = 6;
/// The number of networks between clients and nodes. Half of the clients use each network, and a fault affects one
/// network.
pub const NETWORKS: usize = 2;
/// How long a node that lost its memory must not vote: 1.1 x the maximum ttl.
pub const QUARANTINE: Duration = MAX_TTL.saturating_add(Duration::from_millis(300));

/// No fault begins before this time, so that every client has connected.
const FIRST_FAULT_AT: Duration = Duration::from_millis(700);
/// How long clients may take to reconnect to a node.
const RECONNECT_TIME: Duration = Duration::from_millis(500);
/// If all nodes restart one after the other: the time between two restarts, in which clients can reconnect to a node.
const ROLLING_RESTART_PAUSE_MS: std::ops::Range<u64> = 250..400;
/// One in this number of faults hits all nodes.
const ALL_NODES_FAULT_ONE_IN: u32 = 14;
/// If no fault has hit all nodes before this time, the next fault hits all nodes.
const FIRST_ALL_NODES_FAULT_AT: Duration = Duration::from_secs(2);
/// The maximum number of faults that hit all nodes in an episode. During the quarantine after such a fault, clients get
/// no locks.
const ALL_NODES_FAULTS_MAX: usize = 2;
/// The minimum time between two steps of a node's wall clock. It is longer than the ttl, so that at most one step falls
/// between two renewals of a lease.
const CLOCK_STEP_PAUSE: Duration = Duration::from_millis(1_500);

/// The range of the wall clocks' offsets from real time, in milliseconds. It is narrower than half of the maximum clock
/// skew, so that clients never ignore a node because of its clock.
const OFFSETS_MS: std::ops::RangeInclusive<i64> = -400..=50;

/// The target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "indexes from 0")]
pub enum Target {
    Node(usize),
    /// The connections to one node through one of the networks.
    Network {
        node: usize,
        network: usize,
    },
    Client(usize),
    /// The first N nodes, all at once.
    Nodes(usize),
    /// The `quorlock run` that holds the lock when the fault begins.
    Holder,
    Sentinel,
}

/// One fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The time at which the fault begins, since the start of the episode.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Duration,
    /// How long the fault lasts.
    #[serde(rename = "length_ms", serialize_with = "millis")]
    pub length: Duration,
    /// The server, network or process that the fault hits.
    pub target: Target,
    /// The kind of fault.
    pub kind: FaultKind,
    /// The strength of the fault: milliseconds or a number of requests.
    pub amount: u64,
}

fn millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_millis() as u64)
}

/// How a server persists its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "as Redis calls them")]
pub enum Persistence {
    None,
    AofEverysec,
    AofAlways,
}

impl Persistence {
    /// All kinds of persistence.
    pub const ALL: [Self; 3] = [Self::None, Self::AofEverysec, Self::AofAlways];
}

/// `aof-everysec`.
impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The nodes and faults of an episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The seed of the plan.
    pub seed: u64,
    /// Whether all assumptions hold during the episode.
    pub assumptions: Assumptions,
    /// The persistence of each node.
    pub persistence: Vec<Persistence>,
    /// All faults, ordered by the time at which they begin.
    pub faults: Vec<Fault>,
    /// The time for which faults are injected. No fault begins later.
    #[serde(skip)]
    pub length: Duration,
}

impl Plan {
    /// The plan of a seed, which chooses the number of nodes and the mix of faults.
    pub fn new(seed: u64, assumptions: Assumptions, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let nodes = if rng.bool() { 3 } else { 5 };
        let draw_persistence = |rng: &mut Rng| match rng.u32(..4) {
            0 => Persistence::AofEverysec,
            1 => Persistence::AofAlways,
            _ => Persistence::None,
        };
        let persistence: Vec<Persistence> = (0..nodes).map(|_| draw_persistence(&mut rng)).collect();
        let fault_mix = fault_mix(&mut rng, assumptions);
        let mut planner = Planner {
            rng,
            nodes,
            fault_mix,
            all_nodes_faults: 0,
            persistence: persistence.clone(),
            busy_targets: Vec::new(),
            votes_from: vec![Duration::ZERO; nodes],
            offsets_ms: vec![0; nodes],
            faults: Vec::new(),
        };
        let mut at = FIRST_FAULT_AT;
        while at < length {
            at += planner.plan_next_fault(at);
        }
        planner.faults.sort_by_key(|fault| fault.at);
        Self { seed, assumptions, persistence, faults: planner.faults, length }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.persistence.len()
    }

    /// The persistence of each server that the fault hits.
    pub fn persistence_of(&self, fault: &Fault) -> Vec<Persistence> {
        match fault.target {
            Target::Node(node) => self.persistence[node..=node].into(),
            Target::Nodes(count) => self.persistence[..count].into(),
            Target::Network { .. } | Target::Client(_) | Target::Holder | Target::Sentinel => Vec::new(),
        }
    }
}

/// Chooses the kinds of faults of an episode. A kind of fault that keeps the assumptions is chosen with probability 3/4,
/// so that episodes differ. If an assumption is to be broken, one kind of fault breaks it, and is as frequent as all
/// other kinds together.
fn fault_mix(rng: &mut Rng, assumptions: Assumptions) -> Vec<FaultTemplate> {
    let mut usual: Vec<FaultTemplate> = templates(Assumptions::Kept).filter(|_| rng.u32(..4) > 0).collect();
    if assumptions == Assumptions::Broken {
        let breaking: Vec<FaultTemplate> = templates(Assumptions::Broken).collect();
        let Some(chosen) = rng.choice(&breaking) else { return usual };
        // Clock jumps use up the allowed clock skew.
        usual.retain(|template| !template.kind.changes_clock());
        let weight = usual.len().max(1);
        usual.extend(std::iter::repeat_n(*chosen, weight));
    }
    usual
}

struct Planner {
    rng: Rng,
    nodes: usize,
    fault_mix: Vec<FaultTemplate>,
    all_nodes_faults: usize,
    persistence: Vec<Persistence>,
    /// The targets that must not get another fault yet, each with the time until which this holds.
    busy_targets: Vec<(Target, Duration)>,
    /// For each node, the time from which the node can vote.
    votes_from: Vec<Duration>,
    /// The offset of each node's wall clock.
    offsets_ms: Vec<i64>,
    faults: Vec<Fault>,
}

impl Planner {
    /// Plans a fault that begins at `at`, if one is possible. Returns the pause until the next fault.
    fn plan_next_fault(&mut self, at: Duration) -> Duration {
        let pause = Duration::from_millis(self.rng.u64(60..600));
        let is_due = self.all_nodes_faults == 0 && at > FIRST_ALL_NODES_FAULT_AT;
        let is_drawn = self.rng.u32(..ALL_NODES_FAULT_ONE_IN) == 0 && self.all_nodes_faults < ALL_NODES_FAULTS_MAX;
        if is_due || is_drawn {
            let are_all_nodes_free = (0..self.nodes).all(|node| self.is_free(Target::Node(node), at));
            if are_all_nodes_free {
                return self.plan_faults_of_all_nodes(at) + pause;
            }
        }
        let Some(template) = self.rng.choice(&self.fault_mix.clone()).copied() else { return pause };
        if is_due
            && matches!(template.target, TargetChoice::Node | TargetChoice::Majority | TargetChoice::OneOrMajority)
        {
            return pause;
        }
        let Some(target) = self.choose_free_target(template, at) else { return pause };
        let length = Duration::from_millis(self.rng.u64(template.length_ms.0..=template.length_ms.1));
        let amount = self.rng.u64(template.amount.0..=template.amount.1);
        if self.keeps_clock_in_range(target, template.kind, amount as i64) {
            self.add(Fault { at, length, target, kind: template.kind, amount });
        }
        pause
    }

    /// Whether the node's wall clock stays within `OFFSETS_MS` after the fault. If so, records the new offset.
    fn keeps_clock_in_range(&mut self, target: Target, kind: FaultKind, amount: i64) -> bool {
        let (Target::Node(node), FaultKind::StepBack | FaultKind::StepAhead) = (target, kind) else { return true };
        let offset = self.offsets_ms[node] + if kind == FaultKind::StepAhead { amount } else { -amount };
        let is_allowed = OFFSETS_MS.contains(&offset);
        if is_allowed {
            self.offsets_ms[node] = offset;
        }
        is_allowed
    }

    /// Plans faults by which all nodes lose their memory or restart from their files, one after the other or all at once.
    /// Returns the time from the first of these faults to the end of the last one.
    fn plan_faults_of_all_nodes(&mut self, at: Duration) -> Duration {
        self.all_nodes_faults += 1;
        let kind = match self.rng.u32(..6) {
            0 | 1 => return self.plan_rolling_restarts(at),
            2 | 3 => FaultKind::Flush,
            4 => FaultKind::Kill,
            _ => FaultKind::Wipe,
        };
        let length =
            if kind == FaultKind::Flush { Duration::ZERO } else { Duration::from_millis(self.rng.u64(1..300)) };
        self.add(Fault { at, length, target: Target::Nodes(self.nodes), kind, amount: 0 });
        length
    }

    fn plan_rolling_restarts(&mut self, at: Duration) -> Duration {
        let mut offset = Duration::ZERO;
        for node in 0..self.nodes {
            let length = Duration::from_millis(self.rng.u64(1..80));
            // Both kinds put the node into quarantine: also the files that a killed node loads may be out of date.
            let kind = if self.rng.u32(..3) == 0 { FaultKind::Kill } else { FaultKind::Wipe };
            self.add(Fault { at: at + offset, length, target: Target::Node(node), kind, amount: 0 });
            offset += length + Duration::from_millis(self.rng.u64(ROLLING_RESTART_PAUSE_MS));
        }
        offset
    }

    fn add(&mut self, fault: Fault) {
        let end = fault.at + fault.length;
        let nodes = match fault.target {
            Target::Node(node) => node..node + 1,
            Target::Nodes(count) => 0..count,
            Target::Network { .. } | Target::Client(_) | Target::Holder | Target::Sentinel => 0..0,
        };
        let pause = if fault.kind.changes_clock() { CLOCK_STEP_PAUSE } else { RECONNECT_TIME };
        for node in nodes {
            self.busy_targets.push((Target::Node(node), end + pause));
            self.votes_from[node] =
                end + if fault.kind.counts_as_memory_loss() { QUARANTINE + RECONNECT_TIME } else { RECONNECT_TIME };
        }
        self.busy_targets.push((fault.target, end + pause));
        self.faults.push(fault);
    }

    fn choose_free_target(&mut self, template: FaultTemplate, at: Duration) -> Option<Target> {
        let node = self.rng.usize(..self.nodes);
        let target = match template.target {
            TargetChoice::Node => Target::Node(node),
            TargetChoice::Network => Target::Network { node, network: self.rng.usize(..NETWORKS) },
            TargetChoice::Client => Target::Client(self.rng.usize(..CLIENTS)),
            TargetChoice::OneOrMajority if self.rng.bool() => Target::Node(node),
            TargetChoice::Majority | TargetChoice::OneOrMajority => {
                Target::Nodes(self.rng.usize(quorlock_core::quorum::Quorum::majority_of(self.nodes)..=self.nodes))
            }
        };
        let is_free = match target {
            Target::Nodes(count) => (0..count).all(|node| self.is_free(Target::Node(node), at)),
            Target::Node(_) if template.kind.prevents_votes() && !self.can_lose_a_node(at) => false,
            // A server without persistence does not sync.
            Target::Node(node)
                if template.kind == FaultKind::SlowDisk && self.persistence[node] == Persistence::None =>
            {
                false
            }
            _ => self.is_free(target, at),
        };
        is_free.then_some(target)
    }

    fn is_free(&self, target: Target, at: Duration) -> bool {
        self.busy_targets.iter().all(|(busy, until)| *busy != target || *until <= at)
    }

    /// Whether a majority can vote even if one more node cannot. Faults of single nodes must leave a majority that can
    /// vote, because an episode without leases tests nothing.
    fn can_lose_a_node(&self, at: Duration) -> bool {
        let nodes_without_vote = self.votes_from.iter().filter(|votes_from| **votes_from > at).count();
        nodes_without_vote < (self.nodes - 1) / 2
    }
}

#[cfg(test)]
mod tests;
