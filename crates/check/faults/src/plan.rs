//! The faults of an episode: the kind, the target and the time of each fault. The seed decides all faults in advance.

mod act;
mod ordinary;

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;

pub use act::{Act, Bound, Kind, TargetKind, kinds};

use crate::task::MAX_TTL;

/// The number of client processes.
pub const CLIENTS: usize = 6;
/// The number of networks between clients and nodes. Half of the clients use each network, and each network fails by
/// itself.
pub const NETWORKS: usize = 2;
/// How long a node that lost its memory must not vote: 1.1 x the maximum ttl.
pub const QUARANTINE: Duration = MAX_TTL.saturating_add(Duration::from_millis(300));

/// No fault begins before this time, so that every client has connected.
const FIRST_FAULT_AT: Duration = Duration::from_millis(700);
/// How long clients may take to reconnect to a node.
const RECONNECT_TIME: Duration = Duration::from_millis(500);
/// The time between the faults of two nodes in a storm, in which clients can reconnect to the first node.
const ROLLING_MS: std::ops::Range<u64> = 250..400;
/// One fault in this many is a storm: a fault of all nodes.
const STORM_ONE_IN: u32 = 14;
/// The first storm begins soon after this time, at the latest.
const FIRST_STORM_AT: Duration = Duration::from_secs(2);
/// The maximum number of storms in an episode. After a storm no node votes for a while.
const STORMS_MAX: usize = 2;
/// The time between two steps of a node's wall clock. It is longer than a lease, so that a lease sees at most one step.
const CLOCK_STEP_PAUSE: Duration = Duration::from_millis(1_500);

/// The range of the wall clocks' offsets from the true time, in milliseconds. Two offsets never differ by more than
/// half of the maximum clock skew, so that no node counts as skewed.
const OFFSETS_MS: std::ops::RangeInclusive<i64> = -400..=50;

/// The target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "numbers from 0")]
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
    pub act: Act,
    /// The strength of the fault: milliseconds or a number of requests.
    pub amount: u64,
}

fn millis<S: serde::Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(at.as_millis() as u64)
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

/// Everything about an episode that is decided in advance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The seed of the plan.
    pub seed: u64,
    /// Whether all assumptions hold during the episode.
    pub bound: Bound,
    /// The persistence of each node.
    pub persistence: Vec<Persistence>,
    /// All faults, ordered by start time.
    pub faults: Vec<Fault>,
    /// The latest start time of a fault.
    #[serde(skip)]
    pub length: Duration,
}

