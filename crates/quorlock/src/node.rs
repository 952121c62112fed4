//! Nodes, which store votes: the trait, and its implementations for Redis, SQLite and memory.

pub(crate) mod event;
pub(crate) mod key;
pub(crate) mod membership_text;
pub(crate) mod memory;
pub(crate) mod probe;
pub(crate) mod redis;
mod request_reply;
#[cfg(test)]
mod roster_history;
#[cfg(feature = "sim")]
pub(crate) mod sim;
#[cfg(target_os = "linux")]
pub(crate) mod sqlite;
pub(crate) mod url;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
pub(crate) use quorlock_core::delivery::Reply;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, Name};
use quorlock_core::node::roster::{RosterAnswer, RosterCommand};
use quorlock_core::node::{Epoch, Identity, NodeCommand, Standing};
use quorlock_core::request::{Request, Ticket};
use quorlock_core::vote::{Handoff, Silence};
use tokio::sync::mpsc;

use crate::platform::sync::AtomicBool;
use event::Event;
use key::KeySpan;
use probe::{Plan, Probe};
use redis::slot::Slot;
pub(crate) use request_reply::{RequestReply, STEP_DEADLINE, within};

/// A process that keeps leases alive, by its id, or a process group, by the id of its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companion {
    Process(u32),
    Group(u32),
}

/// A node of the cluster that a client can connect to.
pub(crate) trait Node: Send + Sync {
    /// Returns the URL of the node without secrets, for messages.
    fn title(&self) -> &str;

    /// Opens a session. A session never reconnects: if its connection fails, the session ends.
    ///
    /// The session delivers answers and hints (messages that a lock may be free) to the inbox. It subscribes to hints
    /// before this future completes, so that no hint after the first request is missed. A node may also give no hints.
    fn open(&self, inbox: Inbox) -> BoxFuture<'static, Result<Box<dyn Session>, Trouble>>;

    /// Adds a process or process group to those that keep this client's leases alive, with effect from the next
    /// renewal. Returns whether this node tracks processes.
    ///
    /// # Errors
    /// The process id, if there is no such process.
    fn add_holder_process(&self, _companion: Companion) -> Result<bool, u32> {
        Ok(false)
    }

    /// Examines the node for `quorlock doctor`. Changes nothing.
    fn examine<'a>(&'a self, plan: &'a Plan) -> BoxFuture<'a, Probe> {
        Box::pin(probe::by_session(self, plan))
    }
}

/// A session with a node. The node processes and answers questions in the order in which they were asked: a release
/// must never overtake the acquire before it.
pub(crate) trait Session: Send {
    /// Returns the identity that the server had when the session started.
    fn identity(&self) -> &Identity;

    /// Sends a question without waiting for its answer.
    fn ask(&mut self, question: Question);
}

/// A question to a node. Each has one answer.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// Requests for votes. The node votes only if its memory is still in this life.
    Votes(Option<Life>, Vec<Message>),
    /// A command about the node itself.
    NodeCommand(NodeCommand),
    /// A command about the cluster's roster.
    #[cfg_attr(not(test), expect(dead_code, reason = "links still send node commands"))]
    Roster(RosterCommand),
    /// A search for keys of locks that are held or waited for. It changes nothing.
    Search(Search),
    /// Events to add to the node's history.
    Note(Vec<Arc<Event>>),
    /// A request for the newest events of the history, at most this many.
    Recall(usize),
}

/// A message from a node: the answer to a question, or a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// One reply for each request.
    Votes(Vec<Reply>),
    /// The state of the node after a node command, and the server's identity at that time.
    Standing(Box<Standing>, Identity),
    /// The node's answer to a command about the roster, and the server's identity at that time.
    Roster(Box<RosterAnswer>, Identity),
    /// The keys that a search found.
    Page(Page),
    /// The newest events of the history. Empty if the question was a note.
    Events(Vec<Event>),
    /// The reason why a search, a note or a recall failed.
    Failed(String),
    /// Notification for a waiter: the lock may be free, or the node has already given its vote to this waiter. It
    /// arrives after all earlier answers.
    Hint(Ticket, Option<Handoff>),
    /// Notification: the lock with this key was broken. This client may hold the lock.
    Broken(String),
    /// Notification: the node may have lost its memory. All later votes may come from the new memory.
    MemoryChanged,
    /// The session is over. Nothing follows.
    End(Trouble),
}

