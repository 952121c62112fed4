//! The guard of an acquired lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::name::{LeaseId, Name};
use quorlock_core::terms::Mode;

use crate::api::client::Client;
use crate::detached::DetachedLease;
use crate::error::{FenceError, LeaseError, LostError};
use crate::lease::claim::Claim;

/// The guard of an acquired lock. The lock is held until the lease is released, dropped or lost.
///
/// A background task, the watchdog, renews the lease. The lease can still be lost if the nodes cannot be reached or
/// this process is paused: await [`lost`](Self::lost), call [`ensure`](Self::ensure) before each step, and pass the
/// [`fence`](Self::fence) (fencing token) to the resource that the lock protects, so that the resource can reject late
/// steps.
///
/// Dropping a lease releases the lock without blocking. A lease keeps its client's connections open, so the lock stays
/// held after the last [`Client`](crate::Client) and [`Lock`](crate::Lock) are dropped.
/// [`Client::close`](crate::Client::close) ends all leases. A leaked lease ([`std::mem::forget`]) is renewed until the
/// lifetime limit of its [`Renewals`](crate::Renewals), by default one hour.
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct Lease {
    pub(crate) claim: Arc<Claim>,
    /// Keeps the client open until the release is queued.
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

    /// Returns the random value that signs this lease on the nodes. It is a secret: with it, anyone can release the
    /// lock.
    pub fn id(&self) -> LeaseId {
        self.claim.hold(Hold::attempt)
    }

    /// Returns the fence (fencing token), a number that is higher than the fences of all earlier leases of this name.
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

    /// Returns the number of nodes that are known to have granted the lease. This may be only a majority, because an
    /// acquire does not wait for slow nodes.
    pub fn nodes(&self) -> usize {
        self.claim.hold(Hold::nodes).len()
    }

    /// Returns the time for which the nodes keep the lease after each renewal.
    pub fn ttl(&self) -> Duration {
        self.claim.hold(|hold| hold.terms().ttl.duration())
    }

    /// Returns how long the lease is surely valid without another renewal; zero if it is over.
    ///
    /// The boot-time clock measures the validity. If the wall clock has advanced further than the boot-time clock, and
    /// the difference exceeds the remaining validity, the machine was paused, and the lease is lost.
    pub fn validity(&self) -> Duration {
        self.claim.validity().unwrap_or_default()
    }

    /// Checks by the local clock that the lease is valid for at least the duration `needed`: the longest time that your
    /// next step may take.
    ///
    /// This method does not ask the nodes; [`extend`](Self::extend) does. If the lease was
    /// [broken](crate::Client::break_lock) with [`now`](crate::Break::now), or its owner was
    /// [retired](crate::Client::retire), somebody else may hold the lock with a higher fence, but the check passes
    /// until this client knows. The nodes notify this client of a break at once; if the notification does not arrive,
    /// the next renewal fails.
    ///
    /// # Errors
    /// [`LostError::TooShort`] if the remaining validity is shorter. Other [`LostError`]s if the lease is over.
    pub fn ensure(&self, needed: Duration) -> Result<(), LostError> {
        let left = self.claim.validity()?;
        if left < needed { Err(LostError::TooShort { left, needed }) } else { Ok(()) }
    }

    /// Waits until the lease is lost. The future resolves at the latest when the validity ends by this process's clock.
    /// That clock stops while a virtual machine is paused; the next renewal then detects the loss. If the lease is
    /// released, the future never resolves.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> impl Future<Output = LostError> + Send + Sync + 'static {
        Arc::clone(&self.claim).lost()
    }

    /// Renews the lease now: a majority of the nodes restarts the ttl.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if the lease is over, which is final. [`LeaseError::NoQuorum`] if no majority renewed it
    /// by the node deadline; the lease is still held until its validity ends.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop a renewal that has started. The lease stays held.
    pub async fn extend(&self) -> Result<(), LeaseError> {
        self.claim.extend().await
    }

    /// Releases the lock, and waits until a majority of the nodes has acknowledged the release.
    ///
    /// Dropping the lease also releases the lock, but does not report the result.
    ///
    /// # Errors
    /// [`LeaseError`] if the lease was lost before, or if too few nodes acknowledged by the node deadline. The lease is
    /// over in either case. Releases that could not be delivered are retried; votes that are never released end with
    /// their ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.claim.release().await
    }

    /// Gives up the guard without releasing the lock.
    ///
    /// After this call, this client no longer renews the lease. Any client of these nodes can extend, check and release
    /// the detached lease. The detached lease lasts for its ttl from the last renewal, also if this client is closed,
    /// and does not keep the client open. Until the current validity ends, the client still requests the lease from
    /// nodes that have not granted it. On an SQLite node the lease may end when this process ends, unless the client
    /// was built with [`leases_outlive_process`](crate::ClientBuilder::leases_outlive_process).
    ///
    /// # Errors
    /// [`LostError`] if the lease is over.
    pub fn detach(self) -> Result<DetachedLease, LostError> {
        self.claim.detach()
    }

    /// Detaches all of these leases, or none. If one lease is over, all others are released.
    pub(crate) fn detach_all(leases: Vec<Self>) -> Result<Vec<DetachedLease>, LostError> {
        let mut all_detached: Vec<(Arc<Claim>, DetachedLease)> = Vec::with_capacity(leases.len());
        for lease in leases {
            let claim = Arc::clone(&lease.claim);
            match lease.detach() {
                Ok(detached) => all_detached.push((claim, detached)),
                Err(lost) => {
                    for (claim, detached) in &all_detached {
                        claim.take_back_detached(detached);
                    }
                    return Err(lost);
                }
            }
        }
        Ok(all_detached.into_iter().map(|(_, detached)| detached).collect())
    }

    /// Returns the lease in its detached form, and keeps the guard. Other processes can [check](crate::Client::check)
    /// the detached lease.
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
