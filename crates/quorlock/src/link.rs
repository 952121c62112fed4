//! The connection to one node: ordered batches out, votes in, a handshake before anything, releases owed until delivered.

mod connection;
mod handshake;
mod heartbeat;
mod history;
mod latency;
mod mark;
pub(crate) mod membership;
mod outages;
mod outbox;
mod pending;
pub(crate) mod quarantine_records;
mod traffic;
mod waiters;

pub use latency::RoundTrips;
pub(crate) use mark::Mark;
pub(crate) use outages::Outages;
pub(crate) use outbox::{Ask, GiveBack};
pub(crate) use pending::Pending;
pub(crate) use traffic::Traffic;
pub(crate) use waiters::{Hinted, Waiters};

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use quorlock_core::name::LeaseId;
use quorlock_core::node::Trust;
use quorlock_core::rng::Rng;
use quorlock_core::ticket::{Channel, Parting};
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Silence};
use tokio::sync::{Notify, mpsc};

use crate::link::membership::Membership;
use crate::link::quarantine_records::Records;
use crate::node::{Answer, Inbox, Node, Trouble};
use crate::platform::clock;
use crate::platform::entropy::SystemRng;
use crate::platform::runtime;
use crate::platform::sync::{AtomicBool, AtomicI64, AtomicU64, Mutex};
use connection::Port;
use history::Notes;
use latency::Latency;
use outbox::{OWED_MAX, Outbox, Owed, State};

/// Who waits for a node's answer.
pub(crate) trait Voter: Send + Sync {
    /// What came of a request to this node, and when that was heard.
    fn vote(self: Arc<Self>, node: usize, attempt: LeaseId, round: u32, outcome: Outcome, now: Moment);
}

/// Hears of broken locks.
pub(crate) trait BreakListener: std::fmt::Debug + Send + Sync {
    /// A node says that the lock with this key was broken.
    fn broken(&self, key: &str);
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
    /// What a node may do that has lost its memory.
    pub(crate) trust: Trust,
    /// Attempts that may still have something to give back: a link that is closed waits for them.
    pub(crate) pending: Arc<Pending>,
    /// On which hints for this client are heard.
    pub(crate) channel: Channel,
    /// Whom they are for.
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) breaks: Arc<dyn BreakListener>,
    /// How much has gone over the links.
    pub(crate) traffic: Arc<Traffic>,
    /// What the log says about nodes that cannot vote.
    pub(crate) outages: Arc<Outages>,
    /// What this host knows of quarantines.
    pub(crate) records: Records,
}

/// How the first contact with a node went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// Not known yet.
    Pending,
    /// It was reached, or not; either way the link goes on by itself.
    Settled,
    /// It will not do: the operator has to look.
    Refused(Trouble),
}

/// One node's link.
pub(crate) struct Link {
    pub(crate) node: usize,
    pub(crate) title: String,
    config: LinkConfig,
    outbox: Mutex<Outbox>,
    /// Taken before the outbox, by those who take both.
    port: Mutex<Option<Port>>,
    /// What is to be written into the node's history. Taken after the port, by those who take both.
    notes: Mutex<Notes>,
    contact: Mutex<Contact>,
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
    finished: AtomicBool,
}

const OFFSET_UNKNOWN: i64 = i64::MIN;
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

impl Link {
    pub(crate) fn new(node: usize, title: &str, config: LinkConfig) -> Self {
        Self {
            node,
            title: title.into(),
            config,
            outbox: Mutex::new(Outbox::new(clock::now())),
            port: Mutex::new(None),
            notes: Mutex::default(),
            contact: Mutex::new(Contact::Pending),
            wake: Notify::new(),
            news: Notify::new(),
            clock_offset: AtomicI64::new(OFFSET_UNKNOWN),
            stale: AtomicBool::new(false),
            latency: Latency::new(),
            doubts: AtomicU64::new(0),
            settled_doubts: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            finished: AtomicBool::new(false),
        }
    }

    /// Queues a request, for the next [`flush`](Self::flush). If the node cannot be asked, that is said at once.
    pub(crate) fn ask(&self, ask: Ask) -> Result<(), Silence> {
        self.outbox().ask(self.node, ask)
    }

    /// Takes an attempt's vote back: with the next [`flush`](Self::flush), or as soon as the node can be reached. The
    /// mark must say that it is done.
    ///
    /// `false` if nothing of the attempt, and of its waiter if that leaves the queue, has ever left for this node: then
    /// there is nothing to take back. Also if the attempt is somebody else's, and the link owes enough already.
    pub(crate) fn release(
        &self,
        back: &Arc<GiveBack>,
        parting: Option<Parting>,
        voter: Option<Arc<dyn Voter>>,
    ) -> bool {
        debug_assert!(back.mark.is_done(), "marked done before its releases are sent");
        let mark = &back.mark;
        // Under the mutex: what is drained just now is marked as sent, or has seen that it is done.
        let mut outbox = self.outbox();
        let leaves = matches!(parting, Some(Parting::Leave(_))) && mark.is_placed(self.node);
        if !mark.is_sent(self.node) && !leaves || mark.is_of_another() && outbox.owed() >= OWED_MAX {
            return false;
        }
        outbox.owe(Owed { back: Arc::clone(back), voter, parting, serial: 0, tried: false });
        true
    }

