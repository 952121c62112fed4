//! Feeds the core's hold machine: renewals, and the latch that fires when a lease is lost. No task per lease.

mod claim;
mod receipt;
mod repair;

use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::mode::{Mode, OwnerId};
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::quorum::{Quorum, Tally};
use quorlock_core::rules::Rule;
use quorlock_core::step::{Step, Won};
use quorlock_core::terms::Terms;
use quorlock_core::ticket::Parting;
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::vote::{Outcome, Request, Silence};
use tokio::sync::Notify;

use crate::cluster::owner::OwnerFence;
use crate::cluster::{Claim, Cluster};
use crate::detached::DetachedLease;
use crate::error::{LeaseError, LostError, Operation};
use crate::link::{Ask, GiveBack, Mark, Voter};
use crate::node::event::What;
use crate::node::key::LockKey;
use crate::platform::clock;
use crate::platform::entropy::{self, SystemRng};
use crate::platform::sync::Mutex;
use crate::platform::timers::{Call, Timed};
use receipt::Receipt;

/// A lock that is held: the state behind a lease.
pub(crate) struct Held {
    cluster: Arc<Cluster>,
    pub(crate) key: Arc<LockKey>,
    mark: Arc<Mark>,
    quorum: Quorum,
    ttl: Ttl,
    node_deadline: Duration,
    plain: bool,
    /// What is given up together with the lock: places in the queue on nodes that did not grant it.
    parting: Option<Parting>,
    /// Nodes that did, and took the place out of their queue with that: one bit each.
    granted: NodeSet,
    /// Which slot it is in, of a semaphore.
    pub(crate) slot: Option<u32>,
    /// The fence that it shares with the other entries of its owner, of a reentrant lock.
    owner_fence: Option<OwnerFence>,
    /// Who may retire it.
    entered_by: Option<OwnerId>,
    inner: Mutex<Inner>,
    changed: Notify,
}

struct Inner {
    hold: Hold,
    /// When its validity ends by the wall clock.
    wall_until: i64,
    /// Set once, when it is over for another reason than its owner's release.
    end: Option<LostError>,
    /// The last renewal that came to a verdict: its number, and the tally if it failed.
    verdict: Option<(u32, Option<Tally>)>,
    /// The moment of the earliest call that the timers owe us.
    scheduled: Option<Moment>,
    /// The last call that was asked of them.
    call: Option<Call>,
    /// Whether something has been queued at the links.
    queued: bool,
    /// It was detached: how long until the nodes that do not have it are asked again.
    mending: Option<Duration>,
}

impl Inner {
    fn new(hold: Hold) -> Self {
        let (verdict, scheduled, call, mending) = (None, None, None, None);
        let mut inner = Self { hold, wall_until: 0, end: None, verdict, scheduled, call, queued: false, mending };
        inner.follow_hold();
        inner
    }

    /// The hold may have been renewed: its end by the wall clock follows that by the boot-time clock.
    fn follow_hold(&mut self) {
        if let Some((from, until)) = self.hold.span() {
            let lasts = i64::try_from(until.since(from).as_nanos()).unwrap_or(i64::MAX);
            self.wall_until = clock::wall_at(from).saturating_add(lasts);
        }
    }

    /// The moment by which to judge the hold: `now`, or its end if it is over by the wall clock. The clock of `now` stands
    /// still while the machine is paused; the nodes' ttls do not. A wall clock that was set forward looks the same.
    fn moment(&self, now: Moment, wall: i64) -> Moment {
        let Some((_, until)) = self.hold.span() else { return now };
        let notices = self.hold.terms().rules.hold(Rule::NoticePauses);
        if notices && wall > self.wall_until { now.max(until) } else { now }
    }
}

