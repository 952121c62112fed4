//! Clusters and clients whose ttl and node deadline are longer than any wait of a test. If a key of a lock disappears,
//! it was released or deleted, because it cannot have expired.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, Fence, NodeVote, Silence, Tally};
use quorlock_testkit::{DEADLINE, Proxy, RedisServer, eventually_async};

use super::observe::silence_of;

/// A ttl that is longer than any wait of a test.
pub const LONG: Duration = Duration::from_secs(120);
const _: () = assert!(LONG.as_secs() > DEADLINE.as_secs(), "a vote that was not released expires before a test fails");
/// The node deadline of these clients. It is longer than [`EXPECT_SOON_LIMIT`], so that [`expect_soon`] fails if the
/// client waits for a node that does not answer.
const NODE_DEADLINE: Duration = Duration::from_secs(60);
/// The time limit of [`expect_soon`].
const EXPECT_SOON_LIMIT: Duration = Duration::from_secs(30);
/// The timeout for closing a client: long enough to reconnect to the nodes and to deliver all releases.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Real servers that form a cluster, and a proxy for each server.
pub struct ProxiedCluster {
    pub servers: Vec<RedisServer>,
    pub proxies: Vec<Proxy>,
}

impl ProxiedCluster {
    /// Starts servers, and initializes them as a cluster with long leases.
    pub async fn start(nodes: usize) -> Self {
        Self::with_servers(RedisServer::start_many(nodes)).await
    }

    /// Initializes these servers as a cluster with long leases.
    pub async fn with_servers(servers: Vec<RedisServer>) -> Self {
        let proxies = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let cluster = Self { servers, proxies };
        cluster.direct_builder().init_cluster().await.expect("a new cluster can be initialized");
        cluster
    }

    /// A builder for clients that bypass the proxies.
    pub fn direct_builder(&self) -> ClientBuilder {
        builder().nodes(self.servers.iter().map(RedisServer::url))
    }

    /// A builder for clients that go through the proxies.
    pub fn proxied_builder(&self) -> ClientBuilder {
        self.direct_builder().nodes(self.proxies.iter().map(Proxy::url))
    }

    /// The keys of votes on each node.
    pub fn lock_keys_by_node(&self) -> Vec<Vec<String>> {
        self.servers.iter().map(super::lock_keys).collect()
    }

    /// Waits until these nodes have this key, and the other nodes do not have it.
    pub async fn wait_for_key_on(&self, key: &str, nodes: &[usize]) {
        let has_key = |node: &usize| self.servers[*node].command(&["EXISTS", key]).as_int() == Some(1);
        let all_nodes: Vec<usize> = (0..self.servers.len()).collect();
        let what = format!("exactly the nodes {nodes:?} to have the key {key}");
        eventually_async(&what, async || all_nodes.iter().filter(|node| has_key(node)).eq(nodes)).await;
    }

    /// Waits until no node has this key.
    pub async fn wait_until_deleted(&self, key: &str) {
        self.wait_for_key_on(key, &[]).await;
    }

    /// Waits until no node has a key of any lock.
    pub async fn wait_until_unlocked(&self) {
        eventually_async("all locks to be released", async || self.lock_keys_by_node().concat().is_empty()).await;
    }

    /// Closes the client, which delivers all its releases, and checks that no node has a vote any more.
    pub async fn close_and_check(&self, client: Client) {
        client.close(CLOSE_TIMEOUT).await.expect("all nodes are reachable again and accept the releases");
        assert_eq!(self.lock_keys_by_node().concat(), Vec::<String>::new(), "the client left keys behind");
    }
}

/// A builder with long timeouts.
pub fn builder() -> ClientBuilder {
    super::builder().ttl(LONG).max_ttl(LONG).node_deadline(NODE_DEADLINE)
}

/// Connects, and waits until all nodes of the client can vote.
pub async fn connect_to_all(builder: ClientBuilder) -> Client {
    let client = builder.connect_lazy().await.expect("no node is unfit");
    wait_until_all_vote(&client).await;
    client
}

/// Waits until all nodes of a client can vote.
pub async fn wait_until_all_vote(client: &Client) {
    eventually_async("all nodes to vote", async || client.nodes().iter().all(|(_, silence)| silence.is_none())).await;
}

/// Waits until the client reports a silence of a node for which `is_expected` returns true. Returns the silence.
pub async fn wait_for_silence(client: &Client, node: usize, is_expected: impl Fn(&Silence) -> bool) -> Silence {
    let mut silence = None;
    eventually_async(&format!("the client to report the silence of node {node}"), async || {
        silence = silence_of(client, node).filter(|silence| is_expected(silence));
        silence.is_some()
    })
    .await;
    silence.expect("the wait has set this value")
}

/// Awaits an operation that must not wait for nodes that do not answer.
pub async fn expect_soon<T>(operation: impl Future<Output = T>) -> T {
    tokio::time::timeout(EXPECT_SOON_LIMIT, operation)
        .await
        .expect("the operation does not wait for nodes that do not answer")
}

/// Acquires, extends and releases a lease, without waiting for nodes that do not answer. Returns the fence.
pub async fn hold_once(client: &Client, name: &str) -> Fence {
    let lease = expect_soon(client.lock(name).acquire()).await.expect("a majority can vote");
    expect_soon(lease.extend()).await.expect("a majority can renew");
    let fence = lease.fence().expect("the lease is held");
    expect_soon(lease.release()).await.expect("a majority can acknowledge");
    fence
}

/// The nodes of a tally that could not vote.
pub fn missing_nodes(tally: &Tally) -> Vec<&str> {
    let is_missing = |vote: &NodeVote| !matches!(vote, NodeVote::Granted | NodeVote::Silent(Silence::Unheard));
    tally.by_node().filter(|(_, vote)| is_missing(vote)).map(|(node, _)| node).collect()
}

/// The result of `count` for each server.
pub fn counts(servers: &[RedisServer], count: fn(&RedisServer) -> u64) -> Vec<u64> {
    servers.iter().map(count).collect()
}

/// Waits until the count of each server has grown by at least `growth`.
pub async fn wait_until_counts_grow(
    servers: &[RedisServer],
    count: fn(&RedisServer) -> u64,
    before: &[u64],
    growth: u64,
) {
    let have_grown = || servers.iter().zip(before).all(|(server, before)| count(server) >= before + growth);
    eventually_async("the counts of the servers to grow", async || have_grown()).await;
}

/// The number of acquires and renewals that a server has executed. Only their scripts call MGET, once.
pub fn vote_count(server: &RedisServer) -> u64 {
    call_counts(server, ["mget"])[0]
}

/// The number of releases that a server has executed. A release executes GET once. Only node commands execute GET as
/// well, and they execute HMGET as often as GET.
pub fn release_count(server: &RedisServer) -> u64 {
    let [gets, node_commands] = call_counts(server, ["get", "hmget"]);
    gets - node_commands
}

/// How often a server has executed each of these commands.
fn call_counts<const N: usize>(server: &RedisServer, commands: [&str; N]) -> [u64; N] {
    let info = server.command(&["INFO", "commandstats"]);
    let text = info.as_str().expect("INFO replies with text");
    commands.map(|command| {
        let prefix = format!("cmdstat_{command}:calls=");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.map_or(0, |line| {
            line.split(',').next().and_then(|count| count.parse().ok()).expect("the count is a number")
        })
    })
}
