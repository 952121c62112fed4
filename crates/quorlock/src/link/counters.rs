//! Counts a client's operations, and the messages on its links.

use quorlock_core::vote::Verdict;

use crate::platform::sync::Mutex;

/// The counters of a client since it connected, for logs and metrics.
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

/// The counters of one client. The links add the messages, and the claims add the results.
#[derive(Default)]
pub(crate) struct Counters(Mutex<Stats>);

impl Counters {
    pub(crate) fn stats(&self) -> Stats {
        *self.0.lock()
    }

    pub(crate) fn won(&self, sealed_late: bool) {
        let mut stats = self.0.lock();
        stats.acquired += 1;
        stats.sealed_late += u64::from(sealed_late);
    }

    pub(crate) fn defeated(&self, verdict: Verdict) {
        let mut stats = self.0.lock();
        match verdict {
            Verdict::Held => stats.held += 1,
            Verdict::NoQuorum | Verdict::CutOff => stats.no_quorum += 1,
            Verdict::TooSlow | Verdict::Won => stats.too_slow += 1,
            // No counter counts requests that do not match the lock, for example with another number of permits.
            Verdict::Mismatch => {}
        }
    }

    pub(crate) fn lost(&self) {
        self.0.lock().lost += 1;
    }

    pub(crate) fn sent(&self, requests: usize) {
        self.0.lock().requests += requests as u64;
    }

    pub(crate) fn received(&self, replies: usize) {
        self.0.lock().replies += replies as u64;
    }

    pub(crate) fn heard_hint(&self) {
        self.0.lock().hints += 1;
    }
}