/// The receiver of the answers of a session. The session delivers answers on its own task or thread, and never while
/// [`ask`](Session::ask) runs.
#[derive(Clone)]
pub(crate) struct Inbox {
    /// The channel on which the nodes send hints to this client. No client has channel 0.
    pub(crate) channel: Channel,
    receive: Arc<dyn Fn(Answer) + Send + Sync>,
    over: Arc<AtomicBool>,
}

impl Inbox {
    pub(crate) fn new(channel: Channel, receive: impl Fn(Answer) + Send + Sync + 'static) -> Self {
        Self { channel, receive: Arc::new(receive), over: Arc::default() }
    }

    /// Returns an inbox that puts answers into a queue.
    pub(crate) fn queue(channel: Channel) -> (Self, mpsc::UnboundedReceiver<Answer>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        // If the receiver was dropped, nobody needs the answer.
        (Self::new(channel, move |answer| drop(sender.send(answer))), receiver)
    }

    /// Returns whether the end of the session was delivered.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Delivers an answer. After the end of the session it does nothing: the receiver would take a late answer for the
    /// answer to another question.
    pub(crate) fn deliver(&self, answer: Answer) {
        let is_over = match answer {
            Answer::End(_) => self.over.swap(true, Ordering::AcqRel),
            _ => self.is_over(),
        };
        if !is_over {
            (self.receive)(answer);
        }
    }
}

/// One life of a node's memory, which lasts until the node loses its memory. The handshake has found that the node may
/// vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) epoch: Epoch,
    pub(crate) floor: Fence,
}

/// A name, and the key under which every node stores its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockKey {
    pub(crate) name: Name,
    pub(crate) text: String,
    /// The key's slot, if the client uses a Redis Cluster.
    pub(crate) slot: Option<Slot>,
}

impl LockKey {
    /// Returns the hash tag that companion keys start with, so that they are in the same slot as the key.
    pub(crate) fn tag(&self) -> String {
        self.slot.map(|slot| format!("{{{}}}:", slot.tag())).unwrap_or_default()
    }
}

/// One request about one name.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) key: Arc<LockKey>,
    pub(crate) request: Arc<Request>,
}

/// The approximate number of keys on a page.
pub(crate) const PAGE_MAX: usize = 1_000;
/// The largest number of keys that a node examines for a page, as a multiple of [`PAGE_MAX`]. Most keys may belong to
/// free locks.
pub(crate) const PAGE_STEPS_MAX: usize = 10;

/// A search for one page of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) span: KeySpan,
    /// The [`next`](Page::next) of the previous page; empty for the first page.
    pub(crate) after: String,
}

/// One page of keys, whose locks may be held or waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) keys: Vec<String>,
    /// The position of the next page, in a format of the node; `None` after the last page.
    pub(crate) next: Option<String>,
}

/// The reason why a session could not be opened, or has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// The server does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The server rejects the password, or denies permissions.
    #[error("access denied: {0}")]
    Denied(String),
    /// The server cannot be a node, because of its configuration or its role.
    #[error("{0}")]
    Unfit(String),
    /// The connection failed.
    #[error("{0}")]
    Broken(String),
}

impl Trouble {
    /// Returns the trouble with the name of its server in the message.
    pub(crate) fn with_server(mut self, server: &str) -> Self {
        let (Self::Unreachable(why) | Self::Denied(why) | Self::Unfit(why) | Self::Broken(why)) = &mut self;
        why.insert_str(0, &format!("{server}: "));
        self
    }

    /// Returns the reason for the node's silence that is shown to callers.
    pub(crate) fn as_silence(&self) -> Silence {
        match self {
            Self::Unreachable(why) => Silence::Unreachable(why.clone()),
            Self::Broken(why) => Silence::Broken(why.clone()),
            Self::Unfit(_) | Self::Denied(_) => Silence::Unfit(self.to_string()),
        }
    }
}
