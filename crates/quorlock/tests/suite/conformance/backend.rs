//! The clusters on which the checks run, and clients for them.

use std::time::Duration;

use quorlock::{AcquireError, Client, ClientBuilder, Lease, MemoryNodes, Report, Retry};
use quorlock_testkit::{RedisCluster, RedisServer, Sentinels, eventually_async};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::common;
pub(crate) use crate::common::long_timeouts::LONG;
use crate::common::long_timeouts::connect_to_all;

/// A ttl that is short enough to wait until it has passed, and long enough to acquire on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_millis(600);
/// A ttl that is short enough to wait for a few ttls, and long enough for renewals on a busy machine.
pub(crate) const MEDIUM: Duration = Duration::from_millis(2_500);

/// The kind of node and, if it can vary, the number of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeKind {
    Memory(usize),
    Sqlite,
    Redis(usize),
    Sentinel,
    RedisCluster,
}

/// A cluster of nodes that can vote.
pub(crate) struct Backend {
    nodes: Nodes,
    count: usize,
}

enum Nodes {
    Memory(MemoryNodes),
    Sqlite(TempDir),
    Redis(Vec<RedisServer>),
    Sentinel(Box<Sentinels>),
    RedisCluster(RedisCluster),
}

impl Backend {
    /// Starts the nodes, and initializes the cluster.
    pub(crate) async fn start(kind: NodeKind) -> Self {
        let (nodes, count) = match kind {
            NodeKind::Memory(count) => (Nodes::Memory(MemoryNodes::new(count)), count),
            NodeKind::Sqlite => (Nodes::Sqlite(tempfile::tempdir().unwrap()), 1),
            NodeKind::Redis(count) => (Nodes::Redis(RedisServer::start_many(count)), count),
            NodeKind::RedisCluster => (Nodes::RedisCluster(RedisCluster::start(3)), 1),
            NodeKind::Sentinel => (Nodes::Sentinel(Box::new(Sentinels::builder().start())), 1),
        };
        let backend = Self { nodes, count };
        backend.builder().init_cluster().await.unwrap();
        backend
    }

    /// Deletes all data on the servers, and initializes the cluster again.
    pub(crate) async fn empty(&self) {
        for server in self.servers() {
            assert_eq!(server.command(&["FLUSHALL"]).as_str(), Some("OK"));
        }
        self.builder().init_cluster().await.unwrap();
    }

    /// The Redis servers that store the votes.
    fn servers(&self) -> &[RedisServer] {
        match &self.nodes {
            Nodes::Redis(servers) => servers,
            Nodes::Sentinel(sentinels) => &sentinels.servers,
            Nodes::RedisCluster(cluster) => &cluster.masters,
            Nodes::Memory(_) | Nodes::Sqlite(_) => &[],
        }
    }

    /// A builder with a ttl that is longer than any check takes, and with short delays between retries.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let retry = Retry { min: Duration::from_millis(1), max: Duration::from_millis(20), attempts: None };
        let builder = common::builder()
            .ttl(LONG)
            .max_ttl(LONG)
            .node_deadline(Duration::from_secs(10))
            .retry(retry)
            .label("the client");
        match &self.nodes {
            Nodes::Memory(nodes) => builder.memory(nodes),
            Nodes::Sqlite(folder) => builder.nodes([format!("sqlite:{}", folder.path().join("locks").display())]),
            Nodes::Redis(servers) => builder.nodes(servers.iter().map(RedisServer::url)),
            Nodes::RedisCluster(cluster) => builder.nodes([cluster.url()]),
            Nodes::Sentinel(sentinels) => builder.nodes([sentinels.url()]),
        }
    }

    /// A client that is connected to all nodes. `connect` alone waits only for a majority.
    pub(crate) async fn client(&self) -> Client {
        connect_to_all(self.builder()).await
    }

    /// Two competing clients, which the checks call `our_client` and `their_client`.
    pub(crate) async fn rivals(&self) -> (Client, Client) {
        tokio::join!(self.client(), self.client())
    }

    /// The number of nodes, and the size of a majority.
    pub(crate) fn quorum(&self) -> (usize, usize) {
        (self.count, self.count / 2 + 1)
    }

    /// All keys on the Redis servers, except for the keys with the state of the node.
    pub(crate) fn lock_keys(&self) -> Vec<String> {
        let is_about_lock = |key: &String| !key.ends_with("epoch") && !key.ends_with("meta");
        self.servers().iter().flat_map(|server| server.keys("*")).filter(is_about_lock).collect()
    }
}

