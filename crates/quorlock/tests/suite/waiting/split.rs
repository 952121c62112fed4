//! Split votes: the waiter with the lowest ticket gets them.

use quorlock::{Client, ClientBuilder};
use quorlock_testkit::{Proxy, RedisServer, eventually_async};

use super::queue::{Queued, all_are_served};
use crate::common::lock_keys;
use crate::common::long::{Wired, builder, connected};

/// A client behind its own proxies.
struct Party {
    client: Client,
    proxies: Vec<Proxy>,
}

impl Party {
    async fn of(servers: &[RedisServer], builder: ClientBuilder) -> Self {
        let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let client = connected(builder.nodes(proxies.iter().map(Proxy::url))).await;
        Self { client, proxies }
    }

    /// Sends requests to all nodes, of which only these receive them.
    async fn ask(&self, servers: &[RedisServer], heard_by: &[usize]) -> Queued {
        for (node, proxy) in self.proxies.iter().enumerate() {
            proxy.hold(!heard_by.contains(&node));
        }
        let waiter = Queued::up(self.client.lock("job"));
        let voted = async || heard_by.iter().all(|node| !lock_keys(&servers[*node]).is_empty());
        eventually_async("a minority to vote", voted).await;
        let held = async || self.proxies.iter().filter(|proxy| proxy.held_up() > 0).count() == 5 - heard_by.len();
        eventually_async("the others to be asked", held).await;
        waiter
    }
}

/// Lets three clients split the votes of five nodes, then lets all messages through. Leases outlast every wait here, so
/// a client that is served got votes that the others yielded.
async fn split(parts: [&[usize]; 3]) {
    let cluster = Wired::ready(5).await;
    let mut parties = Vec::new();
    for _ in parts {
        parties.push(Party::of(&cluster.servers, builder()).await);
    }
    let mut waiters = Vec::new();
    for (party, part) in parties.iter().zip(parts) {
        waiters.push(party.ask(&cluster.servers, part).await);
    }
    for proxy in parties.iter().flat_map(|party| &party.proxies) {
        proxy.hold(false);
    }
    all_are_served(waiters).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_that_split_the_votes_are_served_in_turn() {
    split([&[0, 1], &[2, 3], &[4]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_three_yields_more_votes_than_the_first_has() {
    split([&[4], &[2, 3], &[0, 1]]).await;
}
