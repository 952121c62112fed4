//! What all links of an attempt have to know of it.

use std::sync::atomic::Ordering;

use quorlock_core::name::LeaseId;

use crate::platform::sync::{AtomicBool, AtomicU32};

/// One attempt's state on its way through the links. A bit for each node.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) attempt: LeaseId,
    done: AtomicBool,
    /// Whoever won with it does not wait any more, but has yet to hear from all nodes.
    left: AtomicBool,
    sent: AtomicU32,
    stray: AtomicU32,
    /// Whether others may have sent something for it, of which nothing is known here.
    of_another: bool,
    /// Nodes on which the waiter behind this attempt, or behind an earlier one of its, may have a place in the queue.
    placed: AtomicU32,
    /// The number of the last renewal.
    renewal: AtomicU32,
    /// Nodes to which one has yet to be sent.
    to_renew: AtomicU32,
}

impl Mark {
    pub(crate) fn new(attempt: LeaseId) -> Self {
        Self {
            attempt,
            done: AtomicBool::new(false),
            left: AtomicBool::new(false),
            sent: AtomicU32::new(0),
            stray: AtomicU32::new(0),
            of_another: false,
            placed: AtomicU32::new(0),
            renewal: AtomicU32::new(0),
            to_renew: AtomicU32::new(0),
        }
    }

    /// An attempt of somebody else, who may have asked every node for it.
    pub(crate) fn of_another(attempt: LeaseId) -> Self {
        Self { sent: AtomicU32::new(u32::MAX), of_another: true, ..Self::new(attempt) }
    }

    pub(crate) fn is_of_another(&self) -> bool {
        self.of_another
    }

    /// The next attempt of the same waiter.
    pub(crate) fn next(&self, attempt: LeaseId) -> Self {
        Self { placed: AtomicU32::new(self.placed.load(Ordering::Acquire)), ..Self::new(attempt) }
    }

    /// The attempt is over: what has not been sent for it need not be.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Nothing may put its waiter in the queue any more: what has not been sent for that need not be.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// A request that may be granted has left for this node.
    pub(crate) fn set_sent(&self, node: usize) {
        self.sent.fetch_or(1 << node, Ordering::AcqRel);
    }

    pub(crate) fn is_sent(&self, node: usize) -> bool {
        self.sent.load(Ordering::Acquire) & 1 << node != 0
    }

    /// A request has left for this node that may have put the waiter in the queue.
    pub(crate) fn set_placed(&self, node: usize) {
        self.placed.fetch_or(1 << node, Ordering::AcqRel);
    }

    pub(crate) fn is_placed(&self, node: usize) -> bool {
        self.placed.load(Ordering::Acquire) & 1 << node != 0
    }

    /// A renewal begins: what has yet to be sent for an earlier one will be for this one.
    pub(crate) fn begin_renewal(&self, round: u32) {
        self.renewal.store(round, Ordering::Release);
    }

    /// A renewal is to be sent to this node. `false` if another has yet to be, which will do.
    pub(crate) fn queue_renewal(&self, node: usize) -> bool {
        self.to_renew.fetch_or(1 << node, Ordering::AcqRel) & 1 << node == 0
    }

    /// It is sent, or will not be. Gives the number of the renewal that it is for by now.
    pub(crate) fn take_renewal(&self, node: usize) -> u32 {
        self.to_renew.fetch_and(!(1 << node), Ordering::AcqRel);
        self.renewal.load(Ordering::Acquire)
    }

    /// A request was on its way to this node when the connection ended: it may arrive late, even behind its release.
    pub(crate) fn set_stray(&self, node: usize) {
        self.stray.fetch_or(1 << node, Ordering::AcqRel);
    }

    pub(crate) fn is_stray(&self, node: usize) -> bool {
        self.stray.load(Ordering::Acquire) & 1 << node != 0
    }
}
