//! The link to one node: it connects and reconnects, sends batches of requests in order, passes each reply to the
//! sender of its request, and retries releases until they are delivered.

mod claims;
mod connection;
mod counters;
mod handshake;
mod heartbeat;
mod history;
mod latency;
pub(crate) mod membership;
mod outages;
pub(crate) mod quarantine_records;

pub(crate) use claims::{ClaimEvents, Claims};
pub(crate) use counters::Counters;
pub use counters::Stats;
pub use latency::RoundTrips;
pub(crate) use outages::Outages;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_core::delivery::{Completion, Delivery, OWED_MAX, Release};
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::node::Trust;
use quorlock_core::request::Request;
use quorlock_core::rng::Rng;
use quorlock_core::rules::Rules;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Silence};
use tokio::sync::{Notify, mpsc};

use crate::link::membership::Membership;
use crate::link::quarantine_records::Records;
use crate::node::{Answer, Inbox, Life, LockKey, Node, Trouble};
use crate::platform::clock;
use crate::platform::entropy::SystemRng;
use crate::platform::runtime;
use crate::platform::sync::{AtomicBool, AtomicI64, AtomicU64, Mutex};
use connection::Connection;
use history::Notes;
use latency::Latency;

/// Receives the replies of nodes.
pub(crate) trait Voter: Send + Sync {
    /// Called with the outcome of a request to this node, and the time at which it was known.
    fn vote(self: Arc<Self>, node: usize, attempt: LeaseId, round: u32, outcome: Outcome, now: Moment);
}

/// The sender of a request, which the link keeps until the reply arrives.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) key: Arc<LockKey>,
    pub(crate) voter: Option<Arc<dyn Voter>>,
}

/// The settings of a link.
#[derive(Clone)]
pub(crate) struct LinkConfig {
    /// The deadline for each step of a handshake.
    pub(crate) handshake_deadline: Duration,
    /// The link replaces a connection that has not replied for longer than this.
    pub(crate) silence_limit: Duration,
    /// The interval for retrying failed releases, and for checking again whether a node may join the cluster.
    pub(crate) heartbeat: Duration,
    /// The shortest and longest interval at which every connection checks its node.
    pub(crate) check_interval: (Duration, Duration),
    pub(crate) rules: Rules,
    /// Whether a node that lost its memory may vote at once.
    pub(crate) trust: Trust,
    /// The claims of the client. A closing link waits until all of them have queued their last release.
    pub(crate) claims: Arc<Claims>,
    /// The channel for hints to this client.
    pub(crate) channel: Channel,
    pub(crate) counters: Arc<Counters>,
    /// Logs outages of nodes.
    pub(crate) outages: Arc<Outages>,
    /// This host's records of quarantines.
    pub(crate) records: Records,
}

/// The link to one node.
pub(crate) struct Link {
    /// The index of the node in the client's list of nodes.
    pub(crate) node: usize,
    /// The URL of the node, without secrets.
    pub(crate) title: String,
    config: LinkConfig,
    inner: Mutex<Inner>,
    /// Wakes the link's task.
    wake: Notify,
    /// Notified when the state of the link changes, or a release is delivered.
    pub(crate) news: Notify,
    /// The node's clock minus this process's clock, in microseconds.
    clock_offset: AtomicI64,
    /// Whether the connection must be replaced, and must not be used until then.
    stale: AtomicBool,
    /// The node's latency and memory losses.
    pub(crate) latency: Latency,
    /// How often the node has sent [`Answer::MemoryChanged`]: its memory may have been replaced.
    doubts: AtomicU64,
    /// The value of `doubts` when the last successful check of the node was sent. While it is less than `doubts`, the
    /// link holds votes back.
    settled_doubts: AtomicU64,
    /// The number of connections so far.
    connections: AtomicU64,
}

/// The state of a link, which its mutex guards.
struct Inner {
    state: LinkState,
    /// The time since which the node cannot be used.
    down_since: Option<Moment>,
    closing: bool,
    delivery: Delivery<Sender>,
    connection: Option<Connection>,
    notes: Notes,
}

/// Whether the node can be asked.
enum LinkState {
    /// The first attempt to connect has not ended yet.
    Connecting,
    /// The handshake is done, and the node may vote.
    Up(Life),
    /// The node cannot be asked now. The link keeps trying.
    Down(Silence),
    /// An operator has to change something before the node can be used.
    Refused(Trouble),
    /// The link's task has ended.
    Ended,
}

impl LinkState {
    /// Returns why the node cannot be asked, or `None` if it can.
    fn trouble(&self) -> Option<Silence> {
        match self {
            Self::Up(_) => None,
            Self::Down(why) => Some(why.clone()),
            Self::Refused(trouble) => Some(trouble.as_silence()),
            Self::Connecting => Some(Silence::Unreachable("not connected yet".into())),
            Self::Ended => Some(Silence::Unreachable("the client was closed".into())),
        }
    }
}

