//! The lock that its owner may enter again.

use std::sync::Arc;
use std::time::Duration;

use super::background::{Background, wait};
use super::lease::Lease;
use super::settings::settings;
use crate::cluster::owner::Owner;
use crate::error::AcquireError;

/// A lock that its owner may enter again while it is held. See [`crate::Reentrant`].
#[derive(Clone, Debug)]
pub struct Reentrant {
    inner: crate::Reentrant,
    background: Arc<Background>,
}

settings!(Reentrant, waiting);

impl Reentrant {
    /// Enters as this owner from now on.
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.map(|inner| inner.owned_by(owner))
    }

    /// Who enters.
    pub fn owner(&self) -> &Owner {
        self.inner.owner()
    }

    /// Asks once. `None` when another owner holds the lock, or waits for it.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    pub fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        Ok(wait(self.inner.try_acquire())?.map(Lease::new))
    }

    /// Waits until the owner has the lock, or at once if it has it already.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    pub fn acquire(&self) -> Result<Lease, AcquireError> {
        wait(self.inner.acquire()).map(Lease::new)
    }

    /// As [`acquire`](Self::acquire), but no longer than this.
    ///
    /// # Errors
    /// [`AcquireError`] says who held the lock at the end, or which nodes were missing.
    pub fn acquire_within(&self, within: Duration) -> Result<Lease, AcquireError> {
        wait(self.inner.acquire_within(within)).map(Lease::new)
    }
}
