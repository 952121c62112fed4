//! Nodes: where votes are kept. One trait, three kinds.

pub(crate) mod event;
pub(crate) mod key;
pub(crate) mod memory;
pub(crate) mod probe;
pub(crate) mod redis;
mod request_reply;
#[cfg(feature = "sim")]
pub(crate) mod sim;
#[cfg(target_os = "linux")]
pub(crate) mod sqlite;
pub(crate) mod url;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use quorlock_core::delivery::Fate;
use quorlock_core::fence::Fence;
use quorlock_core::node::{Epoch, Identity, NodeCommand, Standing};
use quorlock_core::ticket::{Channel, Handoff, Ticket};
use quorlock_core::vote::{Request, Silence, Vote};
use tokio::sync::mpsc;

use crate::platform::sync::AtomicBool;
use event::Event;
use key::{KeySpan, LockKey};
use probe::{Plan, Probe};
pub(crate) use request_reply::{RequestReply, STEP_DEADLINE, within};

/// A process that keeps leases alive, or the process group that it leads, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companion {
    Process(u32),
    Group(u32),
}

/// A voter that can be connected to.
pub(crate) trait Node: Send + Sync {
    /// Its URL without secrets: for people.
    fn title(&self) -> &str;

    /// Makes one connection. Nothing ever reconnects behind it: a connection that ends takes its session along.
    ///
    /// Answers and hints go to the inbox. Hints are heard from before the session is there, so that nothing is freed
    /// unheard after the first request. A node that cannot give hints is a node all the same.
    fn open(&self, inbox: Inbox) -> BoxFuture<'static, Result<Box<dyn Session>, Trouble>>;

    /// Counts a companion as keeping this client's leases alive, from their next renewal on. Whether this node knows of
    /// processes.
    ///
    /// # Errors
    /// The id, if there is no such process.
    fn also_alive_with(&self, _companion: Companion) -> Result<bool, u32> {
        Ok(false)
    }

    /// Looks at everything that can be seen of it, and changes nothing.
    fn examine<'a>(&'a self, plan: &'a Plan) -> BoxFuture<'a, Probe> {
        Box::pin(probe::by_session(self, plan))
    }
}

/// One connection to a node. It carries out questions in their order and answers them in that order: an acquire and the
/// release that follows it must never change places.
pub(crate) trait Session: Send {
    /// The server's identity when the session began.
    fn identity(&self) -> &Identity;

    /// Sends a question without waiting for anything.
    fn ask(&mut self, question: Question);
}

/// A question to a node. Each has one answer.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// Requests for votes in one life of the node.
    Votes(Option<Life>, Vec<Message>),
    /// A command about the node itself.
    NodeCommand(NodeCommand),
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
    /// The state after a node command, and the server's identity then.
    Standing(Box<Standing>, Identity),
    /// The keys that a search found.
    Page(Page),
    /// The newest events; none for a note.
    Events(Vec<Event>),
    /// The reason why a search, a note or a recall failed.
    Failed(String),
    /// Notification: the lock may be free, or this waiter has the vote already. It comes after every earlier answer.
    Hint(Ticket, Option<Handoff>),
    /// Notification: a lock with this key was broken; this client may hold it.
    Broken(String),
    /// Notification: the node's memory may have been replaced. Every later vote may be the new memory's.
    MemoryChanged,
    /// The connection is over; nothing follows.
    End(Trouble),
}

/// Where answers go. It is called from the session's own task or thread, and never from within a question.
#[derive(Clone)]
pub(crate) struct Inbox {
    /// On which hints for this client are heard. Channel 0 is nobody's.
    pub(crate) channel: Channel,
    take: Arc<dyn Fn(Answer) + Send + Sync>,
    over: Arc<AtomicBool>,
}

impl Inbox {
    pub(crate) fn new(channel: Channel, take: impl Fn(Answer) + Send + Sync + 'static) -> Self {
        Self { channel, take: Arc::new(take), over: Arc::default() }
    }

    /// An inbox that is a queue, for those who ask one thing after the other.
    pub(crate) fn queue(channel: Channel) -> (Self, mpsc::UnboundedReceiver<Answer>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        // A receiver that is gone needs no answer.
        (Self::new(channel, move |answer| drop(sender.send(answer))), receiver)
    }

    /// Whether the end has been taken.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Nothing is taken after the end: it would be held for the answer to a question that got none.
    pub(crate) fn take(&self, answer: Answer) {
        let is_over = match answer {
            Answer::End(_) => self.over.swap(true, Ordering::AcqRel),
            _ => self.is_over(),
        };
        if !is_over {
            (self.take)(answer);
        }
    }
}

/// A life of a node's memory that may vote, as seen in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) epoch: Epoch,
    pub(crate) floor: Fence,
}

/// One request about one name.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) key: Arc<LockKey>,
    pub(crate) request: Arc<Request>,
}

/// How many keys a node finds for one page, about.
pub(crate) const PAGE_MAX: usize = 1_000;
/// How many times as many keys it walks at most: most may be of names that are free.
pub(crate) const PAGE_STEPS_MAX: usize = 10;

/// Which keys to look for: one page of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) span: KeySpan,
    /// Where the last page ended, in the node's own words; empty for the first.
    pub(crate) after: String,
}

/// Some keys of locks that may be held or waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) keys: Vec<String>,
    /// Where the next page begins; `None` after the last.
    pub(crate) next: Option<String>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A vote, and the node's clock where the reply carries it.
    Voted { vote: Vote, at_micros: Option<u64> },
    /// An error: whether it did anything is not known.
    Failed(String),
    /// Nothing was done, because another server of the node has the name by now. The session is of no use any more.
    Moved(String),
}

impl Reply {
    /// What the node did with the request.
    pub(crate) fn fate(&self) -> Fate {
        match self {
            Self::Voted { .. } => Fate::Done,
            Self::Failed(_) => Fate::Failed,
            Self::Moved(_) => Fate::Moved,
        }
    }
}

/// Why there is no session, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nobody answers.
    #[error("{0}")]
    Unreachable(String),
    /// The server refuses us: password or permissions.
    #[error("access denied: {0}")]
    Denied(String),
    /// The server cannot be a node as it is set up.
    #[error("{0}")]
    Unfit(String),
    /// The connection is of no use any more.
    #[error("{0}")]
    Broken(String),
}

impl Trouble {
    /// The same, with whose it is.
    pub(crate) fn of(mut self, whose: &str) -> Self {
        let (Self::Unreachable(why) | Self::Denied(why) | Self::Unfit(why) | Self::Broken(why)) = &mut self;
        why.insert_str(0, &format!("{whose}: "));
        self
    }

    /// What a voter is told.
    pub(crate) fn as_silence(&self) -> Silence {
        match self {
            Self::Unreachable(why) => Silence::Unreachable(why.clone()),
            Self::Broken(why) => Silence::Broken(why.clone()),
            Self::Unfit(_) | Self::Denied(_) => Silence::Unfit(self.to_string()),
        }
    }
}
