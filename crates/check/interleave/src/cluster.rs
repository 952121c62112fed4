//! A scene is the code that a test runs in several threads. This module gives it time, tasks and connections, and makes
//! the checks at the end.

use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use quorlock::Client;
use quorlock::sim::{self, Ear, Question, Task, World};
use quorlock_core::name::LeaseId;
use quorlock_core::node::{Constants, NodeTime};
use quorlock_core::rng::{Rng as _, Seeded};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use crate::node::{Node, NodeMessage, RequestCounts};
use crate::queue::Queue;

const NODES: usize = 3;
const MS: u64 = 1_000_000;
/// The reading of the clients' clocks at the start, in nanoseconds.
const CLIENT_CLOCK_START: u64 = 10_000 * MS;
/// The reading of the nodes' clocks when the clients' clocks read zero, in microseconds.
const NODE_CLOCK_START_MICROS: u64 = 1_000_000_000;
/// Sleeps up to this length end without a call of [`Cluster::advance_time`], in nanoseconds. The library sleeps shortly
/// to let other tasks run, or before it reconnects.
const SHORT_SLEEP_NANOS_MAX: u64 = 10 * MS;
/// The timeout for closing a client.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum number of time steps until all tasks have ended.
const TIME_STEPS_MAX: u32 = 1_000;
/// The number of thread switches before each time step. Messages in flight arrive during these switches.
const THREAD_SWITCHES: u32 = 100;

/// The ttl of a scene's leases. It is shorter than one second, because a connection without an answer counts as silent
/// after one second.
const TTL: Duration = Duration::from_millis(600);

/// The nodes, clients and tasks of a scene.
pub struct Cluster {
    state: Mutex<State>,
    nodes: Vec<Queue<NodeMessage>>,
    /// The messages to the clock thread: the number of a short sleep that it must end, or `None`, which stops it.
    short_sleeps: Queue<Option<u64>>,
}

struct State {
    /// The reading of the clients' clocks, in nanoseconds.
    now: u64,
    rng: Seeded,
    /// The number of sleeps so far.
    sleep_count: u64,
    /// For each sleep by its number, its end and the waker of the sleeping task.
    sleepers: BTreeMap<u64, (u64, Waker)>,
    /// The node of each connection.
    connections: Vec<usize>,
    /// The number of tasks of clients that have not ended.
    open_tasks: usize,
}

/// Runs a scene, waits until all tasks have ended, and checks that no vote and no queue position is left. Then calls
/// `check_attempt` for each node and attempt, with the number of requests of this attempt that the node got.
///
/// # Panics
/// If a vote or a queue position is left, or tasks do not end.
pub fn run_scene(scene: impl FnOnce(&Arc<Cluster>), check_attempt: impl Fn(LeaseId, RequestCounts)) {
    let cluster = Arc::new(Cluster::new());
    let _thread_switches = sim::interleave(may_switch_threads, thread::yield_now);
    let _simulation = sim::enter(Rc::new(SimulatedPlatform(Arc::clone(&cluster))));
    let node_threads: Vec<_> = (0..NODES).map(|index| spawn_node(&cluster, index)).collect();
    let clock_thread = spawn_clock(&cluster);
    scene(&cluster);
    cluster.wait_for_tasks();
    for node in &cluster.nodes {
        node.push(NodeMessage::Stop);
    }
    cluster.short_sleeps.push(None);
    clock_thread.join().expect("the clock never panics");
    for (index, node_thread) in node_threads.into_iter().enumerate() {
        let mut node = node_thread.join().expect("a node never panics");
        let leftovers = node.leftovers(cluster.node_time());
        assert!(leftovers.is_empty(), "node {index} has leftovers: {leftovers:?}");
        for (attempt, request_counts) in &node.request_counts {
            check_attempt(*attempt, *request_counts);
        }
    }
}

/// A point at which shuttle may switch threads.
fn may_switch_threads() {
    AtomicBool::new(false).load(Ordering::SeqCst);
}

fn spawn_node(cluster: &Arc<Cluster>, index: usize) -> thread::JoinHandle<Node> {
    let cluster = Arc::clone(cluster);
    thread::spawn(move || {
        let mut node = Node::new(index, constants(), cluster.node_time());
        while node.handle(cluster.nodes[index].pop(), cluster.node_time()) {}
        node
    })
}

fn spawn_clock(cluster: &Arc<Cluster>) -> thread::JoinHandle<()> {
    let cluster = Arc::clone(cluster);
    thread::spawn(move || {
        while let Some(sleep) = cluster.short_sleeps.pop() {
            let mut state = cluster.state();
            let sleeper = state.sleepers.remove(&sleep);
            if let Some((at, waker)) = sleeper {
                state.now = state.now.max(at);
                drop(state);
                waker.wake();
            }
        }
    })
}

fn constants() -> Constants {
    let micros = |time: Duration| time.as_micros() as u64;
    Constants {
        cluster: "cluster".into(),
        nodes: NODES,
        max_ttl_millis: quorlock::MAX_TTL_DEFAULT.as_millis() as u64,
        max_skew_micros: micros(quorlock::MAX_CLOCK_SKEW_DEFAULT),
    }
}

impl Cluster {
    fn new() -> Self {
        let state = State {
            now: CLIENT_CLOCK_START,
            rng: Seeded::new(0),
            sleep_count: 0,
            sleepers: BTreeMap::new(),
            connections: Vec::new(),
            open_tasks: 0,
        };
        let nodes = (0..NODES).map(|_| Queue::new()).collect();
        Self { state: Mutex::new(state), nodes, short_sleeps: Queue::new() }
    }

