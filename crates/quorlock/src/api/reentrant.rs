//! The lock that its owner may enter again.

use quorlock_core::mode::{Mode, OwnerId as Owner};

use crate::api::lease::Lease;
use crate::api::lock::{Kind, Lock};
use crate::api::spec::{Patience, Spec};
use crate::error::AcquireError;

/// A lock that its owner may enter again while holding it. [`Client::reentrant`](crate::Client::reentrant) makes one.
///
/// Each lock has a new owner; clones have the same one. Pass the [`owner`](Self::owner) to another task, or with
/// [`Owner::reveal`] to another process, to enter there.
///
/// Each entry is a [`Lease`] that is renewed and released independently. The name is free after the last release. All entries
/// have the same fence. An owner that reads the same name with an [`RwLock`](crate::RwLock) gets [`AcquireError::Upgrade`],
/// because it would wait for itself.
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
pub type Reentrant = Lock<Owner>;

impl Reentrant {
    /// Sets the owner.
    pub fn owned_by(mut self, owner: Owner) -> Self {
        self.kind = owner;
        self
    }

    /// Returns the owner as which this lock enters.
    pub fn owner(&self) -> Owner {
        self.kind
    }
}

impl Kind for Owner {
    type Lease = Lease;

    async fn acquire(&self, spec: &Spec, patience: Patience) -> Result<Lease, AcquireError> {
        spec.acquire(spec.key()?, Mode::Reentrant { owner: *self }, patience).await
    }
}
