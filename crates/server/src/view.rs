//! How locks, nodes and what has happened are shown to callers.

use std::time::Duration;

use quorlock::{Event, Holder, Inspection, NodeStats, Period, Quorum, Report, Silence, Waiting};
use serde::Serialize;
use utoipa::ToSchema;

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Who holds a lock, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) struct Who {
    /// The user and the host.
    host: String,
    /// The process there.
    pid: u32,
    /// What the holder calls itself; may be empty.
    label: String,
}

impl Who {
    pub(crate) fn new(holder: &Holder) -> Self {
        Self { host: holder.host.clone(), pid: holder.pid, label: holder.label.clone() }
    }
}

/// How a name stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LockView {
    /// What is locked.
    pub(crate) name: String,
    /// Whether a majority agrees on who has it.
    pub(crate) held: bool,
    /// By whom, where that is known; the last who entered, if several hold together.
    pub(crate) holder: Option<Who>,
    /// `exclusive`, `reentrant`, `shared` or `slots`, while it is held.
    pub(crate) mode: Option<&'static str>,
    /// How many slots there are, of a semaphore.
    pub(crate) slots: Option<u32>,
    /// By how many it is held.
    pub(crate) holds: u32,
    /// The fence by which it can be broken.
    pub(crate) fence: Option<u64>,
    /// What stands in for the fence of a plain lock.
    pub(crate) digest: Option<String>,
    /// Whether it was broken, and is free as soon as its lease would have ended.
    pub(crate) broken: bool,
    /// Since when, in milliseconds of Unix time by the nodes' clocks.
    pub(crate) since_ms: Option<u64>,
    /// How long it lasts at most, unless it is renewed.
    pub(crate) left_ms: Option<u64>,
    /// How many wait, on the node where most do.
    pub(crate) waiting: u32,
    /// The first of them, in order, on that node.
    pub(crate) line: Vec<WaiterView>,
    /// What each node says.
    pub(crate) nodes: Vec<LockOnNode>,
}

/// Somebody in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct WaiterView {
    /// Since when, in milliseconds of Unix time by the nodes' clocks.
    since_ms: u64,
    /// Whether it wants to share.
    shared: bool,
}

impl WaiterView {
    fn new(waiting: &Waiting) -> Self {
        Self { since_ms: waiting.since_micros / 1_000, shared: waiting.shared }
    }
}

/// How a name stands on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LockOnNode {
    /// The node, without secrets.
    pub(crate) node: String,
    /// Why it says nothing.
    pub(crate) trouble: Option<String>,
    /// Whether its vote stands.
    pub(crate) held: bool,
    /// With which fence.
    pub(crate) fence: Option<u64>,
    /// For how long, unless it is renewed.
    pub(crate) left_ms: Option<u64>,
    /// How many wait there.
    pub(crate) waiting: u32,
}

impl LockView {
    pub(crate) fn new(inspection: &Inspection) -> Self {
        let reports = || inspection.nodes.iter().filter_map(|(_, said)| said.as_ref().ok());
        let standing = || reports().filter_map(|report| Some((report, report.held.as_ref()?)));
        let majority = inspection.holder();
        let (mode, slots) = standing().next().map(|(_, held)| mode(held.period)).unzip();
        let digest = standing().find_map(|(_, held)| held.digest).filter(|_| majority.is_some());
        let since = standing().map(|(report, _)| report.since_micros / 1_000).filter(|since| *since > 0).min();
        Self {
            name: inspection.name.to_string(),
            held: majority.is_some(),
            mode,
            slots: slots.flatten(),
            holds: standing().map(|(_, held)| held.holds).max().unwrap_or_default(),
            // A plain lock has no fence of its own: what is stored is that of an earlier lease.
            fence: majority.as_ref().map(|(_, fence)| fence.get()).filter(|fence| *fence > 0 && digest.is_none()),
            holder: majority.and_then(|(holder, _)| holder.as_ref().map(Who::new)),
            broken: standing().any(|(_, held)| held.broken),
            since_ms: since.filter(|_| digest.is_none()),
            left_ms: standing().filter_map(|(_, held)| held.remaining).max().map(millis),
            waiting: inspection.waiting(),
            line: inspection.line().iter().map(WaiterView::new).collect(),
            digest: digest.map(|digest| digest.to_string()),
            nodes: inspection.nodes.iter().map(|(node, said)| LockOnNode::new(node, said)).collect(),
        }
    }
}

impl LockOnNode {
    fn new(node: &str, said: &Result<Report, Silence>) -> Self {
        let report = said.as_ref().ok();
        let held = report.and_then(|report| report.held.as_ref());
        let fenced = report.filter(|_| held.is_some_and(|held| held.digest.is_none()));
        Self {
            node: node.to_owned(),
            trouble: said.as_ref().err().map(ToString::to_string),
            held: held.is_some(),
            fence: fenced.map(|report| report.fence.get()),
            left_ms: held.and_then(|held| held.remaining).map(millis),
            waiting: report.map_or(0, |report| report.waiting),
        }
    }
}

