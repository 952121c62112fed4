//! The guard over a won lock.

use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{LeaseId, Name};

use super::background::wait;
use crate::detached::DetachedLease;
use crate::error::{FenceError, LeaseError, LostError};

/// What you get when a lock is won. See [`crate::Lease`].
#[derive(Debug)]
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct Lease {
    pub(super) inner: crate::Lease,
}

impl Lease {
    pub(super) fn new(inner: crate::Lease) -> Self {
        Self { inner }
    }

    /// What is locked.
    pub fn name(&self) -> &Name {
        self.inner.name()
    }

    /// The random value that signs this lease on the nodes.
    pub fn id(&self) -> LeaseId {
        self.inner.id()
    }

    /// The number that is higher than that of every earlier lease of this name.
    ///
    /// # Errors
    /// [`FenceError`] when the lease is over, or plain.
    pub fn fence(&self) -> Result<Fence, FenceError> {
        self.inner.fence()
    }

    /// Which slot it has, from 0, of a semaphore; `None` for other locks.
    pub fn slot(&self) -> Option<u32> {
        self.inner.slot()
    }

    /// How long it lasts from each renewal, on the nodes.
    pub fn ttl(&self) -> Duration {
        self.inner.ttl()
    }

    /// How long the lease still surely holds if nothing renews it; zero when it is over.
    pub fn validity(&self) -> Duration {
        self.inner.validity()
    }

    /// Makes sure that at least this much validity is left, by a look at the clock. See [`crate::Lease::ensure`].
    ///
    /// # Errors
    /// [`LostError`] when less is left, or none.
    pub fn ensure(&self, needed: Duration) -> Result<(), LostError> {
        self.inner.ensure(needed)
    }

    /// Waits until the lease is lost.
    pub fn lost(&self) -> LostError {
        wait(self.inner.lost())
    }

    /// Renews now.
    ///
    /// # Errors
    /// [`LeaseError`] when the lease is over, or no majority renewed it in time.
    pub fn extend(&self) -> Result<(), LeaseError> {
        wait(self.inner.extend())
    }

    /// Gives the lock back, and waits until a majority of the nodes has acknowledged it.
    ///
    /// # Errors
    /// [`LeaseError`] when the lease was lost before, or too few nodes acknowledged.
    pub fn release(self) -> Result<(), LeaseError> {
        wait(self.inner.release())
    }

    /// Gives up the guard without giving the lock back. See [`crate::Lease::detach`].
    ///
    /// # Errors
    /// [`LostError`] when the lease is over.
    pub fn detach(self) -> Result<DetachedLease, LostError> {
        self.inner.detach()
    }

    /// The lease as [`detach`](Self::detach) would give it, while this guard goes on.
    pub fn as_detached(&self) -> DetachedLease {
        self.inner.as_detached()
    }

    /// Releases after the work was done.
    pub(super) fn finish(self) {
        wait(self.inner.finish());
    }
}
