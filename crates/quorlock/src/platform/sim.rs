//! Replaces clocks, random numbers, tasks and nodes in a simulation. For tests only: requires the feature `sim`, and
//! has no effect on threads that have not entered a world.
//!
//! A world runs on one thread. It knows which client is running at any time, because each client may have its own
//! clock.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorlock_core::name::Channel;
use quorlock_core::node::roster::{RosterAnswer, RosterCommand};
use quorlock_core::node::{Epoch, Identity, NodeCommand, Standing};
use quorlock_core::request::{Request, Ticket};
use quorlock_core::vote::{Handoff, Vote};

use crate::platform::runtime::Instant;

/// A task that a client has spawned.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long a task sleeps when it yields in a simulation.
pub(crate) const YIELD: Duration = Duration::from_micros(50);

/// A simulated world: the clocks, random numbers, tasks and nodes that the library uses.
pub trait World {
    /// Returns nanoseconds on the running client's suspend-proof clock, by which the client also sleeps.
    fn now(&self) -> u64;

    /// Returns nanoseconds on the running client's raw clock. Between two moments, at least the smaller advance of the
    /// raw clock and the suspend-proof clock has passed.
    fn raw(&self) -> u64;

    /// Returns nanoseconds on the wall clock of the running client's machine.
    fn wall(&self) -> u64;

    /// Returns what the wall clock showed when the suspend-proof clock showed `nanos`.
    fn wall_at(&self, nanos: u64) -> u64;

    /// Returns random bits.
    fn bits(&self) -> u64;

    /// Spawns a task of the running client.
    fn spawn(&self, task: Task);

    /// Wakes `waker` when the running client's clock reaches `nanos`. Returns a number that identifies this call.
    fn wake_at(&self, nanos: u64, waker: Waker) -> u64;

    /// Cancels the call of [`wake_at`](Self::wake_at) with this number.
    fn forget(&self, call: u64);

    /// Starts a connection of the running client to a node, and returns the connection's number. `ear` first receives
    /// [`Said::Open`], or [`Said::End`] if the connection fails.
    fn connect(&self, node: usize, ear: Ear) -> u64;

    /// Sends a question over a connection.
    fn ask(&self, connection: u64, question: Question);

    /// Closes the connection. Questions that are already on their way may still arrive.
    fn hang_up(&self, connection: u64);

    /// Returns the record of the running client's host about a node's quarantine.
    fn recorded(&self, _epoch: Epoch) -> Option<String> {
        None
    }

    /// Writes the record of the running client's host about a node's quarantine.
    fn record(&self, _epoch: Epoch, _text: String) {}
}

/// A client's question to a node.
#[derive(Clone, Debug)]
pub enum Question {
    /// A command about the node itself.
    NodeCommand(NodeCommand),
    /// A command about the cluster's roster.
    Roster(RosterCommand),
    /// Requests for votes in this epoch, each with its key.
    Batch(Epoch, Vec<(String, Arc<Request>)>),
    /// Events for the history. The world stores nothing; the answer is [`Said::Noted`].
    Note,
    /// Any other question. The answer is [`Said::Nothing`].
    Other,
}

/// A message from a node.
#[derive(Clone, Debug)]
pub enum Said {
    /// The connection is open, to a server with this identity.
    Open(Identity),
    /// The answer to a node command, and the server's identity after it.
    Standing(Box<Standing>, Identity),
    /// The answer to a command about the roster, and the server's identity after it.
    Roster(Box<RosterAnswer>, Identity),
    /// The answer to a batch, with the node's clock in microseconds.
    Votes(Vec<Vote>, u64),
    /// The answer to a note.
    Noted,
    /// The answer to any other question.
    Nothing,
    /// Notification: the lock may be free, or the node has already given its vote to the waiter with this ticket.
    Hint(Ticket, Option<Handoff>),
    /// Notification: the lock with this key was broken.
    Broken(String),
    /// Notification: the node's memory may have been replaced.
    MemoryChanged,
    /// The connection has ended.
    End(String),
}

/// Receives a connection's messages. Call [`hear`](Self::hear) only while the connection's client is the running
/// client, and not from within [`World::ask`].
pub struct Ear {
    channel: Channel,
    hear: Box<dyn Fn(Said) + Send>,
}

impl Ear {
    pub(crate) fn new(channel: Channel, hear: impl Fn(Said) + Send + 'static) -> Self {
        Self { channel, hear: Box::new(hear) }
    }

    /// Returns the channel of the client's hints.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Delivers a message.
    pub fn hear(&self, said: Said) {
        (self.hear)(said);
    }
}

/// The parameters `step` and `wait` of [`interleave`].
type StepAndWait = (fn(), fn());

thread_local! {
    static INTERLEAVING: Cell<Option<StepAndWait>> = const { Cell::new(None) };
    static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// Makes this thread use `world` until the returned guard is dropped.
#[must_use]
pub fn enter(world: Rc<dyn World>) -> Entered {
    WORLD.set(Some(world));
    Entered(|| WORLD.set(None))
}

/// A guard that undoes [`enter`] or [`interleave`] when dropped.
pub struct Entered(fn());

impl Drop for Entered {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Sleeps for `delay` by the running client's clock.
///
/// # Cancel safety
/// This function is cancel safe: it only waits.
pub async fn sleep(delay: Duration) {
    crate::platform::runtime::sleep(delay).await;
}

/// Lets a test that simulates several threads on this thread choose the order of their steps, until the returned guard
/// is dropped. The library calls `step` before each step, and `wait` when another thread must proceed first.
#[must_use]
pub fn interleave(step: fn(), wait: fn()) -> Entered {
    INTERLEAVING.set(Some((step, wait)));
    Entered(|| INTERLEAVING.set(None))
}

/// Returns the functions `step` and `wait` of the test that interleaves threads on this thread.
pub(crate) fn interleaving() -> Option<StepAndWait> {
    INTERLEAVING.get()
}

pub(crate) fn world() -> Option<Rc<dyn World>> {
    WORLD.with_borrow(Clone::clone)
}

pub(crate) fn is_on() -> bool {
    WORLD.with_borrow(Option::is_some)
}

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Converts a simulated clock's reading to an instant.
pub(crate) fn instant(nanos: u64) -> Instant {
    *ORIGIN + Duration::from_nanos(nanos)
}

/// A sleep by a simulated clock.
pub(crate) struct Sleep {
    until_nanos: u64,
    /// The number of the last call of [`World::wake_at`].
    call: Option<u64>,
}

impl Sleep {
    pub(crate) fn until(at: Instant) -> Self {
        Self { until_nanos: at.saturating_duration_since(*ORIGIN).as_nanos() as u64, call: None }
    }

    fn cancel_call(&mut self, world: &dyn World) {
        if let Some(call) = self.call.take() {
            world.forget(call);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(world) = world() else { return Poll::Ready(()) };
        self.cancel_call(&*world);
        if world.now() >= self.until_nanos {
            return Poll::Ready(());
        }
        self.call = Some(world.wake_at(self.until_nanos, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(world) = world() {
            self.cancel_call(&*world);
        }
    }
}
