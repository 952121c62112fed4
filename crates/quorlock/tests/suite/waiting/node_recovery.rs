//! Nodes and links that recover while a client waits.

use quorlock::{AcquireError, Retry};
use quorlock_testkit::{Proxy, eventually_async};

use super::waiters::{Waiter, queue_lengths, wait_for_queue_length};
use crate::common::Cluster;
use crate::common::long_timeouts::{ProxiedCluster, connect_to_all, expect_soon, wait_until_all_vote};
use crate::common::observe::wait_until_quarantined;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_queue_up_again_on_a_node_that_lost_its_memory() {
    let cluster = Cluster::start(3).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect_to_all(cluster.builder()).await);
    }
    let lease = clients[0].lock("job").acquire().await.expect("the lock is free");
    let first_waiter = Waiter::start_and_queue(clients[1].lock("job")).await;
    wait_for_queue_length(&cluster.servers, "job", 1).await;
    let second_waiter = Waiter::start_and_queue(clients[2].lock("job")).await;
    wait_for_queue_length(&cluster.servers, "job", 2).await;

    cluster.servers[0].restart_empty();
    wait_until_quarantined(&clients[1], 0).await;
    assert_eq!(queue_lengths(&cluster.servers[..1], "job"), [0]);
    // The restarted node may vote for the holder or the first waiter, but at least the second waiter must queue there
    // again.
    let has_queue = async || queue_lengths(&cluster.servers[..1], "job")[0] >= 1;
    eventually_async("a waiter to queue on the restarted node", has_queue).await;

    let fence = lease.fence().expect("a majority kept its memory");
    lease.release().await.expect("all nodes answer");
    let first_lease = first_waiter.expect_lease().await;
    assert!(!second_waiter.is_over(), "the second waiter overtook the first waiter");
    assert!(first_lease.fence().expect("the lease is held") > fence);
    first_lease.release().await.expect("all nodes answer");
    second_waiter.expect_lease().await.release().await.expect("all nodes answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_get_the_lock_while_a_node_that_lost_its_memory_is_quarantined() {
    let cluster = ProxiedCluster::start(3).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let lease = holder.lock("job").acquire().await.expect("the lock is free");
    let waiter = Waiter::start_and_queue(client.lock("job")).await;
    wait_for_queue_length(&cluster.servers, "job", 1).await;
    cluster.servers[0].restart_empty();
    wait_until_quarantined(&client, 0).await;
    expect_soon(lease.release()).await.expect("a majority answers");
    expect_soon(waiter.expect_lease().await.release()).await.expect("a majority answers");
}

/// During the release, no node can send a hint to the waiter, and the waiter does not poll. Only the reconnected links
/// can make the waiter try again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnected_link_makes_its_waiters_try_again_at_once() {
    const TRIES: usize = 10;
    let cluster = ProxiedCluster::start(3).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    let without_polls = Retry { attempts: Some(1), ..Retry::default() };
    for _ in 0..TRIES {
        let lease = expect_soon(holder.lock("job").acquire()).await.expect("the lock is free");
        let waiter = Waiter::start_and_queue(client.lock("job").retry(without_polls)).await;
        cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
        cluster.proxies.iter().for_each(Proxy::cut);
        // An inspection makes the client notice that its connections have ended, and open new connections. The proxies
        // hold the requests on the new connections.
        let inspection = client.inspect("job");
        let is_reconnected = |proxy: &Proxy| proxy.held_up() > 0;
        let reconnection =
            eventually_async("all links to reconnect", async || cluster.proxies.iter().all(is_reconnected));
        let (inspected, ()) = tokio::join!(inspection, reconnection);
        inspected.expect_err("the connections of the client have ended");
        expect_soon(lease.release()).await.expect("all nodes answer");
        cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
        match waiter.outcome().await {
            Ok(lease) => return lease.release().await.expect("all nodes answer"),
            // On a slow machine, the attempt of the waiter may end before the links have reconnected.
            Err(AcquireError::Held(_) | AcquireError::NoQuorum { .. }) => wait_until_all_vote(&client).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the reconnected links made no waiter try again in {TRIES} tries");
}
