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

    pub(super) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::SeqCst);
    }

    pub(super) fn subtract(&self, n: usize) {
        self.0.fetch_sub(n as u64, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: Counter,
    pub(super) open: Counter,
    pub(super) refused: Counter,
    pub(super) up: Counter,
    pub(super) down: Counter,
    pub(super) dropped_up: Counter,
    pub(super) dropped_down: Counter,
    pub(super) held_up: Counter,
    /// The number of reads until a connection is cut; 0 if no connection will be cut.
    pub(super) reads_to_cut: Counter,
}

impl Counters {
    /// Counts one read from a client. Returns whether to cut the connection after it.
    pub(super) fn read_ends_in_cut(&self) -> bool {
        let left = self.reads_to_cut.get();
        self.reads_to_cut.set(left.saturating_sub(1));
        left == 1
    }
}