fn mode(period: Period) -> (&'static str, Option<u32>) {
    match period {
        Period::Exclusive => ("exclusive", None),
        Period::Reentrant(_) => ("reentrant", None),
        Period::Shared => ("shared", None),
        Period::Slots(slots) => ("slots", Some(slots)),
    }
}

/// All nodes, and what they come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct NodesView {
    /// How many there are.
    total: usize,
    /// How many have to agree.
    majority: usize,
    /// How many can vote now.
    pub(crate) voting: usize,
    /// How many more may be lost before nothing can be locked any more.
    can_lose: usize,
    /// Each of them.
    pub(crate) nodes: Vec<NodeView>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct NodeView {
    /// Its URL, without secrets.
    pub(crate) node: String,
    /// `voting`, `quarantined`, `unreachable`, `unfit`, `skewed` or `silent`.
    pub(crate) state: &'static str,
    /// Why it does not vote.
    pub(crate) trouble: Option<String>,
    /// For how long it has not voted, as far as this replica knows.
    silent_ms: Option<u64>,
    /// How long it is in quarantine, if it is.
    pub(crate) quarantine_ms: Option<u64>,
    /// How far its clock is from the middle of all, where three clocks or more are known.
    skew_ms: Option<i64>,
    /// The median of how long its newest answers to this replica took, in microseconds.
    p50_us: Option<u64>,
    /// How long 99 of 100 of them took at most.
    p99_us: Option<u64>,
    /// How often it has lost its memory since this replica first met it.
    pub(crate) restarts: u64,
}

impl NodesView {
    pub(crate) fn new(nodes: Vec<NodeStats>) -> Self {
        let nodes: Vec<_> = nodes.into_iter().map(NodeView::new).collect();
        let (total, majority) = (nodes.len(), Quorum::majority_of(nodes.len()));
        let voting = nodes.iter().filter(|node| node.trouble.is_none()).count();
        Self { total, majority, voting, can_lose: voting.saturating_sub(majority), nodes }
    }

    /// Whether a majority can vote.
    pub(crate) fn has_quorum(&self) -> bool {
        self.voting >= self.majority
    }
}

impl NodeView {
    fn new(stats: NodeStats) -> Self {
        let NodeStats { node, trouble, silent_for, round_trips, skew_micros, restarts, .. } = stats;
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let state = match &trouble {
            None => "voting",
            Some(why) if why.quarantine_left().is_some() => "quarantined",
            Some(Silence::Unreachable(_)) => "unreachable",
            Some(Silence::Unfit(_)) => "unfit",
            Some(Silence::Skewed(_)) => "skewed",
            Some(_) => "silent",
        };
        Self {
            node,
            state,
            silent_ms: silent_for.map(millis),
            quarantine_ms: trouble.as_ref().and_then(Silence::quarantine_left).map(millis),
            skew_ms: skew_micros.map(|skew| skew / 1_000),
            p50_us: round_trips.map(|trips| micros(trips.p50)),
            p99_us: round_trips.map(|trips| micros(trips.p99)),
            restarts,
            trouble: trouble.map(|why| why.to_string()),
        }
    }
}

/// One thing that has happened to a lock. In the order of time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) struct EventView {
    /// When, in milliseconds of Unix time by the nodes' clocks.
    pub(crate) at_ms: u64,
    /// To which lock.
    pub(crate) name: String,
    /// `granted`, `released`, `lost` or `broken`.
    what: &'static str,
    /// The lease's fence.
    pub(crate) fence: Option<u64>,
    /// Who held it; of a break, who broke it.
    by: Option<Who>,
    /// How it was held; of a break, `drain` or `now`.
    mode: String,
    /// Why it was lost or broken.
    reason: String,
}

impl EventView {
    /// What was seen to lapse at about this time.
    pub(crate) fn lapsed(lock: &LockView, at_ms: u64) -> Self {
        Self {
            at_ms,
            name: lock.name.clone(),
            what: "lapsed",
            fence: lock.fence,
            by: lock.holder.clone(),
            mode: lock.mode.unwrap_or_default().to_owned(),
            reason: "nobody renewed it".into(),
        }
    }

    /// Whether a lease has ended with it.
    pub(crate) fn is_end(&self) -> bool {
        self.what != quorlock::What::Granted.as_str()
    }

    /// Somebody's grant at this time.
    #[cfg(test)]
    pub(crate) fn at(at_ms: u64) -> Self {
        let (name, mode, reason) = ("a".into(), "exclusive".into(), String::new());
        Self { at_ms, name, what: "granted", fence: None, by: None, mode, reason }
    }

    pub(crate) fn new(event: &Event) -> Self {
        Self {
            at_ms: event.at_micros / 1_000,
            name: event.name.to_string(),
            what: event.what.as_str(),
            fence: event.fence.map(quorlock::Fence::get),
            by: event.holder.as_ref().map(Who::new),
            mode: event.mode.clone(),
            reason: event.reason.clone(),
        }
    }
}
