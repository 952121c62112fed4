//! The object behind a lease, from the first request to the release. It drives the core's state machines: first
//! [`Acquire`], then [`Hold`]. There is no task per claim.
//!
//! One mutex guards a claim. While the mutex is locked, the claim only queues requests and releases at the links. After
//! it is unlocked, the claim sends the requests, wakes callers and calls observers, which may run other code.

mod repair;
mod stage;
mod steps;

use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use quorlock_core::acquire::Acquire;
use quorlock_core::fence::Fence;
use quorlock_core::hold::{Defeat, Hold, Wait};
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::terms::Terms;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Handoff, NodeVote, Outcome, Silence, Tally, Verdict, Vote};
use tokio::sync::Notify;

use self::stage::{ClaimState, Stage};
use crate::cluster::Cluster;
use crate::cluster::broadcast::Broadcast;
use crate::detached::DetachedLease;
use crate::error::{LeaseError, LostError, Operation};
use crate::link::{ClaimEvents, Link, Voter};
use crate::node::event::What;
use crate::node::key::LockKey;
use crate::platform::clock;
use crate::platform::entropy::SystemRng;
use crate::platform::sync::Mutex;
use crate::platform::timers::Timed;

/// The progress of an [`acquire`](crate::Lock::acquire), for its [observer](crate::Lock::observe).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Somebody else holds the lock. Reported again whenever the holder or the state of the queue changes.
    Waiting(Wait),
    /// The lock was granted.
    Granted {
        /// The fence; `None` for a plain lock.
        fence: Option<Fence>,
    },
}

/// A callback for progress.
pub(crate) type Observer = Arc<dyn Fn(&Progress) + Send + Sync>;

/// A claim on a lock: the object behind a lease. It exists independently of the caller's future, so dropping the future
/// is always safe.
pub(crate) struct Claim {
    cluster: Arc<Cluster>,
    pub(crate) key: Arc<LockKey>,
    /// The claim's number in the registry.
    number: u64,
    inner: Mutex<ClaimState>,
    /// Notified after every change that a caller may wait for.
    changed: Notify,
}

impl Claim {
    /// Starts to acquire the lock. [`won`](Self::won) waits for the result; [`let_go`](Self::let_go) ends the claim at
    /// any time.
    pub(crate) fn start(cluster: &Arc<Cluster>, key: &Arc<LockKey>, terms: Terms) -> Arc<Self> {
        let (now, mut rng) = (clock::now(), SystemRng::default());
        let mut machine = Box::new(Acquire::new(terms, &mut rng));
        let attempt = machine.attempt();
        let steps = machine.tick(now, cluster.node_micros(now), &mut rng);
        let inner = ClaimState {
            stage: Stage::Acquiring { machine, news: None },
            attempt,
            asked: NodeSet::default(),
            has_asked: false,
            listens: false,
            waiter: None,
            granted: NodeSet::default(),
            wall_until: 0,
            end: None,
            verdict: None,
            owner_fence: None,
            call: None,
            queued: NodeSet::default(),
            has_changed: false,
        };
        let claim = Arc::new(Self {
            cluster: Arc::clone(cluster),
            key: Arc::clone(key),
            number: cluster.claims.next_number(),
            inner: Mutex::new(inner),
            changed: Notify::new(),
        });
        let weak: Weak<Self> = Arc::downgrade(&claim);
        cluster.claims.add(claim.number, weak);
        let mut inner = claim.inner();
        // Check only after registering: a client that is closed later finds the claim in the registry.
        if cluster.is_closed() {
            drop(inner);
            Arc::clone(&claim).close();
        } else {
            claim.perform(&mut inner, steps);
            claim.finish(inner, Link::flush);
        }
        claim
    }

