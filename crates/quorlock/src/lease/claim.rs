//! The object behind a lease, from the first request to the release. It drives the core's state machines: first
//! [`Acquire`], then [`Hold`]. There is no task per claim.
//!
//! One mutex guards a claim. While the mutex is locked, the claim only queues requests and releases at the links. After
//! the mutex is unlocked, the claim sends the requests, wakes callers and calls observers, which may run other code.

mod held;
mod repair;
mod steps;

use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use quorlock_core::acquire::Acquire;
use quorlock_core::fence::Fence;
use quorlock_core::hold::{Defeat, Hold, Step, Wait};
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::quorum::Elector;
use quorlock_core::request::{Parting, Waiter};
use quorlock_core::rules::Rule;
use quorlock_core::terms::Terms;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Handoff, NodeVote, Outcome, Silence, Tally, Verdict, Vote};
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::cluster::broadcast::Broadcast;
use crate::cluster::owner::OwnerEntry;
use crate::error::LostError;
use crate::link::{ClaimEvents, Link, Voter};
use crate::node::LockKey;
use crate::node::event::What;
use crate::platform::clock;
use crate::platform::entropy::SystemRng;
use crate::platform::sync::Mutex;
use crate::platform::timers::{Call, Timed};

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

/// The state of a claim, which its mutex guards.
#[derive(Default)]
struct ClaimState {
    stage: Stage,
    attempt: LeaseId,
    /// The nodes that this attempt or an earlier attempt of the claim has asked.
    asked: NodeSet,
    /// Whether this attempt has sent a request.
    has_asked: bool,
    /// Whether the claim listens for hints, because nodes may have it in their queues: a node refused the claim, or the
    /// claim has asked again.
    listens: bool,
    /// The position in the queue, after the win.
    waiter: Option<Waiter>,
    /// The nodes that granted the acquire, after the win. A granted renewal does not end a queue position.
    granted: NodeSet,
    /// The end of the validity of the lease by the wall clock.
    wall_until: i64,
    /// Why the lease is over; `None` if it is held, or was released.
    end: Option<LostError>,
    /// The last renewal that was decided: its number, and the tally if it failed.
    verdict: Option<(u32, Option<Box<Tally>>)>,
    /// The fence that the entries of one owner of a reentrant lock share.
    owner_fence: Option<OwnerEntry>,
    /// The next timer call.
    call: Option<Call>,
    /// The nodes at whose links requests are queued.
    queued: NodeSet,
    /// Whether something changed that a caller may wait for.
    has_changed: bool,
}

enum Stage {
    /// The lock is being acquired.
    Acquiring {
        machine: Box<Acquire>,
        /// The latest state of the queue that the observer has not seen.
        news: Option<Wait>,
    },
    /// The lock was won. The hold knows whether it is still held.
    Held(Hold),
    /// The lease is detached: other processes renew and release it. The claim still requests it from nodes that do not
    /// have it, which is called the repair.
    Detached {
        hold: Hold,
        /// The time of the next requests, and the pause after them. `None` once the repair is over.
        next: Option<Moment>,
        pause: Duration,
    },
    /// The lock was not won. The caller takes the defeat, which is `None` if the client was closed.
    Over(Option<Box<Defeat>>),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Over(None)
    }
}

