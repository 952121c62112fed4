//! Several names, all or nothing.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use quorlock_core::backoff::Retry;
use quorlock_core::fence::Fence;
use quorlock_core::mode::Mode;
use quorlock_core::name::Name;
use quorlock_core::watchdog::Renewals;

use crate::api::client::Handle;
use crate::api::lease::Lease;
use crate::api::spec::{Patience, Spec};
use crate::detached::DetachedLease;
use crate::error::{AcquireError, ConfigError, FenceError, LeaseError, LostError};
use crate::lease::attempt::Progress;

/// Exclusive locks of several names, all or nothing.
///
/// Made by [`Client::all`](crate::Client::all). The names are sorted and each is taken once, in that order, so that two
/// clients whose sets overlap never wait for each other. Those that are held already are renewed while the next is waited
/// for; if one of them is lost meanwhile, everything is given back and begun anew.
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
#[derive(Clone, Debug)]
pub struct All {
    recipes: Vec<Spec>,
}

impl All {
    pub(crate) fn new<N: AsRef<str>>(handle: &Arc<Handle>, names: impl IntoIterator<Item = N>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Self { recipes: names.iter().map(|name| Spec::new(Arc::clone(handle), name)).collect() }
    }

    /// Asks the nodes for this lifetime: the time after which a holder that has died is out of the way.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.each(|spec| spec.ttl(ttl))
    }

    /// Shown to whoever finds one of the locks held; cut to 128 bytes.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        self.each(|spec| spec.label(label))
    }

    /// Whether and how often the leases are renewed.
    #[must_use]
    pub fn renewals(self, renewals: Renewals) -> Self {
        self.each(|spec| spec.renewals(renewals))
    }

    /// How often to ask again for each name.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        self.each(|spec| spec.retry(retry))
    }

    /// Calls this whenever there is something new to tell about the name that is being waited for.
    /// See [`Lock::observe`](crate::Lock::observe).
    #[must_use]
    pub fn observe(self, observer: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        let observer = Arc::new(observer);
        self.each(|spec| {
            let observer = Arc::clone(&observer);
            spec.observe(move |progress| observer(progress));
        })
    }

    /// Asks once for each name. `None`, with nothing held, when any of them is somebody else's.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    ///
    /// # Cancel safety
    /// Dropping the future gives everything back, at once and without blocking.
    pub async fn try_acquire(&self) -> Result<Option<Leases>, AcquireError> {
        match self.take(Patience::Once).await {
            Err(AcquireError::Held(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Waits until all of them are ours.
    ///
    /// # Errors
    /// [`AcquireError`] for the first name that could not be had; nothing is held then.
    ///
    /// # Cancel safety
    /// Dropping the future gives everything back, at once and without blocking.
    pub async fn acquire(&self) -> Result<Leases, AcquireError> {
        self.take(Patience::Policy).await
    }

    /// Waits until all of them are ours or the time is over: it returns at its deadline, not after.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says which name was held by whom at the end; nothing is held then.
    ///
    /// # Cancel safety
    /// Dropping the future gives everything back, at once and without blocking.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Leases, AcquireError> {
        self.take(Patience::within(wait)).await
    }

    async fn take(&self, patience: Patience) -> Result<Leases, AcquireError> {
        if self.recipes.is_empty() {
            return Err(ConfigError::NoNames.into());
        }
        // Before anything is held: what cannot be should cost nobody anything.
        for spec in &self.recipes {
            spec.key()?;
        }
        'anew: loop {
            let mut leases = Leases { leases: Vec::with_capacity(self.recipes.len()) };
            for spec in &self.recipes {
                let next = spec.acquire(Mode::EXCLUSIVE, patience);
                match leases.unless_lost(next).await {
                    Some(lease) => leases.leases.push(lease?),
                    None => continue 'anew,
                }
            }
            if leases.ensure(Duration::ZERO).is_ok() {
                return Ok(leases);
            }
        }
    }

    fn each(mut self, change: impl Fn(&mut Spec)) -> Self {
        self.recipes.iter_mut().for_each(change);
        self
    }
}

/// The leases of several names, sorted by name. Dropped, all of them are given back.
#[derive(Debug)]
#[must_use = "leases that are dropped at once protect nothing"]
pub struct Leases {
    leases: Vec<Lease>,
}

impl Leases {
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

    /// How long the shortest of them lasts from each renewal, on the nodes.
    pub fn ttl(&self) -> Duration {
        self.iter().map(Lease::ttl).min().unwrap_or_default()
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
    ///
    /// # Cancel safety
    /// The future changes nothing and may be dropped.
    pub async fn lost(&self) -> (Name, LostError) {
        let (lost, index, _) = select_all(self.iter().map(|lease| Box::pin(lease.lost()))).await;
        (self.leases[index].name().clone(), lost)
    }

    /// Gives all of them back, and waits until a majority of the nodes has acknowledged each.
    ///
    /// # Errors
    /// [`LeaseError`] of the first that was lost before, or not acknowledged. All are over in either case.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> Result<(), LeaseError> {
        join_all(self.leases.into_iter().map(Lease::release)).await.into_iter().collect()
    }

    /// Hands over all of them, or none: see [`Lease::detach`].
    ///
    /// # Errors
    /// [`LostError`] of the first that is over. All are released then, those that had been detached as well.
    pub fn detach(self) -> Result<Vec<DetachedLease>, LostError> {
        Lease::hand_over_all(self.leases)
    }

    pub(crate) fn into_leases(self) -> Vec<Lease> {
        self.leases
    }

    /// Waits for the next lease, unless one that is here already is lost first.
    async fn unless_lost<T>(&self, next: impl Future<Output = T>) -> Option<T> {
        if self.leases.is_empty() {
            return Some(next.await);
        }
        let (mut next, mut lost) = (pin!(next), pin!(self.lost()));
        std::future::poll_fn(|context| match lost.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => next.as_mut().poll(context).map(Some),
        })
        .await
    }
}