impl Inner {
    /// Sets the state. If only the reason for an outage changes, the outage still counts from its beginning.
    fn set_state(&mut self, state: LinkState, now: Moment) {
        self.down_since = if let LinkState::Up(_) = state { None } else { self.down_since.or(Some(now)) };
        self.state = state;
    }

    /// Takes the replies to the oldest batch. The caller must keep the mutex locked from the time at which it found the
    /// question of these replies: if the connection were replaced in between, the oldest batch would be another one.
    fn replied(&mut self, answer: &Answer) -> Notices {
        let Answer::Votes(replies) = answer else { return Notices::default() };
        let owed = self.delivery.owed();
        let senders = self.delivery.replied(replies);
        (senders, self.delivery.owed() < owed)
    }

    /// Returns whether neither requests for votes nor events for the node's history are under way.
    fn is_quiet(&self) -> bool {
        self.connection.as_ref().is_none_or(Connection::is_quiet)
    }

    /// Returns whether a closing link has delivered everything.
    fn is_drained(&self) -> bool {
        self.closing && self.delivery.owed() == 0
    }
}

/// The sender to notify for each request of a batch, if any, and whether a release was acknowledged.
type Notices = (Vec<Option<Completion<Sender>>>, bool);

/// The reason why a connection that is about to be replaced cannot be used.
const REPLACED: &str = "it is being replaced";
const OFFSET_UNKNOWN: i64 = i64::MIN;
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

impl Link {
    pub(crate) fn new(node: usize, title: &str, config: LinkConfig) -> Self {
        let inner = Inner {
            state: LinkState::Connecting,
            down_since: Some(clock::now()),
            closing: false,
            delivery: Delivery::new(config.rules),
            connection: None,
            notes: Notes::default(),
        };
        Self {
            node,
            title: title.into(),
            inner: Mutex::new(inner),
            config,
            wake: Notify::new(),
            news: Notify::new(),
            clock_offset: AtomicI64::new(OFFSET_UNKNOWN),
            stale: AtomicBool::new(false),
            latency: Latency::default(),
            doubts: AtomicU64::new(0),
            settled_doubts: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        }
    }

    /// Queues a request for the next [`flush`](Self::flush). Fails at once if the node cannot be asked.
    pub(crate) fn ask(&self, request: &Arc<Request>, round: u32, context: Sender) -> Result<(), Silence> {
        let mut inner = self.inner.lock();
        if let Some(why) = inner.state.trouble() {
            return Err(why);
        }
        if inner.closing {
            return Err(Silence::Unreachable("the client was closed".into()));
        }
        if inner.delivery.owed() >= OWED_MAX {
            return Err(Silence::Owing);
        }
        inner.delivery.ask(Arc::clone(request), round, context);
        Ok(())
    }

    /// Releases an attempt with the next [`flush`](Self::flush), or as soon as the node can be reached. If the attempt
    /// belongs to another process, and the link already owes too many releases, does nothing and returns `false`.
    pub(crate) fn release(&self, release: Release<Sender>, now: Moment) -> bool {
        let mut inner = self.inner.lock();
        let has_room = !release.is_foreign || inner.delivery.owed() < OWED_MAX;
        if has_room {
            inner.delivery.release(release, now);
        }
        has_room
    }

    /// Forgets an attempt that this process will never release.
    pub(crate) fn forget(&self, attempt: LeaseId) {
        self.inner.lock().delivery.forget(attempt);
    }

    /// Returns why the node cannot be asked, or `None` if it can.
    pub(crate) fn trouble(&self) -> Option<Silence> {
        let stale = || self.is_stale().then(|| Silence::Broken(REPLACED.into()));
        self.inner.lock().state.trouble().or_else(stale)
    }

