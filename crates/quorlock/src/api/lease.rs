//! The guard over a won lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::mode::Mode;
use quorlock_core::name::{LeaseId, Name};
use quorlock_core::step::Defeat;

use crate::api::client::Client;
use crate::detached::DetachedLease;
use crate::error::{FenceError, LeaseError, LostError};
use crate::lease::claim::{Claim, Observer};

/// The guard of an acquired lock, which holds it until it is released, dropped or lost.
///
/// The watchdog renews it in the background. It can still be lost if the nodes cannot be reached or this process is paused:
/// watch [`lost`](Self::lost), call [`ensure`](Self::ensure) before each step, and pass the [`fence`](Self::fence) to the
/// resource that the lock protects, so that it can refuse a step that comes too late.
///
/// Dropping a lease releases the lock, without waiting and without blocking. A lease keeps its client's connections open, so it
/// holds the lock also after the last [`Client`](crate::Client) and [`Lock`](crate::Lock) are dropped.
/// [`Client::close`](crate::Client::close) ends it. A lease that is leaked ([`std::mem::forget`]) is renewed until the
/// lifetime limit of its [`Renewals`](crate::Renewals), by default one hour.
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct Lease {
    claim: Arc<Claim>,
    /// Keeps the client open. Dropped after the release is queued.
    _client: Client,
}

impl Lease {
    /// The guard of a claim that has yet to be won.
    pub(crate) fn new(claim: Arc<Claim>, client: Client) -> Self {
        Self { claim, _client: client }
    }

    /// Waits until the lock is won. The error says why it was not; there is no defeat if the client was closed.
    pub(crate) async fn won(&self, observer: Option<&Observer>) -> Result<(), Option<Defeat>> {
        self.claim.won(observer).await
    }

    #[cfg(feature = "sim")]
    pub(crate) fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }

    /// The name that it holds.
    pub fn name(&self) -> &Name {
        &self.claim.key.name
    }

    /// The random value that signs this lease on the nodes. It is a secret: with it, anyone can release the lock.
    pub fn id(&self) -> LeaseId {
        self.claim.hold(Hold::attempt)
    }

    /// The fence: a number that is higher than that of every earlier lease of this name.
    ///
    /// # Errors
    /// [`FenceError::Lost`] if the lease is over by the local clock. [`FenceError::Plain`] for a plain lock.
    pub fn fence(&self) -> Result<Fence, FenceError> {
        self.claim.validity()?;
        self.claim.fence().ok_or(FenceError::Plain)
    }

    /// The slot of a [semaphore](crate::Semaphore), from 0; `None` for other locks.
    pub fn slot(&self) -> Option<u32> {
        self.claim.hold(|hold| if let Mode::Slot { slot, .. } = hold.terms().mode { Some(slot) } else { None })
    }

    /// The number of nodes that are known to have granted it: at least a majority, because it does not wait for slow nodes.
    pub fn nodes(&self) -> usize {
        self.claim.hold(Hold::nodes).len()
    }

    /// The lifetime on the nodes after each renewal.
    pub fn ttl(&self) -> Duration {
        self.claim.hold(|hold| hold.terms().ttl.duration())
    }

    /// How long the lease surely holds without another renewal; zero if it is over.
    ///
    /// Counted by the boot-time clock. If the wall clock ran ahead of that by more than is left, the machine was paused, and
    /// the lease is lost.
    pub fn validity(&self) -> Duration {
        self.claim.validity().unwrap_or_default()
    }

    /// Checks by the local clock that the lease is valid for at least this long.
    ///
    /// It asks no node. A lease that somebody [broke](crate::Client::break_lock) with [`now`](crate::Break::now), or whose owner was
    /// [retired](crate::Client::retire), passes until this client has heard of it: a break is announced at once where the
    /// nodes can send hints, everything else is found with the next renewal. Somebody else may hold the lock in that time,
    /// with a higher fence. [`extend`](Self::extend) asks the nodes.
    ///
    /// # Errors
    /// [`LostError::TooShort`] if less is left, or the reason why the lease is over.
    pub fn ensure(&self, needed: Duration) -> Result<(), LostError> {
        let left = self.claim.validity()?;
        if left < needed { Err(LostError::TooShort { left, needed }) } else { Ok(()) }
    }

    /// Waits until the lease is lost. It fires at the end of validity at the latest, from a timer of its own; it never
    /// fires for a lease that is released. A pause of the machine is noticed with the next renewal.
    ///
    /// # Cancel safety
    /// The future changes nothing and may be dropped.
    pub fn lost(&self) -> impl Future<Output = LostError> + Send + Sync + 'static {
        Arc::clone(&self.claim).lost()
    }

    /// Renews the lease now: a majority of the nodes restarts the ttl.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when the lease is over: nothing revives it. [`LeaseError::NoQuorum`] when no majority
    /// renewed it in time; it still holds until its validity ends.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop a renewal that is under way; the lease stays held.
    pub async fn extend(&self) -> Result<(), LeaseError> {
        self.claim.extend().await
    }

    /// Releases the lock, and waits until a majority of the nodes has acknowledged it.
    ///
    /// Dropping the lease gives it back as well; this is for those who want to know.
    ///
    /// # Errors
    /// [`LeaseError`] when the lease was lost before, or when too few nodes acknowledged by the node deadline. The
    /// lease is over in either case; what could not be delivered is delivered later, or lapses with its ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.claim.release().await
    }

    /// Gives up the guard without giving the lock back: nobody renews it from now on, and what is returned can be
    /// extended, checked and released by any client of these nodes. It lasts for its ttl from the last renewal, and does
    /// not end with this client, nor keep it open. While the client lives, nodes that had not granted it yet are still asked to, for as long
    /// as it surely holds without a renewal. On an SQLite node it may end with this process, unless the client was built to be
    /// [outlived by its leases](crate::ClientBuilder::outlived_by_leases).
    ///
    /// # Errors
    /// [`LostError`] when the lease is over.
    pub fn detach(self) -> Result<DetachedLease, LostError> {
        self.claim.detach()
    }

    /// Detaches all of these, or none: if one is over, the others are released.
    pub(crate) fn detach_all(leases: Vec<Self>) -> Result<Vec<DetachedLease>, LostError> {
        let mut done: Vec<(Arc<Claim>, DetachedLease)> = Vec::with_capacity(leases.len());
        for lease in leases {
            let claim = Arc::clone(&lease.claim);
            match lease.detach() {
                Ok(detached) => done.push((claim, detached)),
                Err(lost) => {
                    for (claim, detached) in &done {
                        claim.take_back_detached(detached);
                    }
                    return Err(lost);
                }
            }
        }
        Ok(done.into_iter().map(|(_, detached)| detached).collect())
    }

    /// The lease as [`detach`](Self::detach) would give it, while this guard goes on: for work in other processes
    /// that wants to [check](crate::Client::check) it.
    pub fn as_detached(&self) -> DetachedLease {
        self.claim.as_detached()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.claim.let_go();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = &mut f.debug_struct("Lease");
        lease.field("name", self.name()).field("fence", &self.claim.fence()).field("validity", &self.validity());
        lease.finish_non_exhaustive()
    }
}
