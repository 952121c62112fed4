//! Many readers or one writer.

use std::sync::Arc;
use std::time::Duration;

use super::background::{Background, wait};
use super::lease::Lease;
use super::settings::settings;
use crate::cluster::owner::Owner;
use crate::error::AcquireError;

/// Many readers or one writer. See [`crate::RwLock`]: clones are parties of their own, one for each thread.
#[derive(Clone, Debug)]
pub struct RwLock {
    inner: crate::RwLock,
    background: Arc<Background>,
}

settings!(RwLock, waiting);

impl RwLock {
    /// Is the same party as others with this owner, in this process or another.
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.map(|inner| inner.owned_by(owner))
    }

    /// Asks once to read. `None` when somebody writes, or waits to write.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    pub fn try_read(&self) -> Result<Option<Lease>, AcquireError> {
        Ok(wait(self.inner.try_read())?.map(Lease::new))
    }

    /// Waits until nobody writes and no writer has waited for longer.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    pub fn read(&self) -> Result<Lease, AcquireError> {
        wait(self.inner.read()).map(Lease::new)
    }

    /// As [`read`](Self::read), but no longer than this.
    ///
    /// # Errors
    /// [`AcquireError`] says who held the lock at the end, or which nodes were missing.
    pub fn read_within(&self, within: Duration) -> Result<Lease, AcquireError> {
        wait(self.inner.read_within(within)).map(Lease::new)
    }

    /// Asks once to write. `None` when somebody reads, writes or waits.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held); [`AcquireError::Upgrade`] for one who reads.
    pub fn try_write(&self) -> Result<Option<Lease>, AcquireError> {
        Ok(wait(self.inner.try_write())?.map(Lease::new))
    }

    /// Waits until nobody reads or writes.
    ///
    /// # Errors
    /// [`AcquireError::Upgrade`] for one who reads; others as for [`read`](Self::read).
    pub fn write(&self) -> Result<Lease, AcquireError> {
        wait(self.inner.write()).map(Lease::new)
    }

    /// As [`write`](Self::write), but no longer than this.
    ///
    /// # Errors
    /// [`AcquireError`], as for [`write`](Self::write) and [`read_within`](Self::read_within).
    pub fn write_within(&self, within: Duration) -> Result<Lease, AcquireError> {
        wait(self.inner.write_within(within)).map(Lease::new)
    }
}