    /// Why the node cannot be asked; `None` when it can.
    pub(crate) fn trouble(&self) -> Option<Silence> {
        match &self.outbox().state {
            State::Up(_) if self.is_stale() => Some(Silence::Broken("it is being replaced".into())),
            State::Up(_) => None,
            State::Down(why) => Some(why.clone()),
        }
    }

    /// How long the node has not been able to vote; `None` while it is.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.outbox().down_since.map(|since| clock::now().since(since))
    }

    /// How the first contact went.
    pub(crate) fn contact(&self) -> Contact {
        self.contact.lock().clone()
    }

    /// Delivers what is owed, then ends.
    pub(crate) fn close(&self) {
        self.outbox().closing = true;
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
        self.outbox().owed()
    }

    /// Whether the link's task has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
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
            self.go_down(&trouble);
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
        let mut session = match opened {
            Ok(Ok(session)) => session,
            Ok(Err(trouble)) => return (trouble, false),
            Err(_) => {
                let why = format!("no answer within {:?}", self.config.handshake_deadline);
                return (Trouble::Unreachable(why), false);
            }
        };
        match self.shake_hands(&mut *session, &mut answers, membership).await {
            Ok(life) => {
                tracing::debug!(node = %self.title, votes = life.floor.is_some(), "connected");
                (self.serve(session, life, &mut answers).await, true)
            }
            Err(trouble) => (trouble, false),
        }
    }

    /// Where a connection's answers go: votes and hints to those who wait for them, the rest to the link's task.
    fn inbox(self: &Arc<Self>) -> (Inbox, mpsc::UnboundedReceiver<Answer>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let link = Arc::downgrade(self);
        let connection = self.connections.fetch_add(1, Ordering::AcqRel) + 1;
        let inbox = Inbox::new(self.config.channel, move |answer| {
            let Some(link) = link.upgrade() else { return };
            // A thread that is not the runtime's leaves it to the link's task: callers are told on the client's own.
            let at_home = runtime::is_here();
            let rest = match answer {
                rest if !at_home => rest,
                Answer::Replies(replies) => match link.arrived(connection, replies) {
                    Ok(()) => return,
                    Err(trouble) => Answer::End(trouble),
                },
                // What an earlier connection has to say may be older than what was asked since.
                Answer::Hint(ticket, handoff) => {
                    let counts = link.connection() == connection && !link.is_doubted();
                    return link.hinted(ticket, handoff.filter(|_| counts));
                }
                Answer::MemoryChanged if link.connection() == connection => {
                    link.doubts.fetch_add(1, Ordering::AcqRel);
                    Answer::MemoryChanged
                }
                Answer::Page(page) => return link.found(connection, page),
                Answer::History(told) => return link.recalled(connection, told),
                Answer::Broken(key) => return link.heard_of_break(&key),
                rest => rest,
            };
            // The task that would hear it may have ended meanwhile.
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
        let mut outbox = self.outbox();
        if outbox.closing {
            outbox.owe_again(self.node, clock::now());
        }
        outbox.closing && outbox.owed() == 0 && self.config.pending.is_none()
    }

    /// Nothing can be asked any more. Whoever still waits to be sent hears of it; releases stay owed.
    fn go_down(&self, trouble: &Trouble) {
        let why = trouble.as_silence();
        tracing::debug!(node = %self.title, reason = %why, "no connection");
        let abandoned = {
            let mut outbox = self.outbox();
            outbox.set_state(State::Down(why.clone()), clock::now());
            outbox.abandon(self.node)
        };
        for ask in abandoned {
            ask.voter.vote(self.node, ask.mark.attempt, ask.round, Outcome::Silent(why.clone()), clock::now());
        }
        self.settle_contact(match trouble {
            Trouble::Unfit(_) | Trouble::Denied(_) => Contact::Refused(trouble.clone()),
            Trouble::Unreachable(_) | Trouble::Broken(_) => Contact::Settled,
        });
    }

    fn set_state(&self, state: State) {
        let is_up = matches!(state, State::Up(_));
        self.outbox().set_state(state, clock::now());
        self.news.notify_waiters();
        if is_up {
            self.config.outages.end(self.node);
            self.config.waiters.hint_all(self.node);
        }
    }

    /// Logs that the node cannot vote, once, unless the client wants nothing of it any more.
    fn note_outage(&self, why: Silence) {
        if !self.outbox().closing {
            self.config.outages.begin(self.node, &self.title, why);
        }
    }

    fn settle_contact(&self, contact: Contact) {
        let mut current = self.contact.lock();
        *current = contact;
        drop(current);
        self.news.notify_waiters();
    }

    fn note_clock(&self, at_micros: u64, now: Moment) {
        let ours = (now.as_nanos() / 1_000) as i64;
        let offset = i64::try_from(at_micros).unwrap_or(i64::MAX).saturating_sub(ours);
        self.clock_offset.store(offset, Ordering::Relaxed);
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock()
    }
}

/// Dropped with the link's task: when it is done, or with its runtime.
struct Ending<'a>(&'a Link);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.go_down(&Trouble::Unreachable("the client was closed".into()));
        self.0.finished.store(true, Ordering::Release);
        self.0.news.notify_waiters();
    }
}
