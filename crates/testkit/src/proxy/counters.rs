//! Counters of a proxy's traffic, for tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and other threads read.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }

    pub(super) fn add(&self, amount: usize) {
        self.0.fetch_add(amount as u64, Ordering::SeqCst);
    }

    pub(super) fn subtract(&self, amount: usize) {
        self.0.fetch_sub(amount as u64, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: Counter,
    pub(super) open_connections: Counter,
    pub(super) refused_connections: Counter,
    pub(super) bytes_up: Counter,
    pub(super) bytes_down: Counter,
    pub(super) dropped_up: Counter,
    pub(super) dropped_down: Counter,
    pub(super) held_up: Counter,
    /// The number of requests until a connection is reset; 0 if no connection will be reset.
    pub(super) requests_to_cut: Counter,
}

impl Counters {
    /// Counts one request. Returns whether to reset the connection after it.
    pub(super) fn must_cut_after_request(&self) -> bool {
        let requests_left = self.requests_to_cut.get();
        self.requests_to_cut.set(requests_left.saturating_sub(1));
        requests_left == 1
    }
}
