//! The connection to one node: ordered batches out, votes in, a handshake before anything, releases owed until delivered.

mod claims;
mod connection;
mod handshake;
mod heartbeat;
mod history;
mod latency;
pub(crate) mod membership;
mod outages;
pub(crate) mod quarantine_records;
mod state;
mod traffic;

pub(crate) use claims::{ClaimEvents, Claims};
pub use latency::RoundTrips;
pub(crate) use outages::Outages;
pub(crate) use state::Sender;
pub(crate) use traffic::Traffic;

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use quorlock_core::delivery::{Ask, OWED_MAX, Release};
use quorlock_core::name::LeaseId;
use quorlock_core::node::Trust;
use quorlock_core::rng::Rng;
use quorlock_core::rules::Rules;
use quorlock_core::ticket::Channel;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Request, Silence};
use tokio::sync::{Notify, mpsc};

use crate::link::membership::Membership;
use crate::link::quarantine_records::Records;
use crate::node::{Answer, Inbox, Node, Trouble};
use crate::platform::clock;
use crate::platform::entropy::SystemRng;
use crate::platform::runtime;
use crate::platform::sync::{AtomicBool, AtomicI64, AtomicU64, Mutex};
use latency::Latency;
use state::{Inner, LinkState};

/// Who waits for a node's answer.
pub(crate) trait Voter: Send + Sync {
    /// What came of a request to this node, and when that was heard.
    fn vote(self: Arc<Self>, node: usize, attempt: LeaseId, round: u32, outcome: Outcome, now: Moment);
}

/// How a link behaves.
#[derive(Clone, Debug)]
pub(crate) struct LinkConfig {
    /// How long a handshake may take, each of its steps.
    pub(crate) handshake_deadline: Duration,
    /// A connection that owes an answer for longer than this is replaced.
    pub(crate) silence_limit: Duration,
    /// How often releases that failed are tried again, and a node that may not join yet is asked again.
    pub(crate) heartbeat: Duration,
    /// How often every connection looks at its node, at least and at most.
    pub(crate) look: (Duration, Duration),
    pub(crate) rules: Rules,
    /// What a node may do that has lost its memory.
    pub(crate) trust: Trust,
    /// The claims of the client. A link that is closed waits until they are settled.
    pub(crate) claims: Arc<Claims>,
    /// On which hints for this client are heard.
    pub(crate) channel: Channel,
    /// How much has gone over the links.
    pub(crate) traffic: Arc<Traffic>,
    /// What the log says about nodes that cannot vote.
    pub(crate) outages: Arc<Outages>,
    /// What this host knows of quarantines.
    pub(crate) records: Records,
}

/// One node's link.
pub(crate) struct Link {
    pub(crate) node: usize,
    pub(crate) title: String,
    config: LinkConfig,
    inner: Mutex<Inner>,
    wake: Notify,
    /// Fires when something changed that others may wait for: contact, state, releases delivered.
    pub(crate) news: Notify,
    /// The node's clock minus ours, in microseconds.
    clock_offset: AtomicI64,
    /// Set when the connection shall be replaced, whatever its state; until then it is of no use.
    stale: AtomicBool,
    /// How the node does.
    pub(crate) latency: Latency,
    /// How often this connection's node said that its memory may have been replaced, and how many of these a later look
    /// has answered. Until they are equal, no vote counts.
    doubts: AtomicU64,
    settled_doubts: AtomicU64,
    /// How many connections there have been.
    connections: AtomicU64,
}

/// Why a connection that is about to be replaced cannot be used.
const REPLACED: &str = "it is being replaced";
const OFFSET_UNKNOWN: i64 = i64::MIN;
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

impl Link {
    pub(crate) fn new(node: usize, title: &str, config: LinkConfig) -> Self {
        Self {
            node,
            title: title.into(),
            inner: Mutex::new(Inner::new(config.rules, clock::now())),
            config,
            wake: Notify::new(),
            news: Notify::new(),
            clock_offset: AtomicI64::new(OFFSET_UNKNOWN),
            stale: AtomicBool::new(false),
            latency: Latency::new(),
            doubts: AtomicU64::new(0),
            settled_doubts: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        }
    }

