//! Counters of a client's operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock_core::hold::Won;
use quorlock_core::vote::{Silence, Verdict};

use crate::link::{RoundTrips, Traffic};
use crate::platform::sync::Mutex;

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

/// The counters behind [`Stats`], except those of the links' traffic.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Stats>);

impl Counters {
    pub(crate) fn won(&self, won: &Won) {
        let mut stats = self.0.lock();
        stats.acquired += 1;
        stats.sealed_late += u64::from(won.sealed_late);
    }

    pub(crate) fn defeated(&self, verdict: Verdict) {
        let mut stats = self.0.lock();
        match verdict {
            Verdict::Held => stats.held += 1,
            Verdict::NoQuorum | Verdict::CutOff => stats.no_quorum += 1,
            Verdict::TooSlow | Verdict::Won => stats.too_slow += 1,
            // The request was wrong, and no counter covers that.
            Verdict::Mismatch => {}
        }
    }

    pub(crate) fn lost(&self) {
        self.0.lock().lost += 1;
    }

    pub(crate) fn read(&self, traffic: &Traffic) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (requests, replies, hints) = (read(&traffic.requests), read(&traffic.replies), read(&traffic.hints));
        Stats { requests, replies, hints, ..*self.0.lock() }
    }
}
