//! The exclusive lock.

use std::sync::Arc;
use std::time::Duration;

use super::background::{Background, wait};
use super::lease::Lease;
use super::settings::settings;
use crate::error::{AcquireError, RunError};

/// A name plus how to ask for it. See [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock {
    inner: crate::Lock,
    background: Arc<Background>,
}

settings!(Lock, waiting);

impl Lock {
    /// The Redlock page to the letter. See [`crate::Lock::plain`].
    #[must_use]
    pub fn plain(self) -> Self {
        self.map(crate::Lock::plain)
    }

    /// Asks once. `None` when somebody else holds the lock, or waits for it.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    pub fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        Ok(wait(self.inner.try_acquire())?.map(Lease::new))
    }

    /// Waits until the lock is ours, or until the retry policy has had enough attempts.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    pub fn acquire(&self) -> Result<Lease, AcquireError> {
        wait(self.inner.acquire()).map(Lease::new)
    }

    /// Waits until the lock is ours or the time is over. See [`crate::Lock::acquire_within`].
    ///
    /// # Errors
    /// [`AcquireError`] says who held the lock at the end, or which nodes were missing.
    pub fn acquire_within(&self, within: Duration) -> Result<Lease, AcquireError> {
        wait(self.inner.acquire_within(within)).map(Lease::new)
    }

    /// Acquires, does the work, releases. Work that is not async cannot be dropped half-way: long work should ask
    /// [`Lease::ensure`] before each step.
    ///
    /// # Errors
    /// [`RunError::Acquire`] when the work never began, [`RunError::Lost`] when the lease was lost before its end.
    pub fn run<T>(&self, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError> {
        let lease = self.acquire()?;
        let done = work(&lease);
        lease.ensure(Duration::ZERO)?;
        lease.finish();
        Ok(done)
    }
}
