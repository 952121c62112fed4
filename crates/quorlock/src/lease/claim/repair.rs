//! Repairs a detached lease: requests the lease from the nodes that do not have it yet. If only a bare majority of the
//! nodes has a lease, and one of these nodes fails, the lease is lost.
//!
//! Only the client that won the lease can repair it, and only while the lease is surely valid: no other client knows
//! that the lease was never lost.

use std::sync::{Arc, MutexGuard};

use quorlock_core::hold::{Hold, Step};
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::time::Moment;

use super::{Claim, ClaimState, Stage};
use crate::detached::{DetachedLease, ops};
use crate::error::LostError;
use crate::link::Link;
use crate::node::event::What;
use crate::platform::{clock, entropy};

impl ClaimState {
    /// Ends the repair: no more requests are sent for the detached lease.
    pub(super) fn stop_repair(&mut self) {
        if let Stage::Detached { next, .. } = &mut self.stage {
            *next = None;
        }
    }

    /// Returns the next request for the nodes that do not have the lease, and doubles the pause before the request
    /// after it. `moment` is the time by which to judge the hold (see [`moment`](Self::moment)).
    pub(super) fn repair(&mut self, now: Moment, moment: Moment) -> Vec<Step> {
        let Stage::Detached { hold, next, pause } = &mut self.stage else { return Vec::new() };
        let Some(step) = hold.repair(moment).filter(|_| next.is_some()) else { return Vec::new() };
        *pause *= 2;
        *next = Some(hold.next_tick().map_or(now + *pause, |end| end.min(now + *pause)));
        vec![step]
    }
}

impl Claim {
    /// Detaches the lease: keeps the votes, and stops renewing. While the lease is surely valid, the claim still
    /// requests it from the nodes that have not granted it.
    pub(crate) fn detach(self: &Arc<Self>) -> Result<DetachedLease, LostError> {
        let now = clock::now();
        self.validity_at(now)?;
        let detached = self.as_detached();
        let mut inner = self.inner();
        let ClaimState { stage, end, .. } = &mut *inner;
        let Stage::Held(hold) = stage else { return Err(LostError::Expired) };
        if !hold.detach(now) {
            return Err(end.unwrap_or(LostError::Expired));
        }
        // Some nodes have not replied yet, and most of their replies will be grants. Ask again only after these
        // replies.
        let pause = hold.terms().node_deadline;
        let (hold, owner) = (hold.clone(), hold.terms().mode.owner());
        inner.stage = Stage::Detached { hold, next: Some(now + pause), pause };
        self.leave_queue(&mut inner);
        inner.has_changed = true;
        let is_kept = self.cluster.claims.add_repair(owner, detached.id, Arc::clone(self) as _);
        if !is_kept || self.cluster.is_closed() {
            inner.stop_repair();
        }
        // The caller may be about to exit.
        self.finish(inner, Link::flush_now);
        self.end_repair_if_complete(self.inner());
        Ok(detached)
    }

    /// Releases a detached lease whose text was never passed to anyone.
    pub(crate) fn take_back_detached(&self, detached: &DetachedLease) {
        ops::give_back(&self.cluster, detached, &self.key, None);
        self.cluster.note(|| ops::event(&self.cluster, detached, What::Released));
    }

    /// Gives up the claim's positions in the nodes' queues, because no further request will use them. Keeps the votes.
    fn leave_queue(&self, inner: &mut ClaimState) {
        let Some(terms) = inner.hold().map(Hold::terms).filter(|_| inner.waiter.is_some()) else { return };
        let release = self.release_of(LeaseId::from_bits(entropy::bits()), terms);
        let parting = inner.parting();
        let nodes: NodeSet = inner.asked.iter().filter(|node| parting(*node).is_some()).collect();
        self.cluster.release(nodes, inner.asked, &release, parting, None);
        inner.queued.extend(nodes.iter());
    }

    /// Unlocks the claim and sends the queued requests. Ends the repair if every node has the lease.
    pub(super) fn end_repair_if_complete(self: &Arc<Self>, mut inner: MutexGuard<'_, ClaimState>) {
        let Stage::Detached { hold, next, .. } = &inner.stage else { return self.finish(inner, Link::flush) };
        let moment = inner.moment(clock::now(), clock::wall);
        let is_complete = hold.repair(moment).is_none() || next.is_none();
        let (owner, id) = (hold.terms().mode.owner(), hold.attempt());
        if is_complete {
            // If the time of the next request stayed set, the timers would call the claim again and again for it.
            inner.stop_repair();
        }
        self.finish(inner, Link::flush);
        if is_complete {
            self.cluster.claims.end_repair(owner, id);
            // A request may have been lost since `stop_repair`: no link has to remember it.
            self.forget(id);
        }
    }

    /// Makes the links forget the attempt. A link remembers the lost requests of an attempt for its release, and this
    /// claim will not release it.
    pub(super) fn forget(&self, attempt: LeaseId) {
        for link in &self.cluster.links {
            link.forget(attempt);
        }
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests;
