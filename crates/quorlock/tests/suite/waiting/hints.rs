//! Hints shorten a wait, but nothing relies on them.

use quorlock::{AcquireError, Client, ClientBuilder, Lock, Retry};
use quorlock_testkit::{Proxy, RedisServer};

use super::queue::{Queued, all_are_served, queued};
use crate::common::Cluster;
use crate::common::long::{Wired, connected, soon};

/// A lock whose waiters give up instead of polling: only a hint serves them.
fn by_hints_only(client: &Client) -> Lock {
    client.lock("job").retry(Retry { attempts: Some(1), ..Retry::default() })
}

/// The runtime has one thread, so nothing moves between two steps, and counting through them puts the release into
/// every gap.
#[tokio::test]
async fn a_release_between_asking_and_listening_is_noticed() {
    const HANDOFFS: usize = 200;
    const STEPS: usize = 40;
    let cluster = Wired::ready(3).await;
    let clients = [connected(cluster.direct()).await, connected(cluster.direct()).await];
    let mut lease = clients[1].lock("job").acquire().await.expect("the lock is free");
    let mut late = 0;
    for turn in 0..HANDOFFS {
        let waiter = &clients[turn % 2];
        let next = Queued::up(by_hints_only(waiter));
        for _ in 0..turn % STEPS {
            tokio::task::yield_now().await;
        }
        soon(lease.release()).await.expect("the nodes are there");
        lease = match next.outcome().await {
            Ok(lease) => lease,
            Err(AcquireError::Held(_)) => {
                late += 1;
                // A machine that stalls for a second makes some hints late.
                assert!(late * 10 <= HANDOFFS, "{late} of {turn} releases were not heard of");
                soon(waiter.lock("job").acquire()).await.expect("it is free")
            }
            Err(error) => panic!("{error}"),
        };
    }
    let hints: u64 = clients.iter().map(|client| client.stats().hints).sum();
    println!("{HANDOFFS} handoffs, {hints} hints, {late} times none came before the poll");
    // Most waiters queued before the release, so a majority sent them hints.
    assert!(hints >= HANDOFFS as u64, "{hints} hints for {HANDOFFS} handoffs");
}

/// Three clients wait behind a holder, and all are served.
async fn three_are_served(builder: impl Fn() -> ClientBuilder, servers: &[RedisServer]) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connected(builder()).await);
    }
    let lease = soon(clients[3].lock("job").acquire()).await.expect("the lock is free");
    let mut waiters = Vec::new();
    for (client, place) in clients[..3].iter().zip(1..) {
        waiters.push(Queued::placed(client.lock("job")).await);
        queued(servers, "job", place).await;
    }
    lease.release().await.expect("the nodes are there");
    all_are_served(waiters).await;
    clients
}

fn heard(clients: &[Client]) -> u64 {
    clients.iter().map(|client| client.stats().hints).sum()
}

/// Runs clients as a user with only these permissions.
async fn served_as(rights: &[&str]) -> u64 {
    let cluster = Cluster::ready(3).await;
    for server in &cluster.servers {
        let mut command = vec!["ACL", "SETUSER", "shy", "on", ">secret", "~*", "+@all"];
        command.extend(rights);
        assert_eq!(server.command(&command).as_str(), Some("OK"));
    }
    let urls: Vec<String> =
        cluster.servers.iter().map(|server| format!("redis://shy:secret@{}", server.addr())).collect();
    heard(&three_are_served(|| cluster.builder().nodes(&urls), &cluster.servers).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_without_channel_permissions() {
    assert_eq!(served_as(&["resetchannels"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_without_publish_and_subscribe() {
    assert_eq!(served_as(&["allchannels", "-publish", "-subscribe"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_without_publish() {
    assert_eq!(served_as(&["allchannels", "-publish"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_arrive_with_all_permissions() {
    assert!(served_as(&["allchannels"]).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_if_every_hint_is_lost() {
    let cluster = Cluster::ready(3).await;
    let proxies: Vec<Proxy> = cluster.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    for proxy in &proxies {
        proxy.drop_pushes(true);
    }
    let builder = || cluster.builder().nodes(proxies.iter().map(Proxy::url));
    let clients = three_are_served(builder, &cluster.servers).await;
    assert_eq!(heard(&clients), 0);
    assert!(proxies.iter().all(|proxy| proxy.dropped_down() > 0), "hints were given by every node");
}