    /// Returns whether the first attempt to connect has not ended yet, or the node waits for other nodes.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.inner.lock().state, LinkState::Connecting | LinkState::Down(Silence::Waiting(_)))
    }

    /// Returns why the node cannot be used until an operator changes something, or `None`.
    pub(crate) fn refusal(&self) -> Option<Trouble> {
        if let LinkState::Refused(trouble) = &self.inner.lock().state { Some(trouble.clone()) } else { None }
    }

    /// Returns how long the node has been unable to vote, or `None` if it can.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.inner.lock().down_since.map(|since| clock::now().since(since))
    }

    /// Makes the link end once it has delivered all releases.
    pub(crate) fn close(&self) {
        self.inner.lock().closing = true;
        self.wake.notify_one();
    }

    /// Replaces the connection, because the node's state was changed over another connection.
    pub(crate) fn reconnect(&self) {
        self.stale.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Wakes the link's task and the callers that wait for news, because a closing link may have nothing left to do.
    pub(crate) fn nudge(&self) {
        self.wake.notify_one();
        self.news.notify_waiters();
    }

    /// Returns the number of the latest connection.
    fn connection(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Returns the number of undelivered releases.
    pub(crate) fn owed(&self) -> usize {
        self.inner.lock().delivery.owed()
    }

    /// Returns the number of attempts with a request that may still arrive from an earlier connection.
    #[cfg(test)]
    pub(crate) fn strays(&self) -> usize {
        self.inner.lock().delivery.strays()
    }

    /// Returns whether the link's task has ended.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.inner.lock().state, LinkState::Ended)
    }

    /// Returns the node's clock minus ours, in microseconds, if known.
    pub(crate) fn clock_offset(&self) -> Option<i64> {
        Some(self.clock_offset.load(Ordering::Relaxed)).filter(|offset| *offset != OFFSET_UNKNOWN)
    }

    /// Runs the link's task: one connection after the other, until the link is closed.
    pub(crate) async fn run(self: Arc<Self>, node: Arc<dyn Node>, membership: Arc<Membership>) {
        let _end_on_drop = EndOnDrop(&self);
        let mut backoff = BACKOFF_MIN;
        while !self.is_idle_and_closing() {
            let began = runtime::now();
            let (trouble, served) = self.connect_and_serve(&*node, &membership).await;
            // A connection that broke immediately does not reset the backoff.
            if served && runtime::since(began) > BACKOFF_MAX {
                backoff = BACKOFF_MIN;
            }
            self.go_down(match &trouble {
                Trouble::Unfit(_) | Trouble::Denied(_) => LinkState::Refused(trouble.clone()),
                Trouble::Unreachable(_) | Trouble::Broken(_) => LinkState::Down(trouble.as_silence()),
            });
            // The next connection may replace a served connection at once: that is not an outage.
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

    /// Opens a connection and serves it until it ends. Returns why it ended, and whether its handshake succeeded.
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

    /// Returns the inbox of a new connection. The inbox passes votes to the voters, and the end of the connection to
    /// the link's task, which reads the returned receiver.
    fn inbox(self: &Arc<Self>) -> (Inbox, mpsc::UnboundedReceiver<Answer>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let link = Arc::downgrade(self);
        let connection = self.connections.fetch_add(1, Ordering::AcqRel) + 1;
        let inbox = Inbox::new(self.config.channel, move |answer| {
            let Some(link) = link.upgrade() else { return };
            // A thread outside the runtime leaves all messages to the link's task, so that voters run on their own
            // runtime.
            let for_task = if runtime::can_spawn() {
                match link.take(connection, answer) {
                    Ok(()) => return,
                    Err(trouble) => Answer::End(trouble),
                }
            } else {
                answer
            };
            // The link's task may have ended.
            let _ = sender.send(for_task);
        });
        (inbox, receiver)
    }

    /// Waits for the duration `pause` before the next connection. Returns early if the connection must be replaced, or
    /// if the link is closing and has delivered everything.
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
        let mut inner = self.inner.lock();
        if inner.closing {
            inner.delivery.forget_expired(clock::now(), true);
        }
        inner.is_drained() && self.config.claims.is_settled()
    }

    /// Ends the connection. All requests without a reply, sent or queued, count as silent. The link still owes the
    /// releases.
    fn go_down(&self, state: LinkState) {
        let why = state.trouble().unwrap_or(Silence::Unheard);
        tracing::debug!(node = %self.title, reason = %why, "no connection");
        // Drop the connection after the mutex is unlocked.
        let (_connection, senders) = {
            let mut inner = self.inner.lock();
            inner.set_state(state, clock::now());
            (inner.connection.take(), inner.delivery.lost())
        };
        for (attempt, round, sender) in senders {
            if let Some(voter) = sender.voter {
                voter.vote(self.node, attempt, round, Outcome::Silent(why.clone()), clock::now());
            }
        }
        self.news.notify_waiters();
    }

    fn set_state(&self, state: LinkState) {
        let is_up = matches!(state, LinkState::Up(_));
        self.inner.lock().set_state(state, clock::now());
        self.news.notify_waiters();
        if is_up {
            self.config.outages.end(self.node);
            self.config.claims.hint_all(self.node);
        }
    }

    /// Logs once that the node cannot vote, unless the link is closing.
    fn note_outage(&self, why: Silence) {
        if !self.inner.lock().closing {
            self.config.outages.begin(self.node, &self.title, why);
        }
    }

    /// Records the offset of the node's clock, which showed `at_micros` when this process's clock showed `now`.
    fn note_clock(&self, at_micros: u64, now: Moment) {
        let ours = (now.as_nanos() / 1_000) as i64;
        let offset = i64::try_from(at_micros).unwrap_or(i64::MAX).saturating_sub(ours);
        self.clock_offset.store(offset, Ordering::Relaxed);
    }
}

/// Marks the link as ended when its task ends, or is dropped with its runtime.
struct EndOnDrop<'a>(&'a Link);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.go_down(LinkState::Ended);
    }
}
