//! The operations of a holder: read the validity, wait for the loss, renew now, and release.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::terms::Terms;
use quorlock_core::time::Moment;

use super::{Claim, Stage};
use crate::cluster::broadcast::Broadcast;
use crate::detached::DetachedLease;
use crate::error::{LeaseError, LostError, Operation};
use crate::link::Link;
use crate::platform::clock;
use crate::platform::entropy::SystemRng;

impl Claim {
    /// Returns the remaining validity, or why the lease is over. Reads the clock, because the timer call that notices a
    /// loss may be late.
    pub(crate) fn validity(self: &Arc<Self>) -> Result<Duration, LostError> {
        self.validity_at(clock::now())
    }

    pub(super) fn validity_at(self: &Arc<Self>, now: Moment) -> Result<Duration, LostError> {
        let mut inner = self.inner();
        let now = inner.moment(now, clock::wall);
        let left = inner.hold().map_or(Duration::ZERO, |hold| hold.validity(now));
        if left.is_zero()
            && let Stage::Held(hold) = &mut inner.stage
            && hold.is_held()
        {
            let steps = hold.tick(now, &mut SystemRng::default());
            self.perform(&mut inner, steps);
            let end = inner.end;
            self.finish(inner, Link::flush);
            return end.map_or(Ok(left), Err);
        }
        inner.end.map_or(Ok(left), Err)
    }

    /// Returns the validity when the boot-time clock shows `now` and the wall clock shows `wall`, without changing
    /// anything.
    #[cfg(feature = "sim")]
    pub(crate) fn peek(&self, now: Moment, wall: i64) -> Duration {
        let inner = self.inner();
        let now = inner.moment(now, || wall);
        inner.hold().map_or(Duration::ZERO, |hold| hold.validity(now))
    }

    /// Returns the end of the validity by the wall clock.
    #[cfg(feature = "sim")]
    pub(crate) fn wall_until(&self) -> i64 {
        self.inner().wall_until
    }

    /// Reads the hold (core's state machine of a held lease). The claim must have won the lock.
    pub(crate) fn hold<T>(&self, read: impl FnOnce(&Hold) -> T) -> T {
        read(self.inner().hold().expect("a lease is given out after the win"))
    }

    /// Returns the fence. All leases that one owner of a reentrant lock has return the same fence: the highest fence
    /// that any of them was granted.
    pub(crate) fn fence(&self) -> Option<Fence> {
        let inner = self.inner();
        let fence = inner.hold()?.fence()?;
        Some(inner.owner_fence.as_ref().map_or(fence, |shared| shared.highest(fence)))
    }

    /// Returns the lease in its detached form.
    pub(crate) fn as_detached(&self) -> DetachedLease {
        let (name, fence) = (self.key.name.clone(), self.fence());
        self.hold(|hold| {
            let Terms { ttl, mode, holder, .. } = hold.terms().clone();
            DetachedLease { name, id: hold.attempt(), fence, ttl, mode, holder }
        })
    }

    /// Waits until the lease is lost. If the lease is released, it waits forever.
    pub(crate) async fn lost(self: Arc<Self>) -> LostError {
        loop {
            let changed = self.changed.notified();
            if let Some(end) = self.inner().end {
                return end;
            }
            changed.await;
        }
    }

    /// Renews the lease now, and waits for the result.
    pub(crate) async fn extend(self: &Arc<Self>) -> Result<(), LeaseError> {
        let round = {
            let mut inner = self.inner();
            let now = inner.moment(clock::now(), clock::wall);
            let Stage::Held(hold) = &mut inner.stage else { return Err(LostError::Expired.into()) };
            let (round, steps) = hold.extend(now);
            self.perform(&mut inner, steps);
            self.finish(inner, Link::flush);
            round
        };
        loop {
            let changed = self.changed.notified();
            {
                let inner = self.inner();
                if let Some(end) = inner.end {
                    return Err(end.into());
                }
                // `round` is `None` if the lease has ended, and only a release leaves `end` empty. A release consumes
                // the lease, so nobody can call this method after it.
                let round = round.ok_or(LostError::Expired)?;
                match &inner.verdict {
                    Some((decided, None)) if *decided >= round => return Ok(()),
                    Some((decided, Some(tally))) if *decided >= round => {
                        let tally = self.cluster.name_nodes((**tally).clone());
                        return Err(LeaseError::NoQuorum { operation: Operation::Extend, tally });
                    }
                    _ => {}
                }
            }
            changed.await;
        }
    }

    /// Releases the lock, and waits until a majority of the nodes has acknowledged the release.
    pub(crate) async fn release(self: &Arc<Self>) -> Result<(), LeaseError> {
        let receipt = Broadcast::new(&self.cluster, self.hold(|hold| hold.terms().node_deadline));
        if let Some(lost) = self.end(None, Some(&receipt)) {
            return Err(lost.into());
        }
        let round = receipt.wait(&self.cluster, |round| round.is_answered() || round.is_unanswerable()).await;
        if round.is_answered() {
            return Ok(());
        }
        let tally = self.cluster.name_nodes(round.tally());
        Err(LeaseError::NoQuorum { operation: Operation::Release, tally })
    }
}
