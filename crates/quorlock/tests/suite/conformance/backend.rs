//! The kinds of nodes, and independent clients for them.

use std::time::Duration;

use quorlock::{AcquireError, Client, ClientBuilder, Lease, MemoryNodes, Report, Retry};
use quorlock_testkit::{RedisCluster, RedisServer, Sentinels, eventually_async};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::common;
pub(crate) use crate::common::long::LONG;
use crate::common::long::connected;

/// Short enough to wait for its end, long enough to be acquired on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_millis(600);
/// Short enough to wait for a multiple of it, long enough to be renewed on a busy machine.
pub(crate) const BRISK: Duration = Duration::from_millis(2_500);

/// The kind of node, and the number of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Memory(usize),
    Sqlite,
    Redis(usize),
    Sentinel,
    Cluster,
}

/// Nodes that are ready to vote.
pub(crate) struct Backend {
    nodes: Nodes,
    count: usize,
}

enum Nodes {
    Memory(MemoryNodes),
    Sqlite(TempDir),
    Redis(Vec<RedisServer>),
    Sentinel(Box<Sentinels>),
    Cluster(RedisCluster),
}

impl Backend {
    /// Starts the nodes, and initializes the cluster.
    pub(crate) async fn start(kind: Kind) -> Self {
        let (nodes, count) = match kind {
            Kind::Memory(count) => (Nodes::Memory(MemoryNodes::new(count)), count),
            Kind::Sqlite => (Nodes::Sqlite(tempfile::tempdir().unwrap()), 1),
            Kind::Redis(count) => (Nodes::Redis(RedisServer::start_many(count)), count),
            Kind::Cluster => (Nodes::Cluster(RedisCluster::start(3)), 1),
            Kind::Sentinel => (Nodes::Sentinel(Box::new(Sentinels::builder().start())), 1),
        };
        let backend = Self { nodes, count };
        backend.builder().init_cluster().await.unwrap();
        backend
    }

    /// Deletes all data on the servers, and initializes them again.
    pub(crate) async fn empty(&self) {
        for server in self.servers() {
            assert_eq!(server.command(&["FLUSHALL"]).as_str(), Some("OK"));
        }
        self.builder().init_cluster().await.unwrap();
    }

    /// The Redis servers that hold the data.
    fn servers(&self) -> &[RedisServer] {
        match &self.nodes {
            Nodes::Redis(servers) => servers,
            Nodes::Sentinel(sentinels) => &sentinels.servers,
            Nodes::Cluster(cluster) => &cluster.masters,
            Nodes::Memory(_) | Nodes::Sqlite(_) => &[],
        }
    }

    /// A builder with leases that outlast the test, and short retries.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let retry = Retry { min: Duration::from_millis(1), max: Duration::from_millis(20), attempts: None };
        let builder =
            common::builder().ttl(LONG).max_ttl(LONG).node_deadline(Duration::from_secs(10)).retry(retry).label("us");
        match &self.nodes {
            Nodes::Memory(nodes) => builder.memory(nodes),
            Nodes::Sqlite(folder) => builder.nodes([format!("sqlite:{}", folder.path().join("locks").display())]),
            Nodes::Redis(servers) => builder.nodes(servers.iter().map(RedisServer::url)),
            Nodes::Cluster(cluster) => builder.nodes([cluster.url()]),
            Nodes::Sentinel(sentinels) => builder.nodes([sentinels.url()]),
        }
    }

    /// A client with its own connections to all nodes: `connect` waits only for a majority.
    pub(crate) async fn client(&self) -> Client {
        connected(self.builder()).await
    }

    /// Two clients that compete.
    pub(crate) async fn rivals(&self) -> (Client, Client) {
        tokio::join!(self.client(), self.client())
    }

    /// The number of nodes and of a majority.
    pub(crate) fn quorum(&self) -> (usize, usize) {
        (self.count, self.count / 2 + 1)
    }

    /// The keys of locks on Redis servers.
    pub(crate) fn traces(&self) -> Vec<String> {
        let is_of_a_lock = |key: &String| !key.ends_with("epoch") && !key.ends_with("meta");
        self.servers().iter().flat_map(|server| server.keys("*")).filter(is_of_a_lock).collect()
    }
}

/// Waits for a lock that is about to be released: without the release it would outlast the test.
pub(crate) async fn takes_over(client: &Client, name: &str) -> Lease {
    client.lock(name).acquire().await.unwrap()
}

/// Checks that another client holds the lock.
pub(crate) async fn is_held(client: &Client, name: &str) {
    assert!(client.lock(name).try_acquire().await.unwrap().is_none(), "{name} is free");
}

/// Checks, without waiting, that the lock is free, and leaves it free on every node.
pub(crate) async fn is_free(client: &Client, name: &str) {
    let lease = client.lock(name).try_acquire().await.unwrap();
    lease.unwrap_or_else(|| panic!("{name} is held")).release().await.unwrap();
    held_by(client, name, 0).await;
}

/// Waits until every node reports this: a majority decides, and the other nodes follow.
pub(crate) async fn everywhere(client: &Client, name: &str, what: &str, fits: impl Fn(&Report) -> bool) {
    eventually_async(&format!("{name} to be {what} on every node"), async || {
        let found = client.inspect(name).await.unwrap();
        found.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(&fits))
    })
    .await;
}

/// Waits until every node has this number of holders.
pub(crate) async fn held_by(client: &Client, name: &str, holds: u32) {
    let held = |report: &Report| report.held.as_ref().map_or(0, |held| held.holds);
    everywhere(client, name, &format!("held by {holds}"), |report| held(report) == holds).await;
}

/// Waits until every node has this number of waiters.
pub(crate) async fn queued_again(client: &Client, name: &str, waiting: u32) {
    everywhere(client, name, &format!("waited for by {waiting}"), |report| report.waiting == waiting).await;
}

/// Checks the number of waiters on every node without waiting, because an abandoned queue position expires anyway.
/// Links keep the order, so this comes after all earlier requests of the client.
pub(crate) async fn is_waited_for(client: &Client, name: &str, waiting: u32) {
    for (node, said) in client.inspect(name).await.unwrap().nodes {
        assert_eq!(said.unwrap().waiting, waiting, "waiting for {name} on {node}");
    }
}

/// Makes a client wait for a name, as number `place` in the queue on every node.
pub(crate) async fn queue<T: Send + 'static>(
    client: &Client,
    name: &str,
    place: u32,
    acquire: impl Future<Output = Result<T, AcquireError>> + Send + 'static,
) -> JoinHandle<T> {
    // A node that does not know the holder yet would grant a vote instead of a queue position.
    everywhere(client, name, "held", |report| report.held.is_some()).await;
    let task = tokio::spawn(async move { acquire.await.unwrap() });
    queued_again(client, name, place).await;
    task
}

/// Runs work for a client that then stops together with its runtime, without releasing anything.
pub(crate) async fn crash_after<T>(builder: ClientBuilder, work: impl AsyncFnOnce(&Client) -> T + Send + 'static) {
    let (done, crashed) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let kept = runtime.block_on(async {
            let client = builder.connect().await.unwrap();
            let kept = work(&client).await;
            (client, kept)
        });
        // Dropping them would release what they hold.
        std::mem::forget((runtime, kept));
        let _ = done.send(());
    });
    crashed.await.unwrap();
}
