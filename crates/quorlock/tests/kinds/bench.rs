//! Nodes, and clients that take turns.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};
use quorlock::{Client, ClientBuilder, MemoryNodes, Report};
use quorlock_testkit::RedisServer;
use tokio::runtime::Runtime;

use crate::common::long::{builder, connected};

/// How many clients there are, each with connections of its own.
pub(crate) const CLIENTS: usize = 3;
/// A failing case is made smaller for no longer than this.
const SHRINKING_MILLIS_MAX: u32 = 20_000;

/// What to run on.
pub(crate) enum Nodes {
    Memory(MemoryNodes),
    Redis(Vec<RedisServer>),
}

impl Nodes {
    pub(crate) fn memory(count: usize) -> Self {
        Self::Memory(MemoryNodes::new(count))
    }

    pub(crate) fn redis(count: usize) -> Self {
        Self::Redis(RedisServer::start_many(count))
    }

    /// For leases that outlast the test: what is gone was given back.
    fn builder(&self) -> ClientBuilder {
        match self {
            Self::Memory(nodes) => builder().memory(nodes),
            Self::Redis(servers) => builder().nodes(servers.iter().map(RedisServer::url)),
        }
    }
}

/// Nodes that vote, and clients for them.
pub(crate) struct Bench {
    clients: Vec<Client>,
    cases: AtomicU64,
    runtime: Runtime,
    _nodes: Nodes,
}

impl Bench {
    pub(crate) fn open(nodes: Nodes) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let clients = runtime.block_on(async {
            nodes.builder().init_cluster().await.unwrap();
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(connected(nodes.builder()).await);
            }
            clients
        });
        Self { clients, cases: AtomicU64::new(0), runtime, _nodes: nodes }
    }

    /// Runs so many cases, each on names of its own.
    pub(crate) fn check<S: Strategy>(&self, cases: u32, strategy: &S, run: &impl AsyncFn(&Table<'_>, S::Value))
    where
        S::Value: Debug,
    {
        let shrinking = SHRINKING_MILLIS_MAX;
        let config = Config { cases, failure_persistence: None, max_shrink_time: shrinking, ..Config::default() };
        let run_one = |steps| {
            let case = self.cases.fetch_add(1, Ordering::Relaxed);
            self.runtime.block_on(run(&Table { clients: &self.clients, case }, steps));
            Ok(())
        };
        TestRunner::new(config).run(strategy, run_one).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// What one case plays with.
pub(crate) struct Table<'a> {
    clients: &'a [Client],
    case: u64,
}

impl Table<'_> {
    pub(crate) fn client(&self, number: usize) -> &Client {
        &self.clients[number]
    }

    /// A name that no other case has.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{name}/{}", self.case)
    }

    /// How a name stands on every node, once all that this client has asked for is done: links keep the order.
    pub(crate) async fn look(&self, client: usize, name: &str) -> Vec<Report> {
        let found = self.client(client).inspect(name).await.unwrap();
        found.nodes.into_iter().map(|(_, said)| said.unwrap()).collect()
    }
}
