//! What a client has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock_core::quorum::Verdict;
use quorlock_core::step::Won;
use quorlock_core::vote::Silence;

use crate::link::{RoundTrips, Traffic};
use crate::platform::sync::Mutex;

/// What a client has done since it was connected, in numbers: for logs and metrics.
///
/// Every number only grows. They are read one after the other, so a set that is taken while leases come and go may be
/// a moment apart in itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Locks that were won.
    pub acquired: u64,
    /// Of those, how many took a second round, because the nodes had granted unequal fences.
    pub sealed_late: u64,
    /// Acquires that ended because somebody else held the lock.
    pub held: u64,
    /// Acquires that ended because too few nodes voted.
    pub no_quorum: u64,
    /// Acquires that ended because a majority granted too late.
    pub too_slow: u64,
    /// Leases that were lost: their validity ended before they were released.
    pub lost: u64,
    /// Requests that were sent to nodes, each node counted.
    pub requests: u64,
    /// Answers that came back.
    pub replies: u64,
    /// Hints that were heard.
    pub hints: u64,
}

/// How one node does, as this client has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// Its URL, without secrets.
    pub node: String,
    /// Why it cannot vote just now; `None` when it can.
    pub trouble: Option<Silence>,
    /// For how long it has not been able to vote, as far as this client knows; `None` for one that can.
    pub silent_for: Option<Duration>,
    /// How long its newest answers took; `None` before the first.
    pub round_trips: Option<RoundTrips>,
    /// How far its clock is from the middle of all, in microseconds, where three clocks or more are known.
    pub skew_micros: Option<i64>,
    /// How often it has lost its memory since this client first met it.
    pub restarts: u64,
}

/// The numbers behind [`Stats`], except those of the links' traffic.
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
            // Nothing went wrong but the question.
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
