//! The counters of a client, and the health of its nodes, for users.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock_core::vote::Silence;

use crate::link::{Counters, RoundTrips};

/// The counters of a client since it connected, for logs and metrics.
///
/// The counters are read one after the other. An event that happens in the meantime may be counted in only some of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Locks that were acquired.
    pub acquired: u64,
    /// Acquires that took a second round, because the nodes had granted different fences.
    pub sealed_late: u64,
    /// Acquires that ended because somebody else held the lock.
    pub held: u64,
    /// Acquires that ended because too few nodes voted.
    pub no_quorum: u64,
    /// Acquires that ended because a majority granted too late.
    pub too_slow: u64,
    /// Leases that were lost: their validity ended before they were released.
    pub lost: u64,
    /// Requests that were sent. A request to three nodes counts three times.
    pub requests: u64,
    /// Replies that were received.
    pub replies: u64,
    /// Hints that were received.
    pub hints: u64,
}

/// The health of one node, as this client has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node's URL, without secrets.
    pub node: String,
    /// The reason why the node cannot vote now; `None` if the node can vote.
    pub trouble: Option<Silence>,
    /// How long the node has been unable to vote, as this client has seen; `None` if the node can vote.
    pub silent_for: Option<Duration>,
    /// The newest round trip times; `None` before the first reply.
    pub round_trips: Option<RoundTrips>,
    /// The node's clock minus the median of all nodes' clocks, in microseconds, if at least three clocks are known.
    pub skew_micros: Option<i64>,
    /// How often the node has lost its memory since this client first connected to the node.
    pub restarts: u64,
}

impl Stats {
    pub(crate) fn read(counters: &Counters) -> Self {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            acquired: read(&counters.acquired),
            sealed_late: read(&counters.sealed_late),
            held: read(&counters.held),
            no_quorum: read(&counters.no_quorum),
            too_slow: read(&counters.too_slow),
            lost: read(&counters.lost),
            requests: read(&counters.requests),
            replies: read(&counters.replies),
            hints: read(&counters.hints),
        }
    }
}