impl Plan {
    /// The plan of a seed. Each seed has its own number of nodes and its own mix of faults.
    pub fn new(seed: u64, bound: Bound, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let nodes = if rng.bool() { 3 } else { 5 };
        let draw_persistence = |rng: &mut Rng| match rng.u32(..4) {
            0 => Persistence::AofEverysec,
            1 => Persistence::AofAlways,
            _ => Persistence::None,
        };
        let persistence: Vec<Persistence> = (0..nodes).map(|_| draw_persistence(&mut rng)).collect();
        let mix = mix(&mut rng, bound);
        let mut planner = Planner {
            rng,
            nodes,
            mix,
            storms: 0,
            persistence: persistence.clone(),
            busy: Vec::new(),
            votes_from: vec![Duration::ZERO; nodes],
            offsets_ms: vec![0; nodes],
            faults: Vec::new(),
        };
        let mut at = FIRST_FAULT_AT;
        while at < length {
            at += planner.step(at);
        }
        planner.faults.sort_by_key(|fault| fault.at);
        Self { seed, bound, persistence, faults: planner.faults, length }
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

/// The kinds of faults of an episode. Each kind occurs with probability 3/4, so that rare combinations occur. Beyond
/// the assumptions, one kind breaks an assumption, and is as frequent as all other kinds together.
fn mix(rng: &mut Rng, bound: Bound) -> Vec<Kind> {
    let mut usual: Vec<Kind> = kinds(Bound::Within).filter(|_| rng.u32(..4) > 0).collect();
    if bound == Bound::Beyond {
        let breaking: Vec<Kind> = kinds(Bound::Beyond).collect();
        let Some(chosen) = rng.choice(&breaking) else { return usual };
        // Clock jumps use up the allowed clock skew.
        usual.retain(|kind| !kind.act.moves_clock());
        let weight = usual.len().max(1);
        usual.extend(std::iter::repeat_n(*chosen, weight));
    }
    usual
}

struct Planner {
    rng: Rng,
    nodes: usize,
    mix: Vec<Kind>,
    storms: usize,
    persistence: Vec<Persistence>,
    /// The targets that have a fault, each with the end of its fault.
    busy: Vec<(Target, Duration)>,
    /// For each node, the time from which the node can vote again.
    votes_from: Vec<Duration>,
    /// The offset of each node's wall clock.
    offsets_ms: Vec<i64>,
    faults: Vec<Fault>,
}

impl Planner {
    /// Plans a fault for this moment if one is possible. Returns the pause until the next fault.
    fn step(&mut self, at: Duration) -> Duration {
        let pause = Duration::from_millis(self.rng.u64(60..600));
        // Every episode has an early storm.
        let is_due = self.storms == 0 && at > FIRST_STORM_AT;
        let is_drawn = self.rng.u32(..STORM_ONE_IN) == 0 && self.storms < STORMS_MAX;
        if is_due || is_drawn {
            let are_free = (0..self.nodes).all(|node| self.is_free(Target::Node(node), at));
            if are_free {
                return self.storm(at) + pause;
            }
        }
        let Some(kind) = self.rng.choice(&self.mix.clone()).copied() else { return pause };
        if is_due && matches!(kind.target, TargetKind::Node | TargetKind::Majority | TargetKind::OneOrMajority) {
            return pause;
        }
        let Some(target) = self.target(kind, at) else { return pause };
        let length = Duration::from_millis(self.rng.u64(kind.lasts_ms.0..=kind.lasts_ms.1));
        let amount = self.rng.u64(kind.amount.0..=kind.amount.1);
        if self.may_step(target, kind.act, amount as i64) {
            self.plan(Fault { at, length, target, act: kind.act, amount });
        }
        pause
    }

    /// Whether the fault keeps the node's wall clock within `OFFSETS_MS`. If so, records the new offset.
    fn may_step(&mut self, target: Target, act: Act, amount: i64) -> bool {
        let (Target::Node(node), Act::StepBack | Act::Nudge) = (target, act) else { return true };
        let offset = self.offsets_ms[node] + if act == Act::Nudge { amount } else { -amount };
        let is_allowed = OFFSETS_MS.contains(&offset);
        if is_allowed {
            self.offsets_ms[node] = offset;
        }
        is_allowed
    }

    /// Plans a storm, and returns its duration. In a storm, all nodes lose their memory or restart from their files,
    /// one after the other or all at once, within the length of a lease.
    fn storm(&mut self, at: Duration) -> Duration {
        self.storms += 1;
        let act = match self.rng.u32(..6) {
            0 | 1 => return self.rolling_storm(at),
            2 | 3 => Act::Flush,
            4 => Act::Kill,
            _ => Act::Wipe,
        };
        let length = if act == Act::Flush { Duration::ZERO } else { Duration::from_millis(self.rng.u64(1..300)) };
        self.plan(Fault { at, length, target: Target::Nodes(self.nodes), act, amount: 0 });
        length
    }

    fn rolling_storm(&mut self, at: Duration) -> Duration {
        let mut offset = Duration::ZERO;
        for node in 0..self.nodes {
            let length = Duration::from_millis(self.rng.u64(1..80));
            // Files may be out of date, so a node that restarts from its files is also quarantined.
            let act = if self.rng.u32(..3) == 0 { Act::Kill } else { Act::Wipe };
            self.plan(Fault { at: at + offset, length, target: Target::Node(node), act, amount: 0 });
            offset += length + Duration::from_millis(self.rng.u64(ROLLING_MS));
        }
        offset
    }

    fn plan(&mut self, fault: Fault) {
        let end = fault.at + fault.length;
        let nodes = match fault.target {
            Target::Node(node) => node..node + 1,
            Target::Nodes(count) => 0..count,
            Target::Network { .. } | Target::Client(_) | Target::Holder | Target::Sentinel => 0..0,
        };
        let pause = if fault.act.moves_clock() { CLOCK_STEP_PAUSE } else { RECONNECT_TIME };
        for node in nodes {
            self.busy.push((Target::Node(node), end + pause));
            self.votes_from[node] =
                end + if fault.act.costs_memory() { QUARANTINE + RECONNECT_TIME } else { RECONNECT_TIME };
        }
        self.busy.push((fault.target, end + pause));
        self.faults.push(fault);
    }

    fn target(&mut self, kind: Kind, at: Duration) -> Option<Target> {
        let node = self.rng.usize(..self.nodes);
        let target = match kind.target {
            TargetKind::Node => Target::Node(node),
            TargetKind::Network => Target::Network { node, network: self.rng.usize(..NETWORKS) },
            TargetKind::Client => Target::Client(self.rng.usize(..CLIENTS)),
            TargetKind::OneOrMajority if self.rng.bool() => Target::Node(node),
            TargetKind::Majority | TargetKind::OneOrMajority => {
                Target::Nodes(self.rng.usize(quorlock_core::terms::Quorum::majority_of(self.nodes)..=self.nodes))
            }
        };
        let is_free = match target {
            Target::Nodes(count) => (0..count).all(|node| self.is_free(Target::Node(node), at)),
            Target::Node(_) if kind.act.stops_node() && !self.can_spare(at) => false,
            // A server without persistence does not sync.
            Target::Node(node) if kind.act == Act::SlowDisk && self.persistence[node] == Persistence::None => false,
            _ => self.is_free(target, at),
        };
        is_free.then_some(target)
    }

    fn is_free(&self, target: Target, at: Duration) -> bool {
        self.busy.iter().all(|(other, until)| *other != target || *until <= at)
    }

    /// Whether a majority can still vote without one more node. Outside of storms a majority must be able to vote most
    /// of the time, because a test without granted locks tests nothing.
    fn can_spare(&self, at: Duration) -> bool {
        let away = self.votes_from.iter().filter(|until| **until > at).count();
        away < (self.nodes - 1) / 2
    }
}

#[cfg(test)]
mod tests;
