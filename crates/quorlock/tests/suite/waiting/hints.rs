//! Hints shorten a wait, but waiters get the lock without hints, too.

use quorlock::{AcquireError, Client, ClientBuilder, Lock, Retry};
use quorlock_testkit::{Proxy, RedisServer};

use super::waiters::{Waiter, expect_all_served, wait_for_queue_length};
use crate::common::Cluster;
use crate::common::long_timeouts::{ProxiedCluster, connect_to_all, expect_soon};

/// A lock whose waiters never poll: they get the lock only if they receive a hint.
fn lock_without_polls(client: &Client) -> Lock {
    client.lock("job").retry(Retry { attempts: Some(1), ..Retry::default() })
}

/// The runtime has one thread, so the test can release after any number of steps of the acquire. The test tries every
/// number of steps.
#[tokio::test]
async fn a_waiter_notices_a_release_at_any_step_of_its_acquire() {
    const HANDOFFS: usize = 200;
    const STEPS: usize = 40;
    let cluster = ProxiedCluster::start(3).await;
    let clients = [connect_to_all(cluster.direct_builder()).await, connect_to_all(cluster.direct_builder()).await];
    let mut lease = clients[1].lock("job").acquire().await.expect("the lock is free");
    let mut unnoticed = 0;
    for handoff in 0..HANDOFFS {
        let waiting_client = &clients[handoff % 2];
        let next_waiter = Waiter::start(lock_without_polls(waiting_client));
        for _ in 0..handoff % STEPS {
            tokio::task::yield_now().await;
        }
        expect_soon(lease.release()).await.expect("all nodes answer");
        lease = match next_waiter.outcome().await {
            Ok(lease) => lease,
            Err(AcquireError::Held(_)) => {
                unnoticed += 1;
                // If the machine stalls for a second, some hints arrive too late.
                assert!(unnoticed * 10 <= HANDOFFS, "the waiters did not notice {unnoticed} of {handoff} releases");
                expect_soon(waiting_client.lock("job").acquire()).await.expect("the lock is free")
            }
            Err(error) => panic!("{error}"),
        };
    }
    let hints: u64 = clients.iter().map(|client| client.stats().hints).sum();
    println!("{HANDOFFS} handoffs, {hints} hints, {unnoticed} releases that the waiter did not notice in time");
    // Most waiters were queued before the release, so a majority of the nodes sent them hints.
    assert!(hints >= HANDOFFS as u64, "{hints} hints for {HANDOFFS} handoffs");
}

/// Three clients wait behind a holder, and all of them get the lock. Returns the clients.
async fn serve_three_waiters(builder: impl Fn() -> ClientBuilder, servers: &[RedisServer]) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect_to_all(builder()).await);
    }
    let lease = expect_soon(clients[3].lock("job").acquire()).await.expect("the lock is free");
    let mut waiters = Vec::new();
    for (client, position) in clients[..3].iter().zip(1..) {
        waiters.push(Waiter::start_and_queue(client.lock("job")).await);
        wait_for_queue_length(servers, "job", position).await;
    }
    lease.release().await.expect("all nodes answer");
    expect_all_served(waiters).await;
    clients
}

/// The number of hints that the clients have received.
fn hint_count(clients: &[Client]) -> u64 {
    clients.iter().map(|client| client.stats().hints).sum()
}

/// Runs [`serve_three_waiters`] as a Redis user with these permissions. Returns the number of hints that the clients
/// received.
async fn hint_count_with_permissions(permissions: &[&str]) -> u64 {
    let cluster = Cluster::start(3).await;
    for server in &cluster.servers {
        let mut command = vec!["ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all"];
        command.extend(permissions);
        assert_eq!(server.command(&command).as_str(), Some("OK"));
    }
    let urls: Vec<String> =
        cluster.servers.iter().map(|server| format!("redis://limited:secret@{}", server.addr())).collect();
    hint_count(&serve_three_waiters(|| cluster.builder().nodes(&urls), &cluster.servers).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_without_channel_permissions() {
    assert_eq!(hint_count_with_permissions(&["resetchannels"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_without_publish_and_subscribe() {
    assert_eq!(hint_count_with_permissions(&["allchannels", "-publish", "-subscribe"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_without_publish() {
    assert_eq!(hint_count_with_permissions(&["allchannels", "-publish"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_all_permissions_receive_hints() {
    assert!(hint_count_with_permissions(&["allchannels"]).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_if_every_hint_is_lost() {
    let cluster = Cluster::start(3).await;
    let proxies: Vec<Proxy> = cluster.servers.iter().map(|server| Proxy::start(server.addr())).collect();
    for proxy in &proxies {
        proxy.drop_pushes(true);
    }
    let builder = || cluster.builder().nodes(proxies.iter().map(Proxy::url));
    let clients = serve_three_waiters(builder, &cluster.servers).await;
    assert_eq!(hint_count(&clients), 0);
    assert!(proxies.iter().all(|proxy| proxy.dropped_down() > 0), "every node has sent hints");
}
