//! Counts a client's operations, and the messages on its links.

use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_core::vote::Verdict;

/// The counters of one client. The links add the messages, and the claims add the results.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) acquired: AtomicU64,
    pub(crate) sealed_late: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) no_quorum: AtomicU64,
    pub(crate) too_slow: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) hints: AtomicU64,
}

impl Counters {
    pub(crate) fn won(&self, sealed_late: bool) {
        add(&self.acquired, 1);
        add(&self.sealed_late, usize::from(sealed_late));
    }

    pub(crate) fn defeated(&self, verdict: Verdict) {
        match verdict {
            Verdict::Held => add(&self.held, 1),
            Verdict::NoQuorum | Verdict::CutOff => add(&self.no_quorum, 1),
            Verdict::TooSlow | Verdict::Won => add(&self.too_slow, 1),
            // The request was wrong, and no counter covers that.
            Verdict::Mismatch => {}
        }
    }

    pub(crate) fn lost(&self) {
        add(&self.lost, 1);
    }

    pub(crate) fn sent(&self, requests: usize) {
        add(&self.requests, requests);
    }

    pub(crate) fn received(&self, replies: usize) {
        add(&self.replies, replies);
    }

    pub(crate) fn heard_hint(&self) {
        add(&self.hints, 1);
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
