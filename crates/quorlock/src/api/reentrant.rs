//! The lock that its owner may enter again.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::mode::Mode;

use crate::api::client::Handle;
use crate::api::lease::Lease;
use crate::api::spec::{Patience, Spec, settings};
use crate::cluster::owner::Owner;
use crate::error::AcquireError;

/// A lock that its owner may enter again while it is held; others wait until the last entry is gone.
///
/// Made by [`Client::reentrant`](crate::Client::reentrant), with an owner of its own; clones are the same owner. Each
/// entry is a [`Lease`] that is renewed and released by itself, and the lock is free when the last one is. All entries
/// have one fence, and an owner that holds several names has one for each. Owners can be passed to another task, or with [`Owner::reveal`] to another process. An owner that reads
/// the same name, as a party of an [`RwLock`](crate::RwLock), is told so with [`AcquireError::Upgrade`] rather than left to wait for
/// itself.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let lock = client.reentrant("ledger");
/// let outer = lock.acquire().await?;
/// let inner = lock.acquire().await?; // the same owner: no wait
/// assert_eq!(outer.fence()?, inner.fence()?);
/// assert!(client.reentrant("ledger").try_acquire().await?.is_none(), "another owner");
///
/// inner.release().await?;
/// assert!(client.reentrant("ledger").try_acquire().await?.is_none(), "still held by the outer entry");
/// outer.release().await?;
/// assert!(client.reentrant("ledger").try_acquire().await?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Reentrant {
    spec: Spec,
    owner: Owner,
}

settings!(Reentrant);

impl Reentrant {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        Self { spec: Spec::new(handle, name), owner: Owner::new() }
    }

    /// Enters as this owner from now on.
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = owner.clone();
        self
    }

    /// Who enters.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Asks once. `None` when another owner holds the lock, or waits for it.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    ///
    /// # Cancel safety
    /// Dropping the future takes back this entry, and no other, at once and without blocking.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        self.spec.once(self.mode()).await
    }

    /// Waits until the owner has the lock, or at once if it has it already.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    ///
    /// # Cancel safety
    /// Dropping the future takes back this entry, and no other, at once and without blocking.
    pub async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.mode(), Patience::Policy).await
    }

    /// Waits until the owner has the lock or the time is over: it returns at its deadline, not after.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says who held the lock at the end; other [`AcquireError`]s, which nodes were missing.
    ///
    /// # Cancel safety
    /// Dropping the future takes back this entry, and no other, at once and without blocking.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.mode(), Patience::within(wait)).await
    }

    fn mode(&self) -> Mode {
        Mode::Reentrant { owner: self.owner.id() }
    }
}
