//! Feeds the core's acquire machine with votes, hints and time, and wakes the caller once it has decided.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use quorlock_core::acquire::Acquire;
use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::step::{Defeat, Step, Wait, Won};
use quorlock_core::terms::Terms;
use quorlock_core::ticket::{Handoff, Parting, Ticket};
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::vote::{Outcome, Request, Vote};

use crate::cluster::Cluster;
use crate::link::{Ask, GiveBack, Hinted, Link, Mark, Voter};
use crate::node::key::LockKey;
use crate::platform::clock;
use crate::platform::entropy::SystemRng;
use crate::platform::sync::{AtomicBool, Mutex};
use crate::platform::timers::{Call, Timed};

/// How an [`acquire`](crate::Lock::acquire) goes, for those who [observe](crate::Lock::observe) it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Somebody else has the lock: who, and how the queue looks. Told again whenever that changes.
    Waiting(Wait),
    /// It is ours now.
    Granted {
        /// The fence; `None` for a plain lock.
        fence: Option<Fence>,
    },
}

/// Who is told of progress.
pub(crate) type Observer = Arc<dyn Fn(&Progress) + Send + Sync>;

/// Someone who wants a lock. It lives outside the caller's future, so that dropping that future is always clean.
pub(crate) struct Attempt {
    cluster: Arc<Cluster>,
    key: Arc<LockKey>,
    ttl: Ttl,
    plain: bool,
    /// Who wants to know how the waiting goes.
    observer: Option<Observer>,
    /// Held while the observer is told: one thing after the other.
    telling: Mutex<()>,
    /// Whether it may still have something to give back; the links wait for that.
    open: AtomicBool,
    inner: Mutex<Inner>,
}

struct Inner {
    machine: Acquire,
    /// The current attempt on its way through the links.
    mark: Arc<Mark>,
    outcome: Option<Decision>,
    waker: Option<Waker>,
    heir: Heir,
    /// The ticket under which hints find us.
    ticket: Option<Ticket>,
    /// What the observer has not been told yet.
    news: VecDeque<Progress>,
    /// Nodes for which something has been queued, one bit each.
    queued: u32,
    /// When the machine wants to be called next: the timers hear of it once everything has been sent.
    wake: Option<Moment>,
    /// The earliest of them.
    promised: Option<Moment>,
    /// The last call that was asked of them.
    call: Option<Call>,
}

/// Who is told of the answers that come after the win: they are votes for the lease, too.
enum Heir {
    /// Nobody yet; they are kept.
    Unborn(Vec<(usize, Outcome)>),
    Hold(Weak<dyn Voter>),
}

/// How it ended.
pub(crate) enum Decision {
    Won(Won, Arc<Mark>, Legacy),
    Lost(Defeat),
    Closed,
}

impl Attempt {
    /// Starts asking; the future gives the decision. Dropped before that, everything is taken back.
    pub(crate) fn start(
        cluster: &Arc<Cluster>,
        key: &Arc<LockKey>,
        terms: Terms,
        observer: Option<Observer>,
    ) -> Deciding {
        let (ttl, plain, now) = (terms.ttl, terms.plain, clock::now());
        let mut machine = Acquire::new(terms, &mut SystemRng::default());
        let first = machine.attempt();
        let steps = machine.tick(now, cluster.node_micros(now), &mut SystemRng::default());
        let inner = Inner {
            machine,
            mark: Arc::new(Mark::new(first)),
            outcome: None,
            waker: None,
            heir: Heir::Unborn(Vec::new()),
            ticket: None,
            news: VecDeque::new(),
            queued: 0,
            wake: None,
            promised: None,
            call: None,
        };
        let attempt = Arc::new(Self {
            cluster: Arc::clone(cluster),
            key: Arc::clone(key),
            ttl,
            plain,
            observer,
            telling: Mutex::new(()),
            open: AtomicBool::new(true),
            inner: Mutex::new(inner),
        });
        cluster.pending.open();
        let mut inner = attempt.inner();
        if cluster.is_closed() {
            attempt.close(&mut inner);
        } else {
            attempt.perform(&mut inner, steps);
        }
        attempt.let_out(inner, Link::flush);
        Deciding { attempt }
    }

