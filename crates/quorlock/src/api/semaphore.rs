//! So many at a time, and no more.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::mode::{Mode, PERMITS_MAX};

use crate::api::client::Handle;
use crate::api::lease::Lease;
use crate::api::spec::{Patience, Spec, settings};
use crate::error::{AcquireError, ConfigError};

/// So many at a time, and no more: each holder has one of the slots.
///
/// Made by [`Client::semaphore`](crate::Client::semaphore). Counting permits on each node and asking for a majority would
/// let in too many (two permits on three nodes admit three holders), so what is decided by majority is each slot. The
/// lease says [which one](Lease::slot) it has. All who use a name must agree on the number of permits.
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
#[derive(Clone, Debug)]
pub struct Semaphore {
    spec: Spec,
    permits: u32,
}

settings!(Semaphore);

impl Semaphore {
    pub(crate) fn new(handle: Arc<Handle>, name: &str, permits: u32) -> Self {
        let mut spec = Spec::new(handle, name);
        if !(1..=PERMITS_MAX).contains(&permits) {
            let why = format!("between 1 and {PERMITS_MAX}");
            spec.refuse(ConfigError::Setting { setting: "a number of permits", value: permits.to_string(), why });
        }
        Self { spec, permits }
    }

    /// How many can hold it at a time.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Asks once. `None` when every slot is taken, or waited for.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held); [`AcquireError::Permits`] when it is in use with another
    /// number of permits.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for, at once and without blocking.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        self.spec.once(self.mode()).await
    }

    /// Waits until a slot is free and nobody has waited for longer.
    ///
    /// # Errors
    /// [`AcquireError::Permits`] when it is in use with another number of permits; other [`AcquireError`]s, when the
    /// attempts are used up or it was asked for in a way that cannot be.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for and every place in the queue, at once and without
    /// blocking.
    pub async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.mode(), Patience::Policy).await
    }

    /// As [`acquire`](Self::acquire), but no longer than this: it returns at its deadline, not after.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] when no slot was free in time; others as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As for [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Lease, AcquireError> {
        self.spec.acquire(self.mode(), Patience::within(wait)).await
    }

    fn mode(&self) -> Mode {
        Mode::Slot { permits: self.permits, slot: 0 }
    }
}