    /// Waits until the lock is won, and reports the progress. The error is the defeat, or `None` if the client was
    /// closed.
    pub(crate) async fn won(self: &Arc<Self>, observer: Option<&Observer>) -> Result<(), Option<Defeat>> {
        loop {
            let changed = self.changed.notified();
            let news = match &mut self.inner().stage {
                Stage::Acquiring { news, .. } => Some(news.take()),
                Stage::Over(defeat) => return Err(defeat.take().map(|defeat| *defeat)),
                Stage::Held(_) | Stage::Detached { .. } => None,
            };
            // The observer is the caller's code: no mutex is held here.
            let tell = |progress| observer.into_iter().for_each(|observer| observer(&progress));
            let Some(news) = news else {
                match self.validity() {
                    Err(LostError::Closed) => return Err(None),
                    Err(LostError::Expired) => return Err(Some(self.expired_early())),
                    _ => {}
                }
                tell(Progress::Granted { fence: self.fence() });
                return Ok(());
            };
            if let Some(wait) = news {
                tell(Progress::Waiting(wait));
            }
            changed.await;
        }
    }

    /// Returns the defeat of an acquire whose grants are too old, because the machine was paused after the requests
    /// were sent.
    fn expired_early(&self) -> Defeat {
        let granted = self.hold(Hold::nodes);
        let vote = |node| {
            if granted.contains(node) { NodeVote::Granted } else { NodeVote::Silent(Silence::Unheard) }
        };
        let votes = (0..self.cluster.links.len()).map(vote).collect();
        Defeat { verdict: Verdict::TooSlow, tally: Tally { votes, nodes: Vec::new() }, tried: 1 }
    }

    /// Returns the remaining validity, or why the claim is over. It reads the clock, because the timer may be late.
    pub(crate) fn validity(self: &Arc<Self>) -> Result<Duration, LostError> {
        self.validity_at(clock::now())
    }

    fn validity_at(self: &Arc<Self>, now: Moment) -> Result<Duration, LostError> {
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

    /// Returns the validity at the given clock readings, without changing anything.
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

    /// Reads the hold of a lock that was won.
    pub(crate) fn hold<T>(&self, read: impl FnOnce(&Hold) -> T) -> T {
        read(self.inner().hold().expect("a lease is given out after the win"))
    }

    /// Returns the fence. All leases of one owner of a reentrant lock have the same fence, the highest of their grants.
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
                // Only a release ends a lease without a reason. A release consumes the lease, so nobody can call this
                // method after it.
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

    /// Ends the claim, unless it is over or detached, without waiting for replies.
    pub(crate) fn let_go(self: &Arc<Self>) {
        self.end(None, None);
    }

    /// Ends the claim, unless it is over. Returns the reason if the lease was already lost.
    fn end(self: &Arc<Self>, reason: Option<LostError>, receipt: Option<&Arc<Broadcast>>) -> Option<LostError> {
        let mut inner = self.inner();
        if inner.is_settled() {
            return inner.end;
        }
        inner.has_changed = true;
        if let Stage::Acquiring { machine, .. } = &mut inner.stage {
            let steps = machine.cancel();
            self.perform(&mut inner, steps);
            self.stop_acquiring(&mut inner, Stage::Over(None));
            self.finish(inner, Link::flush_now);
            return None;
        }
        let now = inner.moment(receipt.map_or_else(clock::now, |receipt| receipt.begun), clock::wall);
        let mut before = None;
        if let Stage::Held(hold) = &mut inner.stage {
            // The lease may have expired before the timer noticed.
            before = hold.validity(now).is_zero().then_some(LostError::Expired);
            hold.release();
        }
        inner.end = before.or(reason);
        if before.is_some() {
            self.cluster.counters.lost();
        }
        self.note(&inner, if before.is_some() { What::Lost } else { What::Released }, inner.end);
        self.give_back_all(&mut inner, receipt);
        // A caller that waits for the replies keeps the runtime alive. A caller that dropped the lease may be about to
        // exit.
        self.finish(inner, if receipt.is_some() { Link::flush } else { Link::flush_now });
        before
    }

    fn note(&self, inner: &ClaimState, what: What, why: Option<LostError>) {
        let Some(hold) = inner.hold() else { return };
        self.cluster.note(|| {
            let why = why.map(|why| why.to_string()).unwrap_or_default();
            self.cluster.lease_event(&self.key.name, hold, what).because(&why)
        });
    }

    /// Unlocks the claim, sends the queued requests, and wakes callers that wait for a change. Replies may arrive
    /// meanwhile.
    fn finish(self: &Arc<Self>, mut inner: MutexGuard<'_, ClaimState>, flush: fn(&Link)) {
        let queued = std::mem::take(&mut inner.queued);
        let has_changed = std::mem::take(&mut inner.has_changed);
        let (is_settled, is_unscheduled) = (inner.is_settled(), inner.unscheduled().is_some());
        if inner.next_tick().is_none()
            && let Some(call) = inner.call.take()
        {
            self.cluster.timers.cancel(call);
        }
        drop(inner);
        for node in queued.iter() {
            flush(&self.cluster.links[node]);
        }
        if has_changed {
            self.changed.notify_waiters();
        }
        if has_changed && is_settled {
            self.cluster.settle(self.number);
        }
        // Send the requests first: the timers can wait.
        if is_unscheduled {
            self.schedule();
        }
    }

    /// Schedules the next timer call. If there are no timers, the client is closed, and the claim ends with it.
    fn schedule(self: &Arc<Self>) {
        let mut inner = self.inner();
        let Some(at) = inner.unscheduled() else { return };
        if let Some(call) = inner.call.take() {
            self.cluster.timers.cancel(call);
        }
        let this: Weak<Self> = Arc::downgrade(self);
        inner.call = self.cluster.timers.at(at, this);
        if inner.call.is_none() {
            drop(inner);
            Arc::clone(self).close();
        }
    }

    fn inner(&self) -> MutexGuard<'_, ClaimState> {
        self.inner.lock()
    }
}