impl Held {
    /// Keeps what was won. `Err` gives it back: the client was closed meanwhile, or the machine was paused for too long.
    pub(crate) fn keep(
        cluster: &Arc<Cluster>,
        key: &Arc<LockKey>,
        terms: Terms,
        won: Won,
        mark: Arc<Mark>,
    ) -> Result<Arc<Self>, LostError> {
        let (quorum, ttl, node_deadline) = (terms.quorum, terms.ttl, terms.node_deadline);
        let plain = won.fence.is_none();
        let parting = won.waiter.map(Parting::Leave);
        let slot = if let Mode::Slot { slot, .. } = won.mode { Some(slot) } else { None };
        let owner_fence = match (won.mode, won.fence) {
            (Mode::Reentrant { owner }, Some(fence)) => Some(cluster.owner_fences.enter(owner, &key.text, fence)),
            _ => None,
        };
        let (id, entered_by) = (won.attempt, won.mode.owner());
        let now = clock::now();
        let hold = Hold::new(terms, won, now);
        let granted = hold.nodes();
        let held = Arc::new(Self {
            cluster: Arc::clone(cluster),
            key: Arc::clone(key),
            mark,
            quorum,
            ttl,
            node_deadline,
            plain,
            parting,
            granted,
            slot,
            owner_fence,
            entered_by,
            inner: Mutex::new(Inner::new(hold)),
            changed: Notify::new(),
        });
        if held.inner().moment(now, clock::wall()) > now {
            held.end(Some(LostError::Expired), None, now);
            return Err(LostError::Expired);
        }
        if !cluster.claims.add(Arc::downgrade(&held) as Weak<dyn Claim>, id) {
            held.close();
            return Err(LostError::Closed);
        }
        let mut inner = held.inner();
        held.note(&inner, What::Granted, None);
        held.schedule(&mut inner);
        drop(inner);
        Ok(held)
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.duration()
    }

    /// What surely is left, or why nothing is. Re-checks the clock rather than trust the timer.
    pub(crate) fn validity(self: &Arc<Self>) -> Result<Duration, LostError> {
        self.validity_at(clock::now())
    }

    fn validity_at(self: &Arc<Self>, now: Moment) -> Result<Duration, LostError> {
        let mut inner = self.inner();
        let now = inner.moment(now, clock::wall());
        let left = inner.hold.validity(now);
        if left.is_zero() && inner.hold.is_held() {
            self.advance(&mut inner, now);
        }
        let end = inner.end;
        self.let_out(inner);
        end.map_or(Ok(left), Err)
    }

    /// What is left when the clocks say this, as far as is known: nothing comes of looking.
    #[cfg(feature = "sim")]
    pub(crate) fn peek(&self, now: Moment, wall: i64) -> Duration {
        let inner = self.inner();
        inner.hold.validity(inner.moment(now, wall))
    }

    /// When its validity ends by the wall clock.
    #[cfg(feature = "sim")]
    pub(crate) fn wall_until(&self) -> i64 {
        self.inner().wall_until
    }

    /// All entries of one owner have one fence: the highest that any of them was given for this name.
    pub(crate) fn fence(&self) -> Option<Fence> {
        let fence = self.inner().hold.fence()?;
        Some(self.owner_fence.as_ref().map_or(fence, |shared| shared.highest(fence)))
    }

    /// Waits until it is over for another reason than its owner's release.
    pub(crate) async fn lost(self: Arc<Self>) -> LostError {
        loop {
            let changed = self.changed.notified();
            if let Some(end) = self.inner().end {
                return end;
            }
            changed.await;
        }
    }

    /// Renews now, and waits for the verdict.
    pub(crate) async fn extend(self: &Arc<Self>) -> Result<(), LeaseError> {
        let round = {
            let mut inner = self.inner();
            let now = inner.moment(clock::now(), clock::wall());
            let (round, steps) = inner.hold.extend(now);
            self.perform(&mut inner, steps);
            self.let_out(inner);
            round
        };
        loop {
            let changed = self.changed.notified();
            {
                let inner = self.inner();
                if let Some(end) = inner.end {
                    return Err(end.into());
                }
                // A lease that ended without a reason was released, and then nobody is left to call this.
                let round = round.ok_or(LostError::Expired)?;
                match &inner.verdict {
                    Some((settled, None)) if *settled >= round => return Ok(()),
                    Some((settled, Some(tally))) if *settled >= round => {
                        let tally = self.cluster.name_nodes(tally.clone());
                        return Err(LeaseError::NoQuorum { operation: Operation::Extend, tally });
                    }
                    _ => {}
                }
            }
            changed.await;
        }
    }