impl Claim {
    /// Starts to acquire the lock. [`won`](Self::won) waits for the result; [`let_go`](Self::let_go) ends the claim at
    /// any time.
    pub(crate) fn start(cluster: &Arc<Cluster>, key: &Arc<LockKey>, terms: Terms) -> Arc<Self> {
        let (now, mut rng) = (clock::now(), SystemRng::default());
        let mut machine = Box::new(Acquire::new(terms, &mut rng));
        let attempt = machine.attempt();
        let steps = machine.tick(now, cluster.node_micros(now), &mut rng);
        let inner = ClaimState { stage: Stage::Acquiring { machine, news: None }, attempt, ..ClaimState::default() };
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
        let mut earlier_loss = None;
        if let Stage::Held(hold) = &mut inner.stage {
            // The lease may have expired before the timer noticed.
            earlier_loss = hold.validity(now).is_zero().then_some(LostError::Expired);
            hold.release();
        }
        inner.end = earlier_loss.or(reason);
        if earlier_loss.is_some() {
            self.cluster.counters.lost();
        }
        self.note(&inner, if earlier_loss.is_some() { What::Lost } else { What::Released }, inner.end);
        self.give_back_all(&mut inner, receipt);
        // A caller that waits for the replies keeps the runtime alive. A caller that dropped the lease may be about to
        // exit.
        self.finish(inner, if receipt.is_some() { Link::flush } else { Link::flush_now });
        earlier_loss
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

impl ClaimState {
    fn hold(&self) -> Option<&Hold> {
        match &self.stage {
            Stage::Held(hold) | Stage::Detached { hold, .. } => Some(hold),
            Stage::Acquiring { .. } | Stage::Over(_) => None,
        }
    }

    /// Returns the time by which to judge the hold: `now`, or the end of the hold if it is over by the wall clock. The
    /// clock of `now` stops while the machine is paused, and the nodes' ttls do not. A wall clock that was set forward
    /// looks the same.
    fn moment(&self, now: Moment, wall: impl FnOnce() -> i64) -> Moment {
        let Some((_, until)) = self.hold().and_then(Hold::span) else { return now };
        let notices_pauses = self.hold().is_some_and(|hold| hold.terms().rules.hold(Rule::NoticePauses));
        if notices_pauses && wall() > self.wall_until { now.max(until) } else { now }
    }

    /// Updates the end by the wall clock after the hold may have been renewed.
    fn follow_hold(&mut self) {
        if let Some((start, until)) = self.hold().and_then(Hold::span) {
            let nanos = i64::try_from(until.since(start).as_nanos()).unwrap_or(i64::MAX);
            self.wall_until = clock::wall_at(start).saturating_add(nanos);
        }
    }

    /// Takes a node's reply to the current attempt.
    fn take(&mut self, round: u32, node: usize, outcome: Outcome, now: Moment) -> Vec<Step> {
        let now = self.moment(now, clock::wall);
        let rng = &mut SystemRng::default();
        let steps = match &mut self.stage {
            Stage::Acquiring { machine, .. } => return machine.take(self.attempt, node, outcome, now, rng),
            Stage::Held(hold) => hold.take(round, node, outcome, now, rng),
            Stage::Detached { hold, .. } => {
                // Only the set of nodes that have granted the lease matters here. The processes that have the text of
                // the lease detect a loss.
                hold.take(round, node, outcome, now, rng);
                Vec::new()
            }
            Stage::Over(_) => Vec::new(),
        };
        self.follow_hold();
        steps
    }

    fn next_tick(&self) -> Option<Moment> {
        match &self.stage {
            Stage::Acquiring { machine, .. } => machine.next_tick(),
            Stage::Held(hold) => hold.next_tick(),
            Stage::Detached { next, .. } => *next,
            Stage::Over(_) => None,
        }
    }

    /// Returns the time for which no timer call is scheduled yet.
    fn unscheduled(&self) -> Option<Moment> {
        self.next_tick().filter(|next| self.call.is_none_or(|(at, _)| *next < at))
    }

    /// Returns whether the claim has queued its last release.
    fn is_settled(&self) -> bool {
        match &self.stage {
            Stage::Acquiring { .. } => false,
            Stage::Held(hold) => !hold.is_held(),
            Stage::Detached { .. } | Stage::Over(_) => true,
        }
    }

    /// Returns what to do about the position in each node's queue when the lease is over. A node that granted the lease
    /// has no position for it, unless it was asked more than once.
    fn parting(&self) -> impl Fn(usize) -> Option<Parting> + use<> {
        let (waiter, listens, granted) = (self.waiter, self.listens, self.granted);
        move |node| waiter.filter(|_| listens || !granted.contains(node)).map(Parting::Leave)
    }

    fn set_attempt(&mut self, attempt: LeaseId) {
        if self.attempt != attempt {
            (self.attempt, self.has_asked) = (attempt, false);
        }
    }
}

impl Voter for Claim {
    fn vote(self: Arc<Self>, node: usize, attempt: LeaseId, round: u32, outcome: Outcome, now: Moment) {
        let mut inner = self.inner();
        // Ignore the reply to an earlier attempt, whose releases are already queued.
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
            Some(handoff) => {
                machine.take_handoff(node, Elector::at(node), handoff, now, node_micros, &mut SystemRng::default())
            }
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