    /// A client of all nodes.
    ///
    /// # Panics
    /// If the client cannot connect.
    pub fn client(&self) -> Client {
        let connecting = Client::builder().simulated(NODES).ttl(TTL).connect_lazy();
        shuttle::future::block_on(connecting).expect("a client of running nodes connects")
    }

    /// Closes a client, and waits until all its releases are delivered.
    ///
    /// # Panics
    /// If a release is not delivered.
    pub fn close(&self, client: Client) {
        shuttle::future::block_on(client.close(CLOSE_TIMEOUT)).expect("all releases are delivered");
    }

    /// Moves the time by `by`, and wakes all tasks whose sleep has then ended.
    pub fn advance_time(&self, by: Duration) {
        may_switch_threads();
        let due_wakers: Vec<Waker> = {
            let mut state = self.state();
            state.now += by.as_nanos() as u64;
            let now = state.now;
            let due: Vec<u64> =
                state.sleepers.iter().filter(|(_, (at, _))| *at <= now).map(|(sleep, _)| *sleep).collect();
            due.iter().filter_map(|sleep| state.sleepers.remove(sleep)).map(|(_, waker)| waker).collect()
        };
        due_wakers.into_iter().for_each(Waker::wake);
    }

    /// Breaks all connections to a node.
    pub fn cut_connections(&self, node: usize) {
        self.nodes[node].push(NodeMessage::CutConnections);
    }

    /// Lets shuttle switch threads a random number of times, fewer than `max_steps`.
    pub fn pause(&self, max_steps: u64) {
        for _ in 0..self.random() % max_steps {
            may_switch_threads();
        }
    }

    /// Moves the time step by step until all tasks of clients have ended.
    fn wait_for_tasks(&self) {
        for _ in 0..TIME_STEPS_MAX {
            if self.state().open_tasks == 0 {
                return;
            }
            // Messages in flight arrive before time moves on.
            (0..THREAD_SWITCHES).for_each(|_| thread::yield_now());
            self.advance_time(Duration::from_millis(10));
        }
        panic!("{} tasks of clients never end", self.state().open_tasks);
    }

    fn node_time(&self) -> NodeTime {
        NodeTime::wall(NODE_CLOCK_START_MICROS + self.state().now / 1_000)
    }

    fn random(&self) -> u64 {
        self.state().rng.bits()
    }

    /// Locks the mutex of the state. A caller must unlock it before a point where threads may switch.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Implements the library's platform interface with the cluster.
struct SimulatedPlatform(Arc<Cluster>);

impl World for SimulatedPlatform {
    fn now(&self) -> u64 {
        self.0.state().now
    }

    fn raw(&self) -> u64 {
        self.now()
    }

    fn wall(&self) -> u64 {
        self.now()
    }

    fn wall_at(&self, nanos: u64) -> u64 {
        nanos
    }

    fn bits(&self) -> u64 {
        self.0.random()
    }

    fn spawn(&self, task: Task) {
        let cluster = Arc::clone(&self.0);
        cluster.state().open_tasks += 1;
        shuttle::future::spawn(async move {
            task.await;
            cluster.state().open_tasks -= 1;
        });
    }

    fn wake_at(&self, nanos: u64, waker: Waker) -> u64 {
        let (sleep, is_short) = {
            let mut state = self.0.state();
            state.sleep_count += 1;
            let sleep = state.sleep_count;
            state.sleepers.insert(sleep, (nanos, waker));
            (sleep, nanos <= state.now + SHORT_SLEEP_NANOS_MAX)
        };
        if is_short {
            self.0.short_sleeps.push(Some(sleep));
        }
        sleep
    }

    fn forget(&self, sleep: u64) {
        self.0.state().sleepers.remove(&sleep);
    }

    fn connect(&self, node: usize, ear: Ear) -> u64 {
        let connection = {
            let mut state = self.0.state();
            state.connections.push(node);
            state.connections.len() - 1
        };
        self.0.nodes[node].push(NodeMessage::Connect(connection as u64, ear));
        connection as u64
    }

    fn ask(&self, connection: u64, question: Question) {
        self.send_to_node_of(connection, NodeMessage::Ask(connection, question));
    }

    fn hang_up(&self, connection: u64) {
        self.send_to_node_of(connection, NodeMessage::HangUp(connection));
    }
}

impl SimulatedPlatform {
    fn send_to_node_of(&self, connection: u64, message: NodeMessage) {
        let node = self.0.state().connections[connection as usize];
        self.0.nodes[node].push(message);
    }
}

/// Cancels a future from another thread. Its state is whether [`cancel`](Self::cancel) was called, and the waker of the
/// task that waits for the future.
#[derive(Default)]
pub struct Canceller(Mutex<(bool, Option<Waker>)>);

impl Canceller {
    /// Cancels the future.
    pub fn cancel(&self) {
        may_switch_threads();
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits for the future. Returns `None` if [`cancel`](Self::cancel) is called first.
    ///
    /// # Cancel safety
    /// Dropping the returned future drops `future`.
    pub async fn unless_cancelled<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            if let Poll::Ready(done) = future.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            may_switch_threads();
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.1 = Some(context.waker().clone());
            if state.0 { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}
