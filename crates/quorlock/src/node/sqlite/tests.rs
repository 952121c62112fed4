//! Tests of SQLite nodes, and their helpers.

mod crash;
mod damage;
mod dead;
mod full;
mod hints;
mod kinds;
mod log;
mod model;
mod opening;
mod roster;
mod voting;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, Holder, LeaseId, Name};
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeCommand, NodeTime, Standing, Trust};
use quorlock_core::request::{Parting, Request, Ticket, Waiter};
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;
use quorlock_core::vote::{Handoff, Refusal, Vote};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::node::key::KeyTemplate;
use crate::node::{Life, LockKey, Message, Question, Reply, RequestReply};

/// The start of each test by the wall clock: 2025-01-01.
const START_MICROS: u64 = 1_735_689_600_000_000;
const HOUR_MILLIS: u64 = 3_600_000;
const MAX_SKEW_MICROS: u64 = 10_000_000;

impl SqliteNode {
    fn with_boot_id(path: &Path, boot: &str, clock: &TestClock) -> Self {
        let clock = clock.clone();
        let clock: Clock = Arc::new(move || clock.read());
        Self { boot: Some((boot.into(), clock)), ..Self::new(path.into(), Processes::default()) }
    }
}

/// A clock that only tests advance. The clock counts how often it was read.
#[derive(Clone, Default)]
struct TestClock {
    millis: Arc<AtomicU64>,
    readings: Arc<AtomicU64>,
}

impl TestClock {
    fn read(&self) -> NodeTime {
        self.readings.fetch_add(1, Ordering::SeqCst);
        self.peek()
    }

    /// Reads the clock without counting the reading.
    fn peek(&self) -> NodeTime {
        let millis = self.millis.load(Ordering::SeqCst);
        NodeTime { wall_micros: START_MICROS + millis * 1_000, life_millis: 1_000 + millis }
    }

    /// Advances the clock.
    fn pass(&self, millis: u64) {
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }

    fn readings(&self) -> u64 {
        self.readings.load(Ordering::SeqCst)
    }
}

/// A directory with the file of an SQLite node.
struct TestFile {
    directory: tempfile::TempDir,
    clock: TestClock,
}

impl TestFile {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), clock: TestClock::default() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("locks.db")
    }

    /// Opens a session, and completes the handshake.
    fn session(&self, boot: &str) -> TestSession {
        TestSession::new(self.open(boot).unwrap())
    }

    fn open(&self, boot: &str) -> Result<RequestReply, Trouble> {
        open(&SqliteNode::with_boot_id(&self.path(), boot, &self.clock))
    }

    /// Opens a session that receives hints on this channel. Only this session reads the clock of the result.
    fn listener(&self, channel: Channel) -> TestListener {
        self.listener_with(channel, Processes::default())
    }

    /// Like [`listener`](Self::listener), but these processes keep the session's leases alive.
    fn listener_with(&self, channel: Channel, processes: Processes) -> TestListener {
        let clock = TestClock { millis: Arc::clone(&self.clock.millis), ..TestClock::default() };
        let node = SqliteNode { processes, ..SqliteNode::with_boot_id(&self.path(), "boot", &clock) };
        let (session, hints) = wait(RequestReply::listening(&node, channel)).unwrap();
        TestListener { session: TestSession::new(session), channel, hints, clock }
    }

    /// Returns the number of rows of a table.
    fn count(&self, table: &str) -> i64 {
        self.connect().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    /// Opens the file like another program.
    fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }
}

/// A session after its handshake.
struct TestSession {
    session: RequestReply,
    known: Incarnation,
}

impl TestSession {
    fn new(mut session: RequestReply) -> Self {
        let known = hello(&mut session).life.unwrap();
        Self { session, known }
    }

    fn life(&self) -> Life {
        Life { epoch: self.known.epoch.unwrap(), floor: self.known.floor.unwrap() }
    }

    /// Sends a batch, without waiting for the replies.
    fn post(&mut self, messages: Vec<Message>) {
        self.session.post(Question::Votes(Some(self.life()), messages));
    }

    /// Waits for the replies to the oldest unanswered batch.
    fn replies(&mut self) -> Result<Vec<Reply>, Trouble> {
        wait(self.session.replies())
    }

    fn send(&mut self, messages: Vec<Message>) -> Result<Vec<Reply>, Trouble> {
        self.post(messages);
        self.replies()
    }

    fn ask(&mut self, name: &str, request: Request) -> Vote {
        let replies = self.send(vec![message(name, request)]).unwrap();
        vote(&replies[0])
    }

