//! What all links of an attempt have to know of it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use quorlock_core::name::LeaseId;

/// One attempt's state on its way through the links. A bit for each node.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) attempt: LeaseId,
    done: AtomicBool,
    sent: AtomicU32,
    stray: AtomicU32,
}

impl Mark {
    pub(crate) fn new(attempt: LeaseId) -> Self {
        Self { attempt, done: AtomicBool::new(false), sent: AtomicU32::new(0), stray: AtomicU32::new(0) }
    }

    /// The attempt is over: what has not been sent for it need not be.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// A request that may be granted has left for this node.
    pub(crate) fn set_sent(&self, node: usize) {
        self.sent.fetch_or(1 << node, Ordering::AcqRel);
    }

    pub(crate) fn is_sent(&self, node: usize) -> bool {
        self.sent.load(Ordering::Acquire) & 1 << node != 0
    }

    /// A request was on its way to this node when the connection ended: it may arrive late, even behind its release.
    pub(crate) fn set_stray(&self, node: usize) {
        self.stray.fetch_or(1 << node, Ordering::AcqRel);
    }

    pub(crate) fn is_stray(&self, node: usize) -> bool {
        self.stray.load(Ordering::Acquire) & 1 << node != 0
    }
}
