//! Split votes: if no client has a majority, all clients but the one with the lowest ticket yield their votes.

use quorlock::{Client, ClientBuilder};
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use super::waiters::{Waiter, expect_all_served};
use crate::common::lock_keys;
use crate::common::long_timeouts::{ProxiedCluster, builder, connect_to_all};

/// A client behind its own proxies.
struct ProxiedClient {
    client: Client,
    proxies: Vec<Proxy>,
}

impl ProxiedClient {
    async fn connect(servers: &[RedisServer], builder: ClientBuilder) -> Self {
        let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let client = connect_to_all(builder.nodes(proxies.iter().map(Proxy::url))).await;
        Self { client, proxies }
    }

    /// Starts to acquire. Only the nodes `voters` receive requests. The proxies hold the requests to the other nodes.
    async fn acquire_from(&self, servers: &[RedisServer], voters: &[usize]) -> Waiter {
        for (node, proxy) in self.proxies.iter().enumerate() {
            proxy.hold(!voters.contains(&node));
        }
        let waiter = Waiter::start(self.client.lock("job"));
        let have_voted = async || voters.iter().all(|node| !lock_keys(&servers[*node]).is_empty());
        eventually_async("the voters to vote", have_voted).await;
        let are_held = async || self.proxies.iter().filter(|proxy| proxy.held_up() > 0).count() == 5 - voters.len();
        eventually_async("the proxies to hold the other requests", are_held).await;
        waiter
    }
}

/// Three clients get the votes of these nodes, so that no client has a majority of the five nodes. Then all messages
/// arrive, and every client must get the lock. No vote expires during the test, so some clients must yield their votes.
async fn split_votes(voters_by_client: [&[usize]; 3]) {
    let cluster = ProxiedCluster::start(5).await;
    let mut clients = Vec::new();
    for _ in voters_by_client {
        clients.push(ProxiedClient::connect(&cluster.servers, builder()).await);
    }
    let mut waiters = Vec::new();
    for (client, voters) in clients.iter().zip(voters_by_client) {
        waiters.push(client.acquire_from(&cluster.servers, voters).await);
    }
    for proxy in clients.iter().flat_map(|client| &client.proxies) {
        proxy.hold(false);
    }
    expect_all_served(waiters).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_that_split_the_votes_all_get_the_lock() {
    split_votes([&[0, 1], &[2, 3], &[4]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_client_yields_more_votes_than_the_first_client_has() {
    split_votes([&[4], &[2, 3], &[0, 1]]).await;
}