    fn acquire(&mut self, name: &str, attempt: u128) -> Vote {
        self.ask(name, acquire(attempt))
    }

    /// Acquires and releases the lock, and returns the fence.
    fn fence(&mut self, name: &str, attempt: u128) -> Fence {
        let vote = self.acquire(name, attempt);
        self.ask(name, release(attempt));
        granted(&vote)
    }
}

/// A session that receives hints.
struct TestListener {
    session: TestSession,
    channel: Channel,
    hints: UnboundedReceiver<(Ticket, Option<Handoff>)>,
    clock: TestClock,
}

impl TestListener {
    fn waiter(&self, ticket: Ticket) -> Waiter {
        Waiter { ticket, channel: self.channel, shared: false }
    }

    /// Asks for the lock, with a position in the queue if the node refuses.
    fn queue(&mut self, name: &str, attempt: u128, ticket: Ticket) -> Vote {
        let request = acquire_as(attempt, Mode::EXCLUSIVE, Some(self.waiter(ticket)));
        self.session.ask(name, request)
    }

    fn leave(&mut self, name: &str, attempt: u128, ticket: Ticket) -> Vote {
        let request = release_with_parting(attempt, Parting::Leave(self.waiter(ticket)));
        self.session.ask(name, request)
    }

    /// Waits until the thread has delivered everything that was sent before.
    fn settle(&mut self) {
        wait(self.session.session.node_command(NodeCommand::Look)).unwrap();
    }

    /// Returns all hints that were received and not read yet.
    fn all_hints(&mut self) -> Vec<Ticket> {
        self.settle();
        std::iter::from_fn(|| self.hints.try_recv().ok()).map(|(ticket, _)| ticket).collect()
    }
}

fn hello(session: &mut RequestReply) -> Standing {
    let node_command = NodeCommand::Hello {
        identity: session.identity().clone(),
        fresh: Epoch(crate::platform::entropy::bits()),
        constants: constants(),
        founders: "run".into(),
        trust: Trust::Vote { floor_offset: 2 * MAX_SKEW_MICROS.cast_signed() },
    };
    let standing = wait(session.node_command(node_command)).unwrap();
    assert!(standing.accepted);
    standing
}

fn constants() -> Constants {
    Constants { cluster: "c".into(), nodes: 1, max_ttl_millis: 60_000, max_skew_micros: MAX_SKEW_MICROS }
}

fn ttl(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis), Duration::from_secs(60)).unwrap()
}

fn holder() -> Arc<str> {
    Holder::new("host", 7, "test").encode().into()
}

fn acquire(attempt: u128) -> Request {
    acquire_as(attempt, Mode::EXCLUSIVE, None)
}

fn acquire_as(attempt: u128, mode: Mode, waiter: Option<Waiter>) -> Request {
    let (attempt, proposal, ttl) = (LeaseId::from_bits(attempt), Fence::default(), ttl(30_000));
    Request::Acquire { attempt, proposal, ttl, holder: holder(), mode, waiter }
}

fn release(attempt: u128) -> Request {
    Request::Release { attempt: LeaseId::from_bits(attempt), tombstone: None, parting: None }
}

fn release_with_parting(attempt: u128, parting: Parting) -> Request {
    Request::Release { attempt: LeaseId::from_bits(attempt), tombstone: None, parting: Some(parting) }
}

fn release_with_tombstone(attempt: u128, millis: u64) -> Request {
    Request::Release { attempt: LeaseId::from_bits(attempt), tombstone: Some(millis), parting: None }
}

/// Opens a session that receives no hints.
fn open(node: &SqliteNode) -> Result<RequestReply, Trouble> {
    wait(RequestReply::open(node, Channel(0)))
}

fn message(name: &str, request: Request) -> Message {
    Message { key: Arc::new(key(name)), request: Arc::new(request) }
}

fn key(name: &str) -> LockKey {
    KeyTemplate::new(KeyTemplate::DEFAULT).unwrap().key(&Name::new(name).unwrap()).unwrap()
}

fn vote(reply: &Reply) -> Vote {
    match reply {
        Reply::Voted { vote, .. } => vote.clone(),
        Reply::Failed(why) | Reply::Moved(why) => panic!("no vote: {why}"),
    }
}

fn granted(vote: &Vote) -> Fence {
    match vote {
        Vote::Grant { fence, .. } => *fence,
        other => panic!("not granted: {other:?}"),
    }
}

fn is_held(vote: &Vote) -> bool {
    matches!(vote, Vote::Refusal(Refusal::Held { .. }))
}

/// Waits for a future that needs no runtime.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
