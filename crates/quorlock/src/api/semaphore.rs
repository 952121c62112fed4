//! The lock with a limited number of holders.

use quorlock_core::mode::Mode;

use crate::api::lock::Lock;

/// A lock with a limited number of holders. [`Client::semaphore`](crate::Client::semaphore) makes one.
///
/// Each holder has one of the slots, and a majority decides about each slot. (Counting permits on each node would admit too
/// many: two permits on three nodes admit three holders.) [`Lease::slot`](crate::Lease::slot) says which slot a lease has. All
/// users of a name must pass the same number of permits; if not, they get
/// [`AcquireError::Permits`](crate::AcquireError::Permits).
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let workers = client.semaphore("workers", 2);
/// let (one, other) = (workers.acquire().await?, workers.acquire().await?);
/// assert_ne!(one.slot(), other.slot());
/// assert!(workers.try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(workers.try_acquire().await?.is_some());
/// # drop(other);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub type Semaphore = Lock<Mode>;
