//! What a simulation puts in place of clocks, random numbers, tasks and nodes. Test-only: behind the feature `sim`, and without effect
//! on threads that have not entered a world.
//!
//! A world runs on one thread. It knows whose client is running at any time: each may have a clock of its own.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorlock_core::node::{Epoch, Identity, NodeCommand, Standing};
use quorlock_core::ticket::{Channel, Handoff, Ticket};
use quorlock_core::vote::{Request, Vote};

use crate::platform::runtime::Instant;

/// A task of a client's own.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long a task waits that lets others have their turn.
pub(crate) const TURN: Duration = Duration::from_micros(50);

/// Everything that decides what happens.
pub trait World {
    /// Nanoseconds on the running client's suspend-proof clock, by which it sleeps, too.
    fn now(&self) -> u64;

    /// Nanoseconds on its other clock: what the two agree on has surely passed.
    fn raw(&self) -> u64;

    /// Nanoseconds on the wall clock of the running client's machine.
    fn wall(&self) -> u64;

    /// What that wall clock said when the suspend-proof clock said this.
    fn wall_at(&self, nanos: u64) -> u64;

    /// Random bits.
    fn bits(&self) -> u64;

    /// Runs a task of the running client.
    fn spawn(&self, task: Task);

    /// Wakes whoever sleeps until its clock says so. The number that is returned names the call.
    fn wake_at(&self, nanos: u64, waker: Waker) -> u64;

    /// Nobody waits for this call any more.
    fn forget(&self, call: u64);

    /// Begins a connection of the running client to a node, and gives it a number. What comes of it is said to the ear:
    /// first [`Said::Open`], or the end.
    fn connect(&self, node: usize, ear: Ear) -> u64;

    /// Puts a question on its way.
    fn ask(&self, connection: u64, question: Question);

    /// The client has no use for the connection any more. What it has put on its way may still arrive.
    fn hang_up(&self, connection: u64);

    /// What the running client's host has recorded of a node's quarantine.
    fn recorded(&self, _epoch: Epoch) -> Option<String> {
        None
    }

    /// Records it.
    fn record(&self, _epoch: Epoch, _text: String) {}
}

/// What a client asks of a node.
#[derive(Clone, Debug)]
pub enum Question {
    /// About the node itself.
    NodeCommand(NodeCommand),
    /// For votes: in this life of the node, about each key.
    Batch(Epoch, Vec<(String, Arc<Request>)>),
    /// To write something into the history: nothing is kept, and [`Said::Noted`] is the answer.
    Note,
    /// For anything else: [`Said::Nothing`] is the answer.
    Other,
}

/// What a node says.
#[derive(Clone, Debug)]
pub enum Said {
    /// The connection is there, to a server with this identity.
    Open(Identity),
    /// To a node command, with the server's identity after it.
    Standing(Box<Standing>, Identity),
    /// To a batch, at this time by the node's clock in microseconds.
    Votes(Vec<Vote>, u64),
    /// To a note.
    Noted,
    /// To anything else.
    Nothing,
    /// To nobody's question: the name may be free, or is for this waiter already.
    Hint(Ticket, Option<Handoff>),
    /// To nobody's question: a lock with this key was broken.
    Broken(String),
    /// To nobody's question: the node's memory may have been replaced.
    MemoryChanged,
    /// The connection is over.
    End(String),
}

/// Where a connection's answers go. To be told while its client is the running one, and not from within a question.
pub struct Ear {
    channel: Channel,
    hear: Box<dyn Fn(Said) + Send>,
}

impl Ear {
    pub(crate) fn new(channel: Channel, hear: impl Fn(Said) + Send + 'static) -> Self {
        Self { channel, hear: Box::new(hear) }
    }

    /// On which hints for the client are heard.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Tells it.
    pub fn hear(&self, said: Said) {
        (self.hear)(said);
    }
}

/// The functions `step` and `wait` of [`interleave`].
type Turns = (fn(), fn());

thread_local! {
    static TURNS: Cell<Option<Turns>> = const { Cell::new(None) };
    static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// Lets this thread live in a world, until what is returned is dropped.
#[must_use]
pub fn enter(world: Rc<dyn World>) -> Entered {
    WORLD.set(Some(world));
    Entered(|| WORLD.set(None))
}

/// Dropped, the thread lives in the real world again, and takes its steps without asking.
pub struct Entered(fn());

impl Drop for Entered {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waits for so long, by the running client's clock.
///
/// # Cancel safety
/// It only waits.
pub async fn sleep(delay: Duration) {
    crate::platform::runtime::sleep(delay).await;
}

/// Lets a test decide in which order the threads that it plays on this thread take their steps, until what is returned is
/// dropped. The library calls `step` before each step, and `wait` when another thread has to go on first.
#[must_use]
pub fn interleave(step: fn(), wait: fn()) -> Entered {
    TURNS.set(Some((step, wait)));
    Entered(|| TURNS.set(None))
}

pub(crate) fn turns() -> Option<Turns> {
    TURNS.get()
}

pub(crate) fn world() -> Option<Rc<dyn World>> {
    WORLD.with_borrow(Clone::clone)
}

pub(crate) fn is_on() -> bool {
    WORLD.with_borrow(Option::is_some)
}

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The instant at which a simulated clock says so.
pub(crate) fn instant(nanos: u64) -> Instant {
    *ORIGIN + Duration::from_nanos(nanos)
}

/// A sleep by a simulated clock.
pub(crate) struct Sleep {
    until: u64,
    call: Option<u64>,
}

impl Sleep {
    pub(crate) fn until(at: Instant) -> Self {
        Self { until: at.saturating_duration_since(*ORIGIN).as_nanos() as u64, call: None }
    }

    fn forget(&mut self, world: &dyn World) {
        if let Some(call) = self.call.take() {
            world.forget(call);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(world) = world() else { return Poll::Ready(()) };
        self.forget(&*world);
        if world.now() >= self.until {
            return Poll::Ready(());
        }
        self.call = Some(world.wake_at(self.until, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(world) = world() {
            self.forget(&*world);
        }
    }
}