    fn perform(self: &Arc<Self>, inner: &mut Inner, steps: Vec<Step>) {
        let mut steps = VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Ask { nodes, request, .. } => {
                    for more in self.ask(inner, nodes, request) {
                        steps.push_back(more);
                    }
                }
                Step::Release { attempt, nodes, parting } => {
                    // One that was resting has asked nobody yet.
                    if attempt != inner.mark.attempt {
                        inner.mark = Arc::new(inner.mark.next(attempt));
                    }
                    inner.mark.finish();
                    if let Some(Parting::Yield(_)) = parting {
                        self.listen(inner);
                    }
                    let back = GiveBack::new(&inner.mark, &self.key, self.ttl, self.plain, clock::now());
                    for node in nodes.iter() {
                        self.cluster.links[node].release(&back, parting, None);
                        inner.queued |= 1 << node;
                    }
                }
                Step::Waits(wait) => self.report(inner, Progress::Waiting(wait)),
                Step::Won(won) => {
                    self.report(inner, Progress::Granted { fence: won.fence });
                    let legacy = Legacy(Arc::clone(self));
                    inner.decide(Decision::Won(won, Arc::clone(&inner.mark), legacy));
                }
                Step::Defeated(defeat) => {
                    inner.decide(Decision::Lost(defeat));
                    self.settle();
                }
                Step::Renewed { .. } | Step::Failed { .. } | Step::Lost(_) => {}
            }
        }
        inner.wake = inner.machine.next_tick().filter(|at| inner.promised.is_none_or(|promised| *at < promised));
        inner.promised = inner.wake.or(inner.promised);
    }

    /// Something that the observer is told as soon as the mutex is free.
    fn report(&self, inner: &mut Inner, news: Progress) {
        if self.observer.is_some() {
            inner.news.push_back(news);
        }
    }

    /// Asks these nodes. Those that cannot be asked are silent at once.
    fn ask(self: &Arc<Self>, inner: &mut Inner, nodes: NodeSet, request: Request) -> Vec<Step> {
        let attempt = request.attempt();
        if inner.mark.attempt != attempt {
            inner.mark = Arc::new(inner.mark.next(attempt));
        }
        let request = Arc::new(request);
        let middle = if self.plain { None } else { self.cluster.middle() };
        let mut steps = Vec::new();
        for node in nodes.iter() {
            let ask = Ask {
                mark: Arc::clone(&inner.mark),
                key: Arc::clone(&self.key),
                request: Arc::clone(&request),
                voter: Arc::clone(self) as Arc<dyn Voter>,
                round: 0,
                is_resent: false,
            };
            let skew = self.cluster.skew(node, middle);
            let asked = skew.map_or_else(|| self.cluster.links[node].ask(ask), Err);
            inner.queued |= 1 << node;
            if let Err(silence) = asked {
                let outcome = Outcome::Silent(silence);
                steps.extend(inner.machine.take(attempt, node, outcome, clock::now(), &mut SystemRng::default()));
            }
        }
        steps
    }

    /// Sends what has been queued and tells what is new, outside of the mutex: votes may come in meanwhile.
    fn let_out(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, flush: fn(&Link)) {
        let (queued, wake) = (std::mem::take(&mut inner.queued), inner.wake.take());
        if inner.machine.is_finished()
            && let Some(call) = inner.call.take()
        {
            self.cluster.timers.cancel(call);
        }
        drop(inner);
        for link in self.cluster.links.iter().filter(|link| queued & 1 << link.node != 0) {
            flush(link);
        }
        if let Some(at) = wake {
            self.be_called(at);
        }
        self.tell();
    }

    /// Asks the timers for a call, unless all is decided by now.
    fn be_called(self: &Arc<Self>, at: Moment) {
        let mut inner = self.inner();
        if inner.machine.is_finished() {
            return;
        }
        let this: Weak<Self> = Arc::downgrade(self);
        inner.call = self.cluster.timers.at(at, this);
        if inner.call.is_none() {
            self.close(&mut inner);
            self.let_out(inner, Link::flush);
        }
    }

    /// Hears hints from now on: it is, or may soon be, in the queue. A node's hint comes behind the answer that led to it.
    fn listen(self: &Arc<Self>, inner: &mut Inner) {
        if inner.ticket.is_none()
            && let Some(ticket) = inner.machine.ticket()
        {
            inner.ticket = Some(ticket);
            let this = Arc::downgrade(self);
            self.cluster.waiters.add(ticket, this);
        }
    }

    /// Tells the observer what is new: outside of the mutex, and one thing after the other.
    fn tell(&self) {
        let Some(observer) = &self.observer else { return };
        // Whoever tells just now looks once more after that, and finds what has been added. The observer may be the one who
        // got us here, so nobody waits for it.
        while !self.inner().news.is_empty() {
            let Some(_telling) = self.telling.try_lock() else { return };
            self.tell_each(observer);
        }
    }

    /// Nothing is told after the caller knows.
    fn tell_the_rest(&self) {
        let Some(observer) = &self.observer else { return };
        let _telling = self.telling.lock();
        self.tell_each(observer);
    }

    fn tell_each(&self, observer: &Observer) {
        loop {
            let Some(news) = self.inner().news.pop_front() else { return };
            observer(&news);
        }
    }

    /// There is nothing left to give back, or somebody else sees to it.
    fn settle(&self) {
        if self.open.swap(false, Ordering::AcqRel) {
            self.cluster.settled();
        }
    }

    /// The client is closed: whatever was asked for, or won and not yet taken, is given back.
    fn close(self: &Arc<Self>, inner: &mut Inner) {
        // With its legacy it settles us: not before the releases are owed.
        let decision = inner.outcome.take();
        let steps = match &decision {
            Some(Decision::Won(won, ..)) => vec![self.give_back(won)],
            None if !inner.machine.is_finished() => inner.machine.cancel(),
            _ => {
                inner.outcome = decision;
                return;
            }
        };
        self.perform(inner, steps);
        inner.decide(Decision::Closed);
        self.settle();
    }

    fn give_back(&self, won: &Won) -> Step {
        let nodes = NodeSet::first(self.cluster.links.len());
        Step::Release { attempt: won.attempt, nodes, parting: won.waiter.map(Parting::Leave) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn decide(&mut self, decision: Decision) {
        self.outcome = Some(decision);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Voter for Attempt {
    fn vote(self: Arc<Self>, node: usize, attempt: LeaseId, _round: u32, outcome: Outcome, now: Moment) {
        let mut inner = self.inner();
        if inner.mark.attempt != attempt {
            // Of an earlier attempt, whose releases are on their way.
            return;
        }
        if inner.machine.is_finished() {
            let is_done = inner.mark.is_done();
            let heir = match &mut inner.heir {
                // Of a lost attempt nothing is kept: its releases are on their way.
                Heir::Unborn(_) if is_done => None,
                Heir::Unborn(kept) => return kept.push((node, outcome)),
                Heir::Hold(heir) => heir.upgrade(),
            };
            drop(inner);
            if let Some(heir) = heir {
                heir.vote(node, attempt, 0, outcome, now);
            }
            return;
        }
        if let Outcome::Voted { vote: Vote::Refusal(_), .. } = &outcome {
            self.listen(&mut inner);
        }
        let steps = inner.machine.take(attempt, node, outcome, now, &mut SystemRng::default());
        self.perform(&mut inner, steps);
        self.let_out(inner, Link::flush);
    }
}

impl Hinted for Attempt {
    fn hint(self: Arc<Self>, node: usize, handoff: Option<Handoff>) {
        let now = clock::now();
        let node_micros = self.cluster.node_micros(now);
        let mut inner = self.inner();
        if handoff.is_some() {
            inner.mark.set_handed(node);
        }
        let steps = match handoff {
            Some(handoff) => inner.machine.take_handoff(node, handoff, now, node_micros, &mut SystemRng::default()),
            None => inner.machine.hint(node, now, node_micros),
        };
        self.perform(&mut inner, steps);
        self.let_out(inner, Link::flush);
    }
}

impl Timed for Attempt {
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment> {
        let mut inner = self.inner();
        if self.cluster.is_closed() {
            self.close(&mut inner);
            self.let_out(inner, Link::flush);
            return None;
        }
        inner.promised = None;
        let node_micros = self.cluster.node_micros(now);
        let steps = inner.machine.tick(now, node_micros, &mut SystemRng::default());
        self.perform(&mut inner, steps);
        self.let_out(inner, Link::flush);
        None
    }
}

/// The winner's answers that are still to come.
pub(crate) struct Legacy(Arc<Attempt>);

impl Legacy {
    /// Hands them to the hold, those that came meanwhile at once.
    pub(crate) fn pass_to(&self, attempt: LeaseId, hold: &Arc<dyn Voter>) {
        let heir = Heir::Hold(Arc::downgrade(hold));
        let before = std::mem::replace(&mut self.0.inner().heir, heir);
        if let Heir::Unborn(kept) = before {
            for (node, outcome) in kept {
                Arc::clone(hold).vote(node, attempt, 0, outcome, clock::now());
            }
        }
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        self.0.settle();
    }
}

/// The future that a caller awaits.
pub(crate) struct Deciding {
    attempt: Arc<Attempt>,
}

impl Future for Deciding {
    type Output = Decision;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Decision> {
        let mut inner = self.attempt.inner();
        if let Some(decision) = inner.outcome.take() {
            drop(inner);
            self.attempt.tell_the_rest();
            return Poll::Ready(decision);
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Deciding {
    fn drop(&mut self) {
        let attempt = &self.attempt;
        let mut inner = attempt.inner();
        inner.waker = None;
        if let Some(ticket) = inner.ticket {
            attempt.cluster.waiters.remove(ticket);
        }
        // A lock that was won in the moment in which the caller turned away is given back like any other.
        let is_taken = inner.machine.is_finished() && attempt.open.load(Ordering::Acquire);
        let decision = inner.outcome.take();
        let steps = match &decision {
            Some(Decision::Won(won, ..)) => vec![attempt.give_back(won)],
            // The winner was taken, and settles when the lease is kept.
            _ if is_taken => return,
            _ => {
                inner.news.clear();
                inner.machine.cancel()
            }
        };
        attempt.perform(&mut inner, steps);
        attempt.let_out(inner, Link::flush_now);
        attempt.settle();
    }
}
