//! Clusters whose leases outlast every wait of a test: a key that disappears was released, and cannot have expired.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, Fence, NodeVote, Silence, Tally};
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use super::observe::trouble;

/// Longer than any wait of a test.
pub const LONG: Duration = Duration::from_secs(120);
/// The node deadline of these clients: longer than [`soon`] waits, so that a test that waits for a dead node fails.
const PATIENT: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(30);
/// The timeout for closing a client: longer than links need to reconnect to nodes that are back.
pub const DRAINING: Duration = Duration::from_secs(30);

/// Real servers, each behind a proxy.
pub struct Wired {
    pub servers: Vec<RedisServer>,
    pub proxies: Vec<Proxy>,
}

impl Wired {
    /// Starts servers, and initializes a cluster with long leases.
    pub async fn ready(nodes: usize) -> Self {
        Self::over(RedisServer::start_many(nodes)).await
    }

    /// Initializes a cluster of these servers with long leases.
    pub async fn over(servers: Vec<RedisServer>) -> Self {
        let proxies = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let cluster = Self { servers, proxies };
        cluster.direct().init_cluster().await.expect("a new cluster can be declared");
        cluster
    }

    /// A builder for clients that bypass the proxies.
    pub fn direct(&self) -> ClientBuilder {
        builder().nodes(self.servers.iter().map(RedisServer::url))
    }

    /// A builder for clients that go through the proxies.
    pub fn builder(&self) -> ClientBuilder {
        self.direct().nodes(self.proxies.iter().map(Proxy::url))
    }

    /// The lock keys on each node.
    pub fn standing(&self) -> Vec<Vec<String>> {
        self.servers.iter().map(super::lock_keys).collect()
    }

    /// Waits until a lock's key is on exactly these nodes.
    pub async fn stands_on(&self, key: &str, nodes: &[usize]) {
        let there = |node: &usize| self.servers[*node].command(&["EXISTS", key]).as_int() == Some(1);
        let all: Vec<usize> = (0..self.servers.len()).collect();
        let what = format!("{key} to stand on the nodes {nodes:?}");
        eventually_async(&what, async || all.iter().filter(|node| there(node)).eq(nodes)).await;
    }

    /// Waits until no node has a lock key.
    pub async fn cleared(&self) {
        eventually_async("all locks to be gone", async || self.standing().concat().is_empty()).await;
    }

    /// Closes the client, which must deliver all its releases, and checks once that no lock key is left.
    pub async fn drained(&self, client: Client) {
        client.close(DRAINING).await.expect("all nodes are back: everything owed can be delivered");
        assert_eq!(self.standing().concat(), Vec::<String>::new(), "left behind by a client that owes nothing");
    }
}

/// A builder with long timeouts.
pub fn builder() -> ClientBuilder {
    super::builder().ttl(LONG).max_ttl(LONG).node_deadline(PATIENT)
}

/// A client whose nodes can all vote.
pub async fn connected(builder: ClientBuilder) -> Client {
    let client = builder.connect_lazy().await.expect("the cluster is fit");
    voting(&client).await;
    client
}

/// Waits until all nodes of a client can vote.
pub async fn voting(client: &Client) {
    eventually_async("all nodes to vote", async || client.nodes().iter().all(|(_, trouble)| trouble.is_none())).await;
}

/// Waits until a client reports a matching silence of a node, and returns it.
pub async fn noticed(client: &Client, node: usize, fits: impl Fn(&Silence) -> bool) -> Silence {
    let mut found = None;
    eventually_async(&format!("the trouble with node {node} to be noticed"), async || {
        found = trouble(client, node).filter(|why| fits(why));
        found.is_some()
    })
    .await;
    found.expect("waited for")
}

/// Waits for work that must not wait for nodes that do not reply.
pub async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.expect("this must not wait for nodes that do not answer")
}

/// Acquires, extends and releases, without waiting for nodes that do not reply.
pub async fn take_a_turn(client: &Client, name: &str) -> Fence {
    let lease = soon(client.lock(name).acquire()).await.expect("a majority can vote");
    soon(lease.extend()).await.expect("a majority can renew");
    let fence = lease.fence().expect("it is held");
    soon(lease.release()).await.expect("a majority can acknowledge");
    fence
}

/// The nodes of a tally that are not able to vote.
pub fn missing(tally: &Tally) -> Vec<&str> {
    let is_missing = |vote: &NodeVote| !matches!(vote, NodeVote::Granted | NodeVote::Silent(Silence::Unheard));
    tally.by_node().filter(|(_, vote)| is_missing(vote)).map(|(node, _)| node).collect()
}

/// The count of each server.
pub fn each(servers: &[RedisServer], count: fn(&RedisServer) -> u64) -> Vec<u64> {
    servers.iter().map(count).collect()
}

/// Waits until each server has counted at least `by` more.
pub async fn more(servers: &[RedisServer], count: fn(&RedisServer) -> u64, before: &[u64], by: u64) {
    let has_more = || servers.iter().zip(before).all(|(server, before)| count(server) >= before + by);
    eventually_async("the servers to have done more", async || has_more()).await;
}

/// The number of acquires and renewals that a server has executed: only these begin with an MGET.
pub fn votes(server: &RedisServer) -> u64 {
    calls(server, ["mget"])[0]
}

/// The number of releases that a server has executed: each has one GET; node commands have as many GETs as HMGETs.
pub fn releases(server: &RedisServer) -> u64 {
    let [gets, node_commands] = calls(server, ["get", "hmget"]);
    gets - node_commands
}

fn calls<const N: usize>(server: &RedisServer, commands: [&str; N]) -> [u64; N] {
    let info = server.command(&["INFO", "commandstats"]);
    let text = info.as_str().expect("INFO answers with text");
    commands.map(|command| {
        let start = format!("cmdstat_{command}:calls=");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.map_or(0, |line| line.split(',').next().and_then(|count| count.parse().ok()).expect("a number of calls"))
    })
}