impl Voter for Claim {
    fn vote(self: Arc<Self>, node: usize, attempt: LeaseId, round: u32, outcome: Outcome, now: Moment) {
        let mut inner = self.inner();
        // A reply to an earlier attempt, whose releases are already on their way.
        if inner.attempt != attempt {
            return;
        }
        match &outcome {
            Outcome::Voted { vote: Vote::Refusal(_), .. } if round == 0 => self.listen(&mut inner),
            Outcome::Voted { vote: Vote::Grant { .. }, .. } if round == 0 => inner.granted.insert(node),
            _ => {}
        }
        let steps = inner.take(round, node, outcome, now);
        self.perform(&mut inner, steps);
        self.end_repair_if_complete(inner);
    }
}

impl Timed for Claim {
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment> {
        let mut inner = self.inner();
        inner.call = None;
        let moment = inner.moment(now, clock::wall);
        let rng = &mut SystemRng::default();
        let steps = match &mut inner.stage {
            Stage::Acquiring { machine, .. } => machine.tick(now, self.cluster.node_micros(now), rng),
            Stage::Held(hold) => hold.tick(moment, rng),
            Stage::Detached { .. } => inner.repair(now, moment),
            Stage::Over(_) => Vec::new(),
        };
        self.perform(&mut inner, steps);
        self.end_repair_if_complete(inner);
        None
    }
}

impl ClaimEvents for Claim {
    fn key(&self) -> &str {
        &self.key.text
    }

    fn hint(self: Arc<Self>, node: usize, handoff: Option<Handoff>) {
        let now = clock::now();
        let node_micros = self.cluster.node_micros(now);
        let mut inner = self.inner();
        let Stage::Acquiring { machine, .. } = &mut inner.stage else { return };
        let steps = match handoff {
            Some(handoff) => machine.take_handoff(node, handoff, now, node_micros, &mut SystemRng::default()),
            None => machine.hint(node, now, node_micros),
        };
        self.perform(&mut inner, steps);
        self.finish(inner, Link::flush);
    }

    fn doubt(self: Arc<Self>) {
        let mut inner = self.inner();
        let now = inner.moment(clock::now(), clock::wall);
        let Stage::Held(hold) = &mut inner.stage else { return };
        let steps = hold.doubt(now);
        self.perform(&mut inner, steps);
        self.finish(inner, Link::flush);
    }

    fn close(self: Arc<Self>) {
        let mut inner = self.inner();
        if let Stage::Detached { .. } = inner.stage {
            inner.stop_repair();
            self.forget(inner.attempt);
            self.finish(inner, Link::flush);
        } else {
            drop(inner);
            self.end(Some(LostError::Closed), None);
        }
    }
}