    /// Queues a request for the next [`flush`](Self::flush). Fails at once if the node cannot be asked.
    pub(crate) fn ask(&self, request: &Arc<Request>, round: u32, context: Sender) -> Result<(), Silence> {
        let mut inner = self.inner();
        if let Some(why) = inner.state.trouble() {
            return Err(why);
        }
        if inner.closing {
            return Err(Silence::Unreachable("the client was closed".into()));
        }
        if inner.delivery.owed() >= OWED_MAX {
            return Err(Silence::Owing);
        }
        inner.delivery.ask(Ask { request: Arc::clone(request), round, context });
        Ok(())
    }

    /// Releases an attempt: with the next [`flush`](Self::flush), or as soon as the node can be reached. `false` if the
    /// attempt is another process's, and the link owes too many releases already.
    pub(crate) fn release(&self, release: Release<Sender>, now: Moment) -> bool {
        let mut inner = self.inner();
        let has_room = !release.is_foreign || inner.delivery.owed() < OWED_MAX;
        if has_room {
            inner.delivery.release(release, now);
        }
        has_room
    }

    /// Forgets an attempt that will never be released from here.
    pub(crate) fn forget(&self, attempt: LeaseId) {
        self.inner().delivery.forget(attempt);
    }

    /// Why the node cannot be asked; `None` when it can.
    pub(crate) fn trouble(&self) -> Option<Silence> {
        let stale = || self.is_stale().then(|| Silence::Broken(REPLACED.into()));
        self.inner().state.trouble().or_else(stale)
    }