/// Acquires a lock that is free or is released soon. If the lock is not released, the test fails, because its lease
/// outlasts the test.
pub(crate) async fn take_over(client: &Client, name: &str) -> Lease {
    client.lock(name).acquire().await.unwrap()
}

/// Checks that another client holds the lock.
pub(crate) async fn assert_held(client: &Client, name: &str) {
    assert!(client.lock(name).try_acquire().await.unwrap().is_none(), "{name} is free");
}

/// Checks, without waiting, that the lock is free. The lock is free on every node afterwards.
pub(crate) async fn assert_free(client: &Client, name: &str) {
    let lease = client.lock(name).try_acquire().await.unwrap();
    lease.unwrap_or_else(|| panic!("{name} is held")).release().await.unwrap();
    wait_for_holders(client, name, 0).await;
}

/// Waits until `is_match` returns true for the reports of all nodes. A request returns when a majority has answered, so
/// the other nodes may execute it later.
pub(crate) async fn wait_for_all_nodes(client: &Client, name: &str, state: &str, is_match: impl Fn(&Report) -> bool) {
    eventually_async(&format!("{name} to be {state} on every node"), async || {
        let inspection = client.inspect(name).await.unwrap();
        inspection.nodes.iter().all(|(_, report)| report.as_ref().is_ok_and(&is_match))
    })
    .await;
}

/// Waits until every node reports this number of holders.
pub(crate) async fn wait_for_holders(client: &Client, name: &str, count: u32) {
    let holders = |report: &Report| report.held.as_ref().map_or(0, |held| held.holds);
    wait_for_all_nodes(client, name, &format!("held by {count}"), |report| holders(report) == count).await;
}

/// Waits until every node reports this number of waiters.
pub(crate) async fn wait_for_waiters(client: &Client, name: &str, count: u32) {
    wait_for_all_nodes(client, name, &format!("waited for by {count}"), |report| report.waiting == count).await;
}

/// Checks the number of waiters on every node. Does not wait for this number, because an abandoned queue position could
/// expire meanwhile. Links keep the order of requests, so the nodes have executed all earlier requests of this client.
pub(crate) async fn assert_waiters(client: &Client, name: &str, count: u32) {
    for (node, report) in client.inspect(name).await.unwrap().nodes {
        assert_eq!(report.unwrap().waiting, count, "the number of waiters for {name} on {node}");
    }
}

/// Runs an acquire in a task, and waits until `observer` sees `position` waiters on every node. The last of them is
/// this acquire. Any client can be the observer.
pub(crate) async fn enqueue<T: Send + 'static>(
    observer: &Client,
    name: &str,
    position: u32,
    acquire: impl Future<Output = Result<T, AcquireError>> + Send + 'static,
) -> JoinHandle<T> {
    // A node that does not have the vote of the holder yet would grant its vote instead of a queue position.
    wait_for_all_nodes(observer, name, "held", |report| report.held.is_some()).await;
    let task = tokio::spawn(async move { acquire.await.unwrap() });
    wait_for_waiters(observer, name, position).await;
    task
}

/// Runs `work` with a client, and then crashes the client: the client and its runtime stop, and release nothing.
pub(crate) async fn crash_after<T>(builder: ClientBuilder, work: impl AsyncFnOnce(&Client) -> T + Send + 'static) {
    let (crash, crashed) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let leaked = runtime.block_on(async {
            let client = builder.connect().await.unwrap();
            let result = work(&client).await;
            (client, result)
        });
        // Dropping the client or its leases would release the leases.
        std::mem::forget((runtime, leaked));
        let _ = crash.send(());
    });
    crashed.await.unwrap();
}
