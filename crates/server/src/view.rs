//! The JSON forms of locks, nodes and events.

use std::time::Duration;

use quorlock::{LockView, NodeStats, Quorum, Silence};
use serde::Serialize;
use utoipa::ToSchema;

/// Returns whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A page of the locks that are held or waited for. If there are at most 10,000 locks, they are sorted by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct LockPage {
    /// When the nodes were read, in milliseconds of Unix time by this replica's clock.
    pub(crate) as_of: u64,
    pub(crate) locks: Vec<LockView>,
    /// The cursor of the next page, if there may be one. An empty page may have a next page.
    pub(crate) next: Option<String>,
    /// The nodes that could not be searched.
    pub(crate) missing: Vec<MissingNode>,
}

/// A node that could not be searched.
#[derive(Clone, Serialize, ToSchema)]
pub(crate) struct MissingNode {
    /// The URL of the node, without secrets.
    node: String,
    /// Why the node could not be searched.
    trouble: String,
}

impl MissingNode {
    pub(crate) fn list<E: ToString>(missing: Vec<(String, E)>) -> Vec<Self> {
        missing.into_iter().map(|(node, why)| Self { node, trouble: why.to_string() }).collect()
    }
}

/// The state of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct NodesView {
    /// The number of nodes.
    total: usize,
    /// The number of nodes that a majority needs.
    majority: usize,
    /// The number of nodes that can vote now.
    pub(crate) voting: usize,
    /// The number of nodes that may still fail without the loss of the majority.
    can_lose: usize,
    /// The state of each node.
    pub(crate) nodes: Vec<NodeView>,
}

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct NodeView {
    /// The URL of the node, without secrets.
    pub(crate) node: String,
    /// `voting`, `quarantined`, `unreachable`, `unfit`, `skewed` or `silent`.
    pub(crate) state: &'static str,
    /// Why the node does not vote.
    pub(crate) trouble: Option<String>,
    /// How long the node has not been able to vote, according to this replica.
    silent_ms: Option<u64>,
    /// The time until the end of the quarantine, if the node is quarantined.
    pub(crate) quarantine_ms: Option<u64>,
    /// The difference between the clock of the node and the median of all clocks, if at least three clocks are known.
    skew_ms: Option<i64>,
    /// The median of the latest round trips between this replica and the node, in microseconds.
    p50_us: Option<u64>,
    /// The 99th percentile of the latest round trips between this replica and the node, in microseconds.
    p99_us: Option<u64>,
    /// How often the node has lost its memory since this replica first connected to it.
    pub(crate) restarts: u64,
}

impl NodesView {
    pub(crate) fn new(nodes: Vec<NodeStats>) -> Self {
        let nodes: Vec<_> = nodes.into_iter().map(NodeView::new).collect();
        let (total, majority) = (nodes.len(), Quorum::majority_of(nodes.len()));
        let voting = nodes.iter().filter(|node| node.trouble.is_none()).count();
        Self { total, majority, voting, can_lose: voting.saturating_sub(majority), nodes }
    }

    /// Returns whether a majority can vote.
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
