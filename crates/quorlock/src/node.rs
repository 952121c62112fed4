//! Nodes: where votes are kept. One trait, three kinds.

pub(crate) mod memory;
pub(crate) mod place;
pub(crate) mod redis;
#[cfg(target_os = "linux")]
pub(crate) mod sqlite;

use std::pin::Pin;
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::node::{Epoch, Errand, Standing};
use quorlock_core::ticket::{Channel, Ticket};
use quorlock_core::vote::{Request, Silence, Vote};
use tokio::sync::mpsc;

use place::Place;

/// A future that can be kept in a collection.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A voter that can be connected to.
pub(crate) trait Node: Send + Sync {
    /// Its URL without secrets: for people.
    fn title(&self) -> &str;

    /// Makes one connection. Nothing ever reconnects behind it: a connection that ends takes its session along.
    ///
    /// Hints for this client are heard from before the session is there, so that nothing is freed unheard after the
    /// first request. A node that cannot give hints is a node all the same.
    fn open(&self, hints: Hints) -> BoxFuture<Result<Box<dyn Session>, Trouble>>;
}

/// One connection to a node.
pub(crate) trait Session: Send {
    /// The server's own name for its run: another one means another memory.
    fn run(&self) -> &str;

    /// Asks about the node itself.
    fn errand(&mut self, errand: Errand) -> BoxFuture<Result<Standing, Trouble>>;

    /// Puts a batch on its way and returns the future of its replies, one for each letter.
    ///
    /// Batches are executed in the order of these calls, whatever happens to the futures: an acquire and the release
    /// that follows it must never change places.
    fn send(&mut self, life: Option<Life>, batch: Vec<Letter>) -> BoxFuture<Result<Vec<Reply>, Trouble>>;
}

/// Where a session passes on the hints that it hears.
#[derive(Clone, Debug)]
pub(crate) struct Hints {
    /// The client's own.
    pub(crate) channel: Channel,
    sender: mpsc::Sender<Ticket>,
}

/// The most hints that wait to be looked at. They prove nothing, so those above it are dropped.
const HINTS_MAX: usize = 1_024;

impl Hints {
    /// A place for hints, and where they come out.
    pub(crate) fn new(channel: Channel) -> (Self, mpsc::Receiver<Ticket>) {
        let (sender, receiver) = mpsc::channel(HINTS_MAX);
        (Self { channel, sender }, receiver)
    }

    /// Passes on a hint, or drops it if there are too many.
    pub(crate) fn tell(&self, ticket: Ticket) {
        let _ = self.sender.try_send(ticket);
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// A ripe life of a node's memory, as seen in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) epoch: Epoch,
    pub(crate) floor: Fence,
}

/// One request about one name.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) place: Arc<Place>,
    pub(crate) request: Arc<Request>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A vote, and the node's clock where the reply carries it.
    Voted { vote: Vote, at_micros: Option<u64> },
    /// An error: whether it did anything is not known.
    Failed(String),
}

/// Why there is no session, or no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nobody answers.
    Unreachable(String),
    /// The server refuses us: password or permissions.
    Denied(String),
    /// The server cannot be a node as it is set up.
    Unfit(String),
    /// The connection is of no use any more.
    Broken(String),
}

impl Trouble {
    /// What a voter is told.
    pub(crate) fn as_silence(&self) -> Silence {
        match self {
            Self::Unreachable(why) => Silence::Unreachable(why.clone()),
            Self::Broken(why) => Silence::Broken(why.clone()),
            Self::Unfit(why) => Silence::Unfit(why.clone()),
            Self::Denied(why) => Silence::Unfit(format!("access denied: {why}")),
        }
    }
}
