//! Several names, all or nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use quorlock_core::fence::Fence;
use quorlock_core::name::Name;

use super::background::{Background, wait};
use super::lease::Lease;
use super::settings::settings;
use crate::error::{AcquireError, FenceError, LeaseError, LostError};

/// Exclusive locks of several names, all or nothing. See [`crate::All`].
#[derive(Clone, Debug)]
pub struct All {
    inner: crate::All,
    background: Arc<Background>,
}

settings!(All, waiting);

impl All {
    /// Asks once for each name. `None`, with nothing held, when any of them is somebody else's.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    pub fn try_acquire(&self) -> Result<Option<Leases>, AcquireError> {
        Ok(wait(self.inner.try_acquire())?.map(Leases::new))
    }

    /// Waits until all of them are ours.
    ///
    /// # Errors
    /// [`AcquireError`] for the first name that could not be had; nothing is held then.
    pub fn acquire(&self) -> Result<Leases, AcquireError> {
        wait(self.inner.acquire()).map(Leases::new)
    }

    /// As [`acquire`](Self::acquire), but no longer than this.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says which name was held by whom at the end; nothing is held then.
    pub fn acquire_within(&self, within: Duration) -> Result<Leases, AcquireError> {
        wait(self.inner.acquire_within(within)).map(Leases::new)
    }
}

/// The leases of several names, sorted by name. See [`crate::Leases`].
#[derive(Debug)]
#[must_use = "leases that are dropped at once protect nothing"]
pub struct Leases {
    leases: Vec<Lease>,
}

impl Leases {
    fn new(leases: crate::Leases) -> Self {
        Self { leases: leases.into_leases().into_iter().map(Lease::new).collect() }
    }

    /// Each name's lease.
    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter()
    }

    /// The lease of one name.
    pub fn get(&self, name: &str) -> Option<&Lease> {
        self.iter().find(|lease| lease.name().as_str() == name)
    }

    /// The fence of one name's lease.
    ///
    /// # Errors
    /// [`FenceError::Lost`] when it is over; [`FenceError::NotHeld`] when the name is not among them.
    pub fn fence(&self, name: &str) -> Result<Fence, FenceError> {
        self.get(name).ok_or(FenceError::NotHeld)?.fence()
    }

    /// How long all of them still surely hold if nothing renews them; zero when one is over.
    pub fn validity(&self) -> Duration {
        self.iter().map(Lease::validity).min().unwrap_or_default()
    }

    /// Makes sure that at least this much validity is left to each of them.
    ///
    /// # Errors
    /// [`LostError`] of the first that has less.
    pub fn ensure(&self, needed: Duration) -> Result<(), LostError> {
        self.iter().try_for_each(|lease| lease.ensure(needed))
    }

    /// Waits until the first of them is lost, and says which.
    pub fn lost(&self) -> (Name, LostError) {
        let (lost, index, _) = wait(select_all(self.iter().map(|lease| Box::pin(lease.inner.lost()))));
        (self.leases[index].name().clone(), lost)
    }

    /// Gives all of them back, and waits until a majority of the nodes has acknowledged each.
    ///
    /// # Errors
    /// [`LeaseError`] of the first that was lost before, or not acknowledged. All are over in either case.
    pub fn release(self) -> Result<(), LeaseError> {
        wait(join_all(self.leases.into_iter().map(|lease| lease.inner.release()))).into_iter().collect()
    }
}