    /// Gives the lock back, and waits until a majority has acknowledged it.
    pub(crate) async fn release(self: &Arc<Self>) -> Result<(), LeaseError> {
        let now = clock::now();
        let deadline = now + self.node_deadline;
        let receipt = Arc::new(Receipt::new(self.quorum, deadline));
        let end = self.end(None, Some(&receipt), now);
        if let Some(lost) = end {
            return Err(lost.into());
        }
        let timers = &self.cluster.timers;
        let mut call = None;
        if !receipt.is_complete() {
            let weak: Weak<Receipt> = Arc::downgrade(&receipt);
            call = timers.at(deadline, weak);
            if call.is_none() {
                Arc::clone(&receipt).tick(deadline);
            }
        }
        let told = receipt.wait().await;
        if let Some(call) = call {
            timers.cancel(call);
        }
        told.map_err(|tally| LeaseError::NoQuorum {
            operation: Operation::Release,
            tally: self.cluster.name_nodes(tally),
        })
    }

    /// How many nodes are known to have granted it.
    pub(crate) fn nodes(&self) -> usize {
        self.inner().hold.nodes().len()
    }

    /// Whether there may be a place in the queue: a node that grants takes it out, unless it is asked once more after that.
    fn may_be_in_queue(&self, node: usize) -> bool {
        !self.granted.contains(node) || self.mark.may_be_placed(node)
    }

    /// Gives up the places in the queue that may be left, and nothing else: nobody will ask there any more.
    fn leave_lines(&self) {
        let Some(parting) = self.parting else { return };
        // First: one that is asked only now would put it in the queue behind this.
        self.mark.leave();
        let rest = Arc::new(self.mark.next(LeaseId::from_bits(entropy::bits())));
        rest.finish();
        let back = GiveBack::new(&rest, &self.key, self.ttl, self.plain, clock::now());
        for link in self.cluster.links.iter().filter(|link| self.may_be_in_queue(link.node)) {
            link.release(&back, Some(parting), None);
        }
        // Nobody waits for it, and a caller that has detached the lease may be about to end.
        self.cluster.flush_now();
    }

    /// What others need to know of it.
    pub(crate) fn as_detached(&self) -> DetachedLease {
        let (name, id, fence) = (self.key.name.clone(), self.mark.attempt, self.fence());
        let Terms { ttl, mode, holder, .. } = self.inner().hold.terms().clone();
        DetachedLease { name, id, fence, ttl, mode, holder }
    }

    /// Gives the lock back, without waiting for anything.
    pub(crate) fn let_go(&self) {
        // After a release there is nothing left to end, nor when it was detached: that takes no look at the clock.
        let is_ours = {
            let inner = self.inner();
            inner.hold.is_held() && inner.mending.is_none()
        };
        if is_ours {
            self.end(None, None, clock::now());
        }
    }

    /// Ends it, once. Returns why it was over before, if it was lost.
    fn end(&self, reason: Option<LostError>, receipt: Option<&Arc<Receipt>>, now: Moment) -> Option<LostError> {
        let _unsettled = self.cluster.unsettled();
        let mut inner = self.inner();
        if inner.mending.is_some() {
            // It is somebody else's by now.
            return None;
        }
        if inner.hold.validity(inner.moment(now, clock::wall())).is_zero() && inner.hold.is_held() {
            // It ran out before anyone noticed.
            inner.end = Some(LostError::Expired);
            self.cluster.counters.lost();
        }
        let before = inner.end;
        let was_held = inner.hold.release();
        if let Some(call) = inner.call.take() {
            self.cluster.timers.cancel(call);
        }
        inner.end = before.or(reason);
        if was_held {
            self.note(&inner, if before.is_some() { What::Lost } else { What::Released }, inner.end);
        }
        drop(inner);
        // Whoever ended it before has taken the votes back.
        if was_held {
            self.take_back(receipt, now);
            // A caller that waits for the answers stays until they come; one that dropped the lease may be about to end.
            if receipt.is_some() {
                self.cluster.flush();
            } else {
                self.cluster.flush_now();
            }
            self.cluster.claims.remove(self.mark.attempt);
            self.changed.notify_waiters();
        }
        before
    }

    fn note(&self, inner: &Inner, what: What, why: Option<LostError>) {
        self.cluster.note(|| {
            let why = why.map(|why| why.to_string()).unwrap_or_default();
            self.cluster.lease_event(&self.key.name, &inner.hold, what).because(&why)
        });
    }

