//! The kinds of node, and clients for them that know nothing of each other.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, Lease, MemoryNodes, Retry};
use quorlock_testkit::RedisServer;
use tempfile::TempDir;

use crate::common;
pub(crate) use crate::common::long::LONG;

/// What to run on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Memory(usize),
    Sqlite,
    Redis(usize),
}

/// Nodes that are up and ready to vote.
pub(crate) struct Backend {
    nodes: Nodes,
    count: usize,
}

enum Nodes {
    Memory(MemoryNodes),
    Sqlite(TempDir),
    Redis(Vec<RedisServer>),
}

impl Backend {
    /// Starts the nodes and lets them vote at once.
    pub(crate) async fn start(kind: Kind) -> Self {
        let (nodes, count) = match kind {
            Kind::Memory(count) => (Nodes::Memory(MemoryNodes::new(count)), count),
            Kind::Sqlite => (Nodes::Sqlite(tempfile::tempdir().unwrap()), 1),
            Kind::Redis(count) => (Nodes::Redis(RedisServer::start_many(count)), count),
        };
        let backend = Self { nodes, count };
        backend.client().await.init_cluster().await.unwrap();
        backend
    }

    /// A builder for leases that outlast the test, and retries that do not hold it up.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let retry = Retry { min: Duration::from_millis(1), max: Duration::from_millis(20), attempts: None };
        let builder =
            common::builder().ttl(LONG).max_ttl(LONG).node_deadline(Duration::from_secs(10)).retry(retry).label("us");
        match &self.nodes {
            Nodes::Memory(nodes) => builder.memory(nodes),
            Nodes::Sqlite(folder) => builder.nodes([format!("sqlite:{}", folder.path().join("locks").display())]),
            Nodes::Redis(servers) => builder.nodes(servers.iter().map(RedisServer::url)),
        }
    }

    /// A client with connections of its own.
    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.unwrap()
    }

    /// Two clients that compete.
    pub(crate) async fn rivals(&self) -> (Client, Client) {
        tokio::join!(self.client(), self.client())
    }

    /// How many nodes there are, and how many of them decide.
    pub(crate) fn quorum(&self) -> (usize, usize) {
        (self.count, self.count / 2 + 1)
    }

    /// What locks have left on the nodes, where that can be seen from outside.
    pub(crate) fn traces(&self) -> Vec<String> {
        let Nodes::Redis(servers) = &self.nodes else { return Vec::new() };
        let is_of_a_lock = |key: &String| !["quorlock~epoch", "quorlock~meta"].contains(&key.as_str());
        servers.iter().flat_map(|server| server.keys("*")).filter(is_of_a_lock).collect()
    }
}

/// Waits for a lock that is about to be given back: by itself it would outlast the test.
pub(crate) async fn takes_over(client: &Client, name: &str) -> Lease {
    client.lock(name).acquire().await.unwrap()
}

/// Makes sure that somebody else holds the lock.
pub(crate) async fn is_held(client: &Client, name: &str) {
    assert!(client.lock(name).try_acquire().await.unwrap().is_none(), "{name} is free");
}

/// Makes sure that nobody holds the lock, without a wait.
pub(crate) async fn is_free(client: &Client, name: &str) {
    assert!(client.lock(name).try_acquire().await.unwrap().is_some(), "{name} is held");
}
