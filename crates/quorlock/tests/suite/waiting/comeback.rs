//! Nodes and links that recover while a client waits.

use quorlock::{AcquireError, Retry};
use quorlock_testkit::{Proxy, eventually_async};

use super::queue::{Queued, queued, waiting};
use crate::common::Cluster;
use crate::common::long::{Wired, connected, soon, voting};
use crate::common::observe::quarantined;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_queue_up_again_on_a_node_that_lost_its_memory() {
    let cluster = Cluster::ready(3).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connected(cluster.builder()).await);
    }
    let lease = clients[0].lock("job").acquire().await.expect("the lock is free");
    let first = Queued::placed(clients[1].lock("job")).await;
    queued(&cluster.servers, "job", 1).await;
    let second = Queued::placed(clients[2].lock("job")).await;
    queued(&cluster.servers, "job", 2).await;

    cluster.servers[0].restart_empty();
    quarantined(&clients[1], 0).await;
    assert_eq!(waiting(&cluster.servers[..1], "job"), [0]);
    // The holder or the first waiter has its vote; the second waiter is queued on all three nodes again.
    let queued_again = async || waiting(&cluster.servers[..1], "job")[0] >= 1;
    eventually_async("the queue to stand again", queued_again).await;

    let fence = lease.fence().expect("a majority kept its memory");
    lease.release().await.expect("the nodes are there");
    let one = first.served().await;
    assert!(!second.is_over(), "the queue is the same as before");
    assert!(one.fence().expect("it is held") > fence);
    one.release().await.expect("the nodes are there");
    second.served().await.release().await.expect("the nodes are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_while_a_node_that_lost_its_memory_is_quarantined() {
    let cluster = Wired::ready(3).await;
    let holder = connected(cluster.direct()).await;
    let client = connected(cluster.direct()).await;
    let lease = holder.lock("job").acquire().await.expect("the lock is free");
    let waiter = Queued::placed(client.lock("job")).await;
    queued(&cluster.servers, "job", 1).await;
    cluster.servers[0].restart_empty();
    quarantined(&client, 0).await;
    soon(lease.release()).await.expect("a majority is there");
    soon(waiter.served().await.release()).await.expect("a majority is there");
}

/// The release happens while no node can notify the waiter, and the waiter does not poll: only the reconnected links
/// can make it ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnected_link_makes_the_waiter_ask_at_once() {
    const TRIES: usize = 10;
    let cluster = Wired::ready(3).await;
    let holder = connected(cluster.direct()).await;
    let client = connected(cluster.builder()).await;
    let hears_no_poll = Retry { attempts: Some(1), ..Retry::default() };
    for _ in 0..TRIES {
        let lease = soon(holder.lock("job").acquire()).await.expect("the lock is free");
        let waiter = Queued::placed(client.lock("job").retry(hears_no_poll)).await;
        cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
        cluster.proxies.iter().for_each(Proxy::cut);
        // An inspection finds that the connection has ended, and opens a new one, which gets no replies.
        let look = client.inspect("job");
        let is_back = |proxy: &Proxy| proxy.held_up() > 0;
        let all_back = eventually_async("the links to dial", async || cluster.proxies.iter().all(is_back));
        let (looked, ()) = tokio::join!(look, all_back);
        looked.expect_err("its connections have ended");
        soon(lease.release()).await.expect("the nodes are there");
        cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
        match waiter.outcome().await {
            Ok(lease) => return lease.release().await.expect("the nodes are there"),
            // On a slow machine the poll, which ends the wait, is quicker than the links.
            Err(AcquireError::Held(_) | AcquireError::NoQuorum { .. }) => voting(&client).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{TRIES} times a link came back and did not ask");
}
