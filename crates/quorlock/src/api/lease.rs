//! The guard of an acquired lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::mode::Mode;
use quorlock_core::name::{LeaseId, Name};

use crate::api::client::Client;
use crate::detached::DetachedLease;
use crate::error::{FenceError, LeaseError, LostError};
use crate::lease::claim::Claim;

/// The guard of an acquired lock, which holds it until it is released, dropped or lost.
///
/// The watchdog renews it in the background. It can still be lost if the nodes cannot be reached or this process is paused:
/// watch [`lost`](Self::lost), call [`ensure`](Self::ensure) before each step, and pass the [`fence`](Self::fence) to the
/// resource that the lock protects, so that the resource can refuse late steps.
///
/// Dropping a lease releases the lock without waiting or blocking. A lease keeps its client's connections open, so it holds
/// the lock even after the last [`Client`](crate::Client) and [`Lock`](crate::Lock) are dropped.
/// [`Client::close`](crate::Client::close) ends it. A lease that is leaked ([`std::mem::forget`]) is renewed until the
/// lifetime limit of its [`Renewals`](crate::Renewals), by default one hour.
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct Lease {
    pub(crate) claim: Arc<Claim>,
    /// Keeps the client open. Dropped after the release is queued.
    _client: Client,
}

impl Lease {
    /// Returns the guard of a claim that is not won yet.
    pub(crate) fn new(claim: Arc<Claim>, client: Client) -> Self {
        Self { claim, _client: client }
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        &self.claim.key.name
    }

    /// Returns the random value that signs this lease on the nodes. It is a secret: with it, anyone can release the lock.
    pub fn id(&self) -> LeaseId {
        self.claim.hold(Hold::attempt)
    }

    /// Returns the fence: a number that is higher than that of every earlier lease of this name.
    ///
    /// # Errors
    /// [`FenceError::Lost`] if the lease is over by the local clock. [`FenceError::Plain`] for a plain lock.
    pub fn fence(&self) -> Result<Fence, FenceError> {
        self.claim.validity()?;
        self.claim.fence().ok_or(FenceError::Plain)
    }

    /// Returns the slot of a [semaphore](crate::Semaphore), from 0, or `None` for other locks.
    pub fn slot(&self) -> Option<u32> {
        self.claim.hold(|hold| if let Mode::Slot { slot, .. } = hold.terms().mode { Some(slot) } else { None })
    }

    /// Returns the number of nodes that are known to have granted it: at least a majority, because an acquire does not wait
    /// for slow nodes.
    pub fn nodes(&self) -> usize {
        self.claim.hold(Hold::nodes).len()
    }

    /// Returns the lifetime on the nodes after each renewal.
    pub fn ttl(&self) -> Duration {
        self.claim.hold(|hold| hold.terms().ttl.duration())
    }

    /// Returns how long the lease is surely valid without another renewal; zero if it is over.
    ///
    /// It is measured by the boot-time clock. If the wall clock has advanced further than the boot-time clock by more than
    /// the remaining validity, the machine was paused, and the lease is lost.
    pub fn validity(&self) -> Duration {
        self.claim.validity().unwrap_or_default()
    }

    /// Checks by the local clock that the lease is valid for at least this long.
    ///
    /// It does not ask the nodes. If the lease was [broken](crate::Client::break_lock) with [`now`](crate::Break::now), or
    /// its owner was [retired](crate::Client::retire), the check passes until this client learns of it. A hint announces a
    /// break at once, if hints reach this client; otherwise the next renewal fails. Until then somebody else may hold the
    /// lock, with a higher fence. [`extend`](Self::extend) asks the nodes.
    ///
    /// # Errors
    /// [`LostError::TooShort`] if less is left, or the reason why the lease is over.
    pub fn ensure(&self, needed: Duration) -> Result<(), LostError> {
        let left = self.claim.validity()?;
        if left < needed { Err(LostError::TooShort { left, needed }) } else { Ok(()) }
    }

    /// Waits until the lease is lost. The future resolves by the end of the validity at the latest, and never for a lease
    /// that is released. If the machine was paused, the next renewal notices it.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> impl Future<Output = LostError> + Send + Sync + 'static {
        Arc::clone(&self.claim).lost()
    }

    /// Renews the lease now: a majority of the nodes restarts the ttl.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if the lease is over, which is final. [`LeaseError::NoQuorum`] if no majority renewed it in
    /// time; it is still held until its validity ends.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop a renewal that is under way. The lease stays held.
    pub async fn extend(&self) -> Result<(), LeaseError> {
        self.claim.extend().await
    }

    /// Releases the lock, and waits until a majority of the nodes has acknowledged it.
    ///
    /// Dropping the lease releases it as well, but does not report the result.
    ///
    /// # Errors
    /// [`LeaseError`] if the lease was lost before, or if too few nodes acknowledged by the node deadline. The lease is
    /// over in either case. Releases that could not be delivered are retried; votes that are never released end with their
    /// ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.claim.release().await
    }

    /// Gives up the guard without releasing the lock.
    ///
    /// Nothing renews the lease from now on. Any client of these nodes can extend, check and release it. It lasts for its
    /// ttl from the last renewal, does not end with this client, and does not keep the client open. While the client lives,
    /// it still asks nodes that have not granted the lease, as long as the lease is surely valid without a renewal. On an
    /// SQLite node the lease may end with this process, unless the client was built with
    /// [`outlived_by_leases`](crate::ClientBuilder::outlived_by_leases).
    ///
    /// # Errors
    /// [`LostError`] if the lease is over.
    pub fn detach(self) -> Result<DetachedLease, LostError> {
        self.claim.detach()
    }

    /// Detaches all of these leases, or none: if one is over, the others are released.
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

    /// Returns the lease in its detached form and keeps the guard: for other processes that want to
    /// [check](crate::Client::check) it.
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