    /// Whether the first contact has had no result yet.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.inner().state, LinkState::Connecting | LinkState::Down(Silence::Waiting(_)))
    }

    /// Why an operator has to change something before the node can be used.
    pub(crate) fn refusal(&self) -> Option<Trouble> {
        if let LinkState::Refused(trouble) = &self.inner().state { Some(trouble.clone()) } else { None }
    }

    /// How long the node has not been able to vote; `None` while it is.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.inner().down_since.map(|since| clock::now().since(since))
    }

    /// Delivers what is owed, then ends.
    pub(crate) fn close(&self) {
        self.inner().closing = true;
        self.wake.notify_one();
    }

    /// Shakes hands anew: the node has been told something that this connection does not know.
    pub(crate) fn reconnect(&self) {
        self.stale.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Something changed that a link which is closing may wait for.
    pub(crate) fn nudge(&self) {
        self.wake.notify_one();
        self.news.notify_waiters();
    }

    /// The number of the latest connection.
    fn connection(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// How many releases are undelivered; none when the link has ended with nothing owed.
    pub(crate) fn owed(&self) -> usize {
        self.inner().delivery.owed()
    }

    /// The number of attempts with a request that may still arrive from an earlier connection.
    #[cfg(test)]
    pub(crate) fn strays(&self) -> usize {
        self.inner().delivery.strays()
    }

    /// Whether the link's task has ended.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.inner().state, LinkState::Ended)
    }

    /// The node's clock minus ours, in microseconds, where known.
    pub(crate) fn clock_offset(&self) -> Option<i64> {
        Some(self.clock_offset.load(Ordering::Relaxed)).filter(|offset| *offset != OFFSET_UNKNOWN)
    }

    /// The link's task: connections, one after the other, until closed.
    pub(crate) async fn run(self: Arc<Self>, node: Arc<dyn Node>, membership: Arc<Membership>) {
        let _end = Ending(&self);
        let mut backoff = BACKOFF_MIN;
        while !self.is_idle_and_closing() {
            let began = runtime::now();
            let (trouble, served) = self.connect_and_serve(&*node, &membership).await;
            // A connection that broke at once has proved nothing.
            if served && runtime::since(began) > BACKOFF_MAX {
                backoff = BACKOFF_MIN;
            }
            self.go_down(match &trouble {
                Trouble::Unfit(_) | Trouble::Denied(_) => LinkState::Refused(trouble.clone()),
                Trouble::Unreachable(_) | Trouble::Broken(_) => LinkState::Down(trouble.as_silence()),
            });
            // A connection that is lost and replaced at once is no outage.
            if !served {
                self.note_outage(trouble.as_silence());
            }
            let pause = SystemRng::default().between(backoff / 2, backoff);
            backoff = match trouble {
                Trouble::Unfit(_) | Trouble::Denied(_) => BACKOFF_MAX,
                Trouble::Unreachable(_) | Trouble::Broken(_) => (backoff * 2).min(BACKOFF_MAX),
            };
            self.pause(pause).await;
        }
    }

    async fn connect_and_serve(self: &Arc<Self>, node: &dyn Node, membership: &Membership) -> (Trouble, bool) {
        self.stale.store(false, Ordering::Release);
        let (inbox, mut answers) = self.inbox();
        let opened = runtime::timeout(self.config.handshake_deadline, node.open(inbox)).await;
        let session = match opened {
            Ok(Ok(session)) => session,
            Ok(Err(trouble)) => return (trouble, false),
            Err(_) => {
                let why = format!("no answer within {:?}", self.config.handshake_deadline);
                return (Trouble::Unreachable(why), false);
            }
        };
        self.serve(session, &mut answers, membership).await
    }

    /// Where a connection's answers go: to those who wait for them, and its end to the link's task.
    fn inbox(self: &Arc<Self>) -> (Inbox, mpsc::UnboundedReceiver<Answer>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let link = Arc::downgrade(self);
        let connection = self.connections.fetch_add(1, Ordering::AcqRel) + 1;
        let inbox = Inbox::new(self.config.channel, move |answer| {
            let Some(link) = link.upgrade() else { return };
            // A thread outside of the runtime leaves all of it to the link's task, so that callers run on their runtime.
            let rest = if runtime::is_here() {
                match link.take(connection, answer) {
                    Ok(()) => return,
                    Err(trouble) => Answer::End(trouble),
                }
            } else {
                answer
            };
            // The link's task may have ended meanwhile.
            let _ = sender.send(rest);
        });
        (inbox, receiver)
    }

    /// Waits before the next connection, unless closing has nothing left to wait for.
    async fn pause(&self, pause: Duration) {
        let until = runtime::now() + pause;
        while !self.is_stale() {
            tokio::select! {
                biased;
                () = runtime::sleep_until(until) => return,
                () = self.wake.notified() => if self.is_idle_and_closing() { return },
            }
        }
    }

    fn is_idle_and_closing(&self) -> bool {
        let mut inner = self.inner();
        if inner.closing {
            inner.delivery.forget_lapsed(clock::now(), true);
        }
        inner.is_drained() && self.config.claims.is_settled()
    }

    /// Ends the connection, and fails its requests and those in the queue. Releases stay owed.
    fn go_down(&self, state: LinkState) {
        let why = state.trouble().unwrap_or(Silence::Unheard);
        tracing::debug!(node = %self.title, reason = %why, "no connection");
        // The connection is not dropped under the mutex.
        let (_connection, told) = {
            let mut inner = self.inner();
            inner.set_state(state, clock::now());
            (inner.connection.take(), inner.delivery.lost())
        };
        for (attempt, round, sender) in told {
            if let Some(voter) = sender.voter {
                voter.vote(self.node, attempt, round, Outcome::Silent(why.clone()), clock::now());
            }
        }
        self.news.notify_waiters();
    }

    fn set_state(&self, state: LinkState) {
        let is_up = matches!(state, LinkState::Up(_));
        self.inner().set_state(state, clock::now());
        self.news.notify_waiters();
        if is_up {
            self.config.outages.end(self.node);
            self.config.claims.hint_all(self.node);
        }
    }

    /// Logs that the node cannot vote, once, unless the client wants nothing of it any more.
    fn note_outage(&self, why: Silence) {
        if !self.inner().closing {
            self.config.outages.begin(self.node, &self.title, why);
        }
    }

    fn note_clock(&self, at_micros: u64, now: Moment) {
        let ours = (now.as_nanos() / 1_000) as i64;
        let offset = i64::try_from(at_micros).unwrap_or(i64::MAX).saturating_sub(ours);
        self.clock_offset.store(offset, Ordering::Relaxed);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// Dropped with the link's task: when it is done, or with its runtime.
struct Ending<'a>(&'a Link);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.go_down(LinkState::Ended);
    }
}
