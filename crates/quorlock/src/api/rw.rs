//! Many readers or one writer.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::mode::Mode;

use crate::api::client::Handle;
use crate::api::lease::Lease;
use crate::api::spec::{Patience, Spec, settings};
use crate::cluster::owner::Owner;
use crate::error::AcquireError;

/// Many readers or one writer.
///
/// Made by [`Client::rw`](crate::Client::rw). Whoever writes excludes everyone else, including those who use
/// [`Client::lock`](crate::Client::lock) with the same name. A writer that waits holds back the readers that come after
/// it. A reader that dies frees its share when its own ttl is over.
///
/// There is no upgrade from reading to writing: two readers who both want one would wait for each other for ever. One
/// `RwLock` value is one party, and so is a lease's task that borrows it: if it writes while it reads, it is told
/// [`AcquireError::Upgrade`] rather than left to wait for itself. Clones are parties of their own: give each task one.
///
/// Every read waits behind a writer that asked before it, also a second read of the same party: do not read again while you
/// read, unless the party has an [owner](Self::owned_by).
///
/// A reader's fence is above those of all earlier writers, a writer's above those of all earlier readers and writers.
/// A resource compares the fences of both, and lets only writers advance the one that it has stored.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let prices = client.rw("prices");
/// let (one, other) = (prices.read().await?, client.rw("prices").read().await?);
/// assert!(client.rw("prices").try_write().await?.is_none(), "two are reading");
/// drop((one, other));
/// let lease = prices.write().await?;
/// assert!(client.rw("prices").try_read().await?.is_none(), "one is writing");
/// # drop(lease);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct RwLock {
    spec: Spec,
    owner: Owner,
    /// Whether it was given its owner.
    reenters: bool,
}

settings!(RwLock);

/// Another party.
impl Clone for RwLock {
    fn clone(&self) -> Self {
        Self { spec: self.spec.clone(), owner: Owner::new(), reenters: false }
    }
}

impl RwLock {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        Self { spec: Spec::new(handle, name), owner: Owner::new(), reenters: false }
    }

    /// Makes this the same party as others with this owner, in this process or another.
    ///
    /// While the owner reads, it may read again: it gets another lease at once, with the same fence, also while a writer waits. An
    /// owner whose reads always overlap therefore keeps writers out.
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = owner.clone();
        self.reenters = true;
        self
    }

    /// Asks once to read. `None` when somebody writes, or waits to write.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for, at once and without blocking.
    pub async fn try_read(&self) -> Result<Option<Lease>, AcquireError> {
        self.spec.once(self.reading()).await
    }

    /// Waits until nobody writes and no writer has waited for longer.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for and every place in the queue, at once and without
    /// blocking.
    pub async fn read(&self) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.reading(), Patience::Policy).await
    }

    /// As [`read`](Self::read), but no longer than this: it returns at its deadline, not after.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says who held the lock at the end; other [`AcquireError`]s, which nodes were missing.
    ///
    /// # Cancel safety
    /// As for [`read`](Self::read).
    pub async fn read_within(&self, wait: Duration) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.reading(), Patience::within(wait)).await
    }

    /// Asks once to write. `None` when somebody reads, writes or waits.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held); [`AcquireError::Upgrade`] for one who reads.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for, at once and without blocking.
    pub async fn try_write(&self) -> Result<Option<Lease>, AcquireError> {
        self.spec.once(self.writing()).await
    }

    /// Waits until nobody reads or writes.
    ///
    /// # Errors
    /// [`AcquireError::Upgrade`] for one who reads; other [`AcquireError`]s, when the attempts are used up or the lock was
    /// asked for in a way that cannot be.
    ///
    /// # Cancel safety
    /// As for [`read`](Self::read).
    pub async fn write(&self) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.writing(), Patience::Policy).await
    }

    /// As [`write`](Self::write), but no longer than this: it returns at its deadline, not after.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says who held the lock at the end; others as for [`write`](Self::write).
    ///
    /// # Cancel safety
    /// As for [`read`](Self::read).
    pub async fn write_within(&self, wait: Duration) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.writing(), Patience::within(wait)).await
    }

    fn reading(&self) -> Mode {
        Mode::Shared { owner: self.owner.id(), reenters: self.reenters }
    }

    fn writing(&self) -> Mode {
        Mode::Exclusive { writer: Some(self.owner.id()) }
    }
}