    /// Marks the attempt done first: nothing of it that is not on its way yet will be sent.
    fn take_back(&self, receipt: Option<&Arc<Receipt>>, now: Moment) {
        self.mark.finish();
        let back = GiveBack::new(&self.mark, &self.key, self.ttl, self.plain, now);
        for link in &self.cluster.links {
            let voter = receipt.map(|receipt| Arc::clone(receipt) as Arc<dyn Voter>);
            let parting = self.parting.filter(|_| self.may_be_in_queue(link.node));
            let owed = link.release(&back, parting, voter);
            if let Some(receipt) = receipt.filter(|_| !owed) {
                receipt.take(link.node, Outcome::Silent(Silence::Unheard));
            }
        }
    }

    fn perform(self: &Arc<Self>, inner: &mut Inner, mut steps: Vec<Step>) {
        let mut at = 0;
        while at < steps.len() {
            match steps[at].clone() {
                Step::Ask { round, request, .. } => {
                    let more = self.ask(inner, round, request);
                    steps.extend(more);
                }
                Step::Renewed { round } => inner.verdict = Some((round, None)),
                Step::Failed { round, tally } => inner.verdict = Some((round, Some(tally))),
                Step::Lost(loss) => {
                    inner.end = Some(loss.into());
                    self.cluster.counters.lost();
                    tracing::warn!(name = %self.key.name, reason = %LostError::from(loss), "lease lost");
                    self.note(inner, What::Lost, inner.end);
                    // The votes that are left are of no use to anyone.
                    self.take_back(None, clock::now());
                    inner.queued = true;
                    self.cluster.claims.remove(self.mark.attempt);
                }
                Step::Release { .. } | Step::Waits(_) | Step::Won(_) | Step::Defeated(_) => {}
            }
            at += 1;
        }
        if at > 0 {
            self.changed.notify_waiters();
        }
        self.schedule(inner);
    }

    fn ask(self: &Arc<Self>, inner: &mut Inner, round: u32, request: Request) -> Vec<Step> {
        let request = Arc::new(request);
        let mut steps = Vec::new();
        inner.queued = true;
        self.mark.begin_renewal(round);
        for link in &self.cluster.links {
            let ask = Ask {
                mark: Arc::clone(&self.mark),
                key: Arc::clone(&self.key),
                request: Arc::clone(&request),
                voter: Arc::clone(self) as Arc<dyn Voter>,
                round,
                is_resent: false,
            };
            if let Err(silence) = link.ask(ask) {
                let outcome = Outcome::Silent(silence);
                steps.extend(inner.hold.take(round, link.node, outcome, clock::now(), &mut SystemRng::default()));
            }
        }
        steps
    }

    /// Sees to it that the timers call before the machine has to do something.
    fn schedule(self: &Arc<Self>, inner: &mut Inner) {
        let Some(next) = inner.hold.next_tick() else { return };
        if inner.scheduled.is_none_or(|scheduled| next < scheduled) {
            inner.scheduled = Some(next);
            let this: Weak<Self> = Arc::downgrade(self);
            // Without the timers there is no client either, and the lease ends with it.
            inner.call = self.cluster.timers.at(next, this);
        }
    }

    fn advance(self: &Arc<Self>, inner: &mut Inner, now: Moment) {
        let now = inner.moment(now, clock::wall());
        let steps = inner.hold.tick(now, &mut SystemRng::default());
        self.perform(inner, steps);
    }

    /// Sends what has been queued, outside of the mutex: votes may come in meanwhile.
    fn let_out(&self, mut inner: MutexGuard<'_, Inner>) {
        let queued = std::mem::take(&mut inner.queued);
        drop(inner);
        if queued {
            self.cluster.flush();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Timed for Held {
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment> {
        let mut inner = self.inner();
        // Called for a moment that has been replaced by another: that call is still to come.
        if inner.scheduled.is_some_and(|scheduled| now < scheduled) {
            return None;
        }
        inner.scheduled = None;
        if inner.mending.is_some() {
            self.mend(inner, now);
            return None;
        }
        self.advance(&mut inner, now);
        self.let_out(inner);
        None
    }
}

impl Voter for Held {
    fn vote(self: Arc<Self>, node: usize, attempt: LeaseId, round: u32, outcome: Outcome, now: Moment) {
        if attempt != self.mark.attempt {
            return;
        }
        let mut inner = self.inner();
        let now = inner.moment(now, clock::wall());
        let steps = inner.hold.take(round, node, outcome, now, &mut SystemRng::default());
        inner.follow_hold();
        if inner.mending.is_some() {
            self.look_after_mending(&inner, clock::now());
            return;
        }
        self.perform(&mut inner, steps);
        self.let_out(inner);
    }
}
