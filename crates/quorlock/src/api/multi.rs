//! Several names, all or nothing.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select, select_all};
use quorlock_core::fence::Fence;
use quorlock_core::name::Name;
use quorlock_core::terms::Mode;
use quorlock_core::time::Moment;

use crate::api::client::Client;
use crate::api::lease::Lease;
use crate::api::lock::{Kind, Lock};
use crate::detached::DetachedLease;
use crate::error::{AcquireError, ConfigError, FenceError, LeaseError, LostError};
use crate::node::LockKey;

/// Exclusive locks of several names, which are acquired all or none. [`Client::all`] returns one.
///
/// An acquire gets the names one after the other in sorted order, so two clients whose names overlap never deadlock.
/// While it waits for the next name, it renews the leases that it already has. If one of these leases is lost, the
/// acquire releases all of them and starts over.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let leases = client.all(["account/7", "account/3"]).acquire().await?;
/// let (three, seven) = (leases.fence("account/3")?, leases.fence("account/7")?);
/// assert!(client.lock("account/7").try_acquire().await?.is_none());
/// leases.release().await?;
/// # let _ = (three, seven);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub type All = Lock<Names>;

/// The kind of [`All`]: several names.
#[derive(Clone, Debug)]
pub struct Names {
    /// All names but the lowest, sorted. The lowest name is the `key` of the lock.
    others: Vec<Arc<LockKey>>,
}

impl All {
    pub(crate) fn of<N: AsRef<str>>(client: &Client, names: impl IntoIterator<Item = N>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        let (key, others) = match names.iter().map(|name| client.key(name)).collect::<Result<Vec<_>, _>>() {
            Ok(mut keys) if !keys.is_empty() => (Ok(keys.remove(0)), keys),
            Ok(_) => (Err(ConfigError::NoNames), Vec::new()),
            Err(error) => (Err(error), Vec::new()),
        };
        Self::new(client, key, Names { others })
    }
}

impl Kind for Names {
    type Lease = Leases;

    async fn acquire(lock: &Lock<Self>, waits: bool, give_up: Option<Moment>) -> Result<Leases, AcquireError> {
        'again: loop {
            let acquire = |key| lock.acquire_name(key, Mode::EXCLUSIVE, waits, give_up);
            let mut leases = Leases::from(acquire(lock.key()?).await?);
            for key in &lock.kind.others {
                let next = acquire(key);
                let lease = match select(pin!(leases.lost()), pin!(next)).await {
                    Either::Left(_) => continue 'again,
                    Either::Right((lease, _)) => lease?,
                };
                leases.0.push(lease);
            }
            if leases.ensure(Duration::ZERO).is_ok() {
                return Ok(leases);
            }
        }
    }
}

/// The leases of several names, sorted by name. Dropping them releases all of them.
#[derive(Debug)]
#[must_use = "leases that are dropped at once protect nothing"]
pub struct Leases(Vec<Lease>);

impl From<Lease> for Leases {
    fn from(lease: Lease) -> Self {
        Self(vec![lease])
    }
}

impl Leases {
    /// Returns the lease of each name.
    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.0.iter()
    }

    /// Returns the lease of one name.
    pub fn get(&self, name: &str) -> Option<&Lease> {
        self.iter().find(|lease| lease.name().as_str() == name)
    }

    /// Returns the fence of one name.
    ///
    /// # Errors
    /// [`FenceError::Lost`] if the lease of this name is over. [`FenceError::NotHeld`] if there is no lease of this
    /// name.
    pub fn fence(&self, name: &str) -> Result<Fence, FenceError> {
        self.get(name).ok_or(FenceError::NotHeld)?.fence()
    }

    /// Returns the shortest ttl of these leases.
    pub fn ttl(&self) -> Duration {
        self.iter().map(Lease::ttl).min().unwrap_or_default()
    }

    /// Returns how long all leases are surely valid without another renewal; zero if one of them is over.
    pub fn validity(&self) -> Duration {
        self.iter().map(Lease::validity).min().unwrap_or_default()
    }

    /// Checks that each lease is valid for at least the duration `needed`.
    ///
    /// # Errors
    /// [`LostError`] of the first lease whose validity ends sooner.
    pub fn ensure(&self, needed: Duration) -> Result<(), LostError> {
        self.iter().try_for_each(|lease| lease.ensure(needed))
    }

    /// Waits until one of the leases is lost, and returns its name.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> (Name, LostError) {
        let (lost, index, _) = select_all(self.iter().map(|lease| Box::pin(lease.lost()))).await;
        (self.0[index].name().clone(), lost)
    }

    /// Releases all leases, and waits until a majority of the nodes has acknowledged each release.
    ///
    /// # Errors
    /// [`LeaseError`] of the first lease that was already lost, or whose release was not acknowledged. All leases are
    /// over in any case.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the releases.
    pub async fn release(self) -> Result<(), LeaseError> {
        join_all(self.0.into_iter().map(Lease::release)).await.into_iter().collect()
    }

    /// Detaches all leases, or none. See [`Lease::detach`].
    ///
    /// # Errors
    /// [`LostError`] of the first lease that is over. In this case all leases are released.
    pub fn detach(self) -> Result<Vec<DetachedLease>, LostError> {
        Lease::detach_all(self.0)
    }

    /// Returns the separate leases.
    pub fn into_vec(self) -> Vec<Lease> {
        self.0
    }
}
