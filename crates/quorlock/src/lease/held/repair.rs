//! Giving a lease that was detached to the nodes that do not have it: a majority was enough to win it, and what stands on
//! nothing but that majority ends with the first of its nodes.
//!
//! Only the winner can do that, and only while it surely holds the lease: nobody else knows that it was never lost.

use std::sync::{Arc, MutexGuard, Weak};

use quorlock_core::step::Step;
use quorlock_core::time::Moment;

use super::{Held, Inner};
use crate::cluster::Claim;
use crate::detached::{DetachedLease, ops};
use crate::error::LostError;
use crate::link::{Ask, Voter};
use crate::node::event::What;
use crate::platform::clock;

impl Held {
    /// Gives up the guard, and leaves the votes where they are. Nodes that have not granted it yet are seen to, for as long
    /// as the hold lives.
    pub(crate) fn detach(self: &Arc<Self>) -> Result<DetachedLease, LostError> {
        let now = clock::now();
        self.validity_at(now)?;
        let detached = self.as_detached();
        let _unsettled = self.cluster.unsettled();
        let mut inner = self.inner();
        if !inner.hold.detach(now) {
            return Err(inner.end.unwrap_or(LostError::Expired));
        }
        self.cluster.claims.remove(self.mark.attempt);
        self.begin_mending(inner, now);
        self.leave_lines();
        self.changed.notify_waiters();
        Ok(detached)
    }

    /// Releases a lease that was detached and that nobody has been told of.
    pub(crate) fn take_back_detached(&self, detached: &DetachedLease) {
        ops::give_back(&self.cluster, detached, &self.key, None);
        self.cluster.note(|| ops::event(&self.cluster, detached, What::Released));
    }

    /// Waits for the answers that are on their way before anybody is asked once more: most of them are grants.
    fn begin_mending(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, now: Moment) {
        inner.mending = Some(self.node_deadline);
        let is_missing = inner.hold.repair(now).is_some();
        if !is_missing || self.cluster.is_closed() || !self.cluster.claims.repair(Arc::clone(self) as Arc<dyn Claim>) {
            self.mark.finish();
            return;
        }
        self.call_again(&mut inner, now);
    }

    /// Asks the nodes that do not have it, with longer and longer pauses: each may be away for a while.
    pub(super) fn mend(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, now: Moment) {
        let moment = inner.moment(now, clock::wall());
        let Some(Step::Ask { nodes, request, .. }) = inner.hold.repair(moment).filter(|_| !self.mark.is_done()) else {
            drop(inner);
            self.end_mending();
            return;
        };
        let request = Arc::new(request);
        for node in nodes.iter() {
            let ask = Ask {
                mark: Arc::clone(&self.mark),
                key: Arc::clone(&self.key),
                request: Arc::clone(&request),
                voter: Arc::clone(self) as Arc<dyn Voter>,
                round: 0,
                is_resent: false,
            };
            // One that cannot be asked now is asked the next time.
            inner.queued |= self.cluster.links[node].ask(ask).is_ok();
        }
        inner.mending = inner.mending.map(|pause| pause * 2);
        self.call_again(&mut inner, now);
        self.let_out(inner);
    }

    /// A node has answered: perhaps that was the last.
    pub(super) fn look_after_mending(&self, inner: &Inner, now: Moment) {
        if inner.hold.repair(inner.moment(now, clock::wall())).is_none() {
            self.end_mending();
        }
    }

    fn end_mending(&self) {
        self.cluster.claims.end_repair(self.entered_by, self.id());
    }

    fn call_again(self: &Arc<Self>, inner: &mut Inner, now: Moment) {
        let (Some(pause), Some(end)) = (inner.mending, inner.hold.next_tick()) else { return };
        let next = (now + pause).min(end);
        inner.scheduled = Some(next);
        let this: Weak<Self> = Arc::downgrade(self);
        inner.call = self.cluster.timers.at(next, this);
        if inner.call.is_none() {
            self.end_mending();
        }
    }
}
