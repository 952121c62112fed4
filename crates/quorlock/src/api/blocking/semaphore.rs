//! So many at a time, and no more.

use std::sync::Arc;
use std::time::Duration;

use super::background::{Background, wait};
use super::lease::Lease;
use super::settings::settings;
use crate::error::AcquireError;

/// So many at a time, and no more. See [`crate::Semaphore`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    inner: crate::Semaphore,
    background: Arc<Background>,
}

settings!(Semaphore, waiting);

impl Semaphore {
    /// How many can hold it at a time.
    pub fn permits(&self) -> u32 {
        self.inner.permits()
    }

    /// Asks once. `None` when every slot is taken, or waited for.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held); [`AcquireError::Permits`] when it is in use with another
    /// number of permits.
    pub fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        Ok(wait(self.inner.try_acquire())?.map(Lease::new))
    }

    /// Waits until a slot is free and nobody has waited for longer.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or it was asked for in a way that cannot be.
    pub fn acquire(&self) -> Result<Lease, AcquireError> {
        wait(self.inner.acquire()).map(Lease::new)
    }

    /// As [`acquire`](Self::acquire), but no longer than this.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] when no slot was free in time; others as for [`acquire`](Self::acquire).
    pub fn acquire_within(&self, within: Duration) -> Result<Lease, AcquireError> {
        wait(self.inner.acquire_within(within)).map(Lease::new)
    }
}
