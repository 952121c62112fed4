//! A network that loses and delays messages, and breaks connections. No reply counts as the reply to another request,
//! and no vote is left on a node.

use std::time::Duration;

use crate::common::long_timeouts::{
    CLOSE_TIMEOUT, ProxiedCluster, connect_to_all, counts, expect_soon, hold_once, release_count, vote_count,
    wait_for_silence, wait_until_all_vote, wait_until_counts_grow,
};
use quorlock::{AcquireError, Client, Lease, Silence};
use quorlock_testkit::{Proxy, eventually, eventually_async};

const ALL_NODES: [usize; 5] = [0, 1, 2, 3, 4];
const KEY: &str = "quorlock:job";

/// A node deadline that is short enough to wait for.
const SHORT_NODE_DEADLINE: Duration = Duration::from_millis(100);

/// Makes the proxy stop dropping replies, and makes the client reconnect. A TCP stream has no gaps, so the old
/// connection could not continue after a lost reply.
fn let_replies_through(proxy: &Proxy) {
    let connections_before = proxy.connections();
    proxy.refuse(true);
    proxy.cut();
    proxy.drop_replies(false);
    proxy.refuse(false);
    eventually("the client to reconnect", || proxy.connections() > connections_before);
}

/// Tries to acquire. The attempt must fail without a quorum.
async fn expect_no_quorum(client: &Client) {
    let outcome = client.lock("job").try_acquire().await;
    assert!(matches!(outcome, Err(AcquireError::NoQuorum { .. })), "{outcome:?}");
}

/// Strands the last request to this node: closes the connection of the client, and keeps the request in the proxy,
/// which can deliver it later.
fn strand(proxy: &Proxy) {
    eventually("the proxy to hold a request", || proxy.held_up() > 0);
    proxy.strand();
    proxy.hold(false);
}

/// Releases the lease, delivers the stranded request after the release, and checks that the stranded request leaves no
/// vote.
async fn release_before_the_stranded_request_arrives(
    cluster: &ProxiedCluster,
    client: &Client,
    lease: Lease,
    node: usize,
) {
    let server = &cluster.servers[node..=node];
    wait_until_all_vote(client).await;
    let releases_before = counts(server, release_count);
    expect_soon(lease.release()).await.expect("a majority acknowledges");
    wait_until_counts_grow(server, release_count, &releases_before, 1).await;
    let votes_before = counts(server, vote_count);
    cluster.proxies[node].deliver_stranded();
    wait_until_counts_grow(server, vote_count, &votes_before, 1).await;
    assert_eq!(cluster.lock_keys_by_node()[node], Vec::<String>::new(), "a stranded request left a vote");
    cluster.wait_until_unlocked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_leaves_no_vote_when_replies_are_late() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder().node_deadline(SHORT_NODE_DEADLINE)).await;
    for proxy in &cluster.proxies[..3] {
        proxy.hold(true);
    }
    expect_no_quorum(&client).await;
    for proxy in &cluster.proxies[..3] {
        proxy.hold(false);
    }
    wait_until_all_vote(&client).await;
    // The replies arrive after the deadline, but soon enough that the client keeps its connections.
    for proxy in &cluster.proxies {
        proxy.delay(SHORT_NODE_DEADLINE * 2);
    }
    for _ in 0..3 {
        // On a very slow machine, the deadline may pass late as well, so an attempt may succeed.
        drop(client.lock("job").try_acquire().await);
    }
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_leaves_no_vote_when_replies_are_lost() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder().node_deadline(SHORT_NODE_DEADLINE)).await;
    for proxy in &cluster.proxies[..3] {
        proxy.drop_replies(true);
    }
    eventually_async("a reply to be lost", async || {
        expect_no_quorum(&client).await;
        cluster.proxies[..3].iter().any(|proxy| proxy.dropped_down() > 0)
    })
    .await;
    cluster.wait_until_unlocked().await;
    cluster.proxies[..3].iter().for_each(let_replies_through);
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_reaches_the_node_whose_acquire_reply_was_lost() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder().node_deadline(SHORT_NODE_DEADLINE)).await;
    let (node, proxy) = (4, &cluster.proxies[4]);
    proxy.drop_replies(true);
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &ALL_NODES).await;
    drop(lease);
    cluster.wait_until_unlocked().await;

    // If the client has no connection to the node, the release waits for the next connection.
    let_replies_through(proxy);
    wait_until_all_vote(&client).await;
    proxy.drop_replies(true);
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &ALL_NODES).await;
    proxy.refuse(true);
    wait_for_silence(&client, node, |silence| matches!(silence, Silence::Broken(_) | Silence::Unreachable(_))).await;
    drop(lease);
    cluster.wait_for_key_on(KEY, &[node]).await;
    let_replies_through(proxy);
    cluster.wait_until_unlocked().await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_acquire_that_arrives_after_its_release_leaves_no_vote() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    cluster.proxies[4].hold(true);
    let lease = expect_soon(client.lock("job").acquire()).await.unwrap();
    strand(&cluster.proxies[4]);
    release_before_the_stranded_request_arrives(&cluster, &client, lease, 4).await;
    hold_once(&client, "job").await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_renewal_that_arrives_after_the_release_leaves_no_vote() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &ALL_NODES).await;
    cluster.proxies[4].hold(true);
    expect_soon(lease.extend()).await.unwrap();
    strand(&cluster.proxies[4]);
    release_before_the_stranded_request_arrives(&cluster, &client, lease, 4).await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_acquire_of_a_failed_attempt_leaves_no_vote() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    let stranding_proxies = &cluster.proxies[..3];
    stranding_proxies.iter().for_each(Proxy::strand_next_requests);
    expect_soon(expect_no_quorum(&client)).await;
    // The client sends the releases of the failed attempt on its next connections.
    client.close(CLOSE_TIMEOUT).await.expect("the nodes are reachable again");
    let votes_before = counts(&cluster.servers[..3], vote_count);
    stranding_proxies.iter().for_each(Proxy::deliver_stranded);
    wait_until_counts_grow(&cluster.servers[..3], vote_count, &votes_before, 1).await;
    assert_eq!(cluster.lock_keys_by_node().concat(), Vec::<String>::new(), "a stranded request left a vote");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_replaces_a_silent_connection() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder().node_deadline(SHORT_NODE_DEADLINE)).await;
    // The first client misses the reply to its acquire. The idle client misses only the replies to its heartbeats.
    let (proxy, idle_client) =
        (&cluster.proxies[4], connect_to_all(cluster.proxied_builder().node_deadline(SHORT_NODE_DEADLINE)).await);
    let connections_before = proxy.connections();
    proxy.hold(true);
    let lease = client.lock("job").acquire().await.unwrap();
    for client in [&client, &idle_client] {
        wait_for_silence(client, 4, |_| true).await;
    }
    eventually("both clients to reconnect", || proxy.connections() >= connections_before + 2);
    cluster.wait_for_key_on(KEY, &[0, 1, 2, 3]).await;
    proxy.hold(false);
    wait_until_all_vote(&client).await;
    wait_until_all_vote(&idle_client).await;
    // The extension adds the vote of the node that had not answered.
    eventually_async("an extension to succeed", async || lease.extend().await.is_ok()).await;
    cluster.wait_for_key_on(KEY, &ALL_NODES).await;
    drop(lease);
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_during_a_batch_leave_no_vote() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.proxied_builder()).await;
    for round in 1..=10 {
        // In odd rounds, the connections to two of the five nodes break; in even rounds, the connections to all five. A
        // node executes the last request on a connection, but the reply is lost.
        let proxies = if round % 2 == 1 { &cluster.proxies[3..] } else { &cluster.proxies[..] };
        for proxy in proxies {
            proxy.cut_after_requests(1 + round / 3);
        }
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let lock = client.lock(format!("job {number}"));
                tokio::spawn(async move {
                    let lease = expect_soon(lock.acquire()).await.expect("acquire retries until a majority votes");
                    let fence = lease.fence();
                    // Drop the lease instead of releasing it, so that nothing waits for the acknowledgement.
                    drop(lease);
                    fence
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().expect("the lease was held");
        }
    }
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_released_once_on_every_node() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    for name in ["released", "dropped"] {
        let counts_before = counts(&cluster.servers, release_count);
        let lease = client.lock(name).acquire().await.unwrap();
        cluster.wait_for_key_on(&format!("quorlock:{name}"), &[0, 1, 2]).await;
        if name == "released" {
            lease.release().await.unwrap();
        } else {
            drop(lease);
        }
        cluster.wait_until_unlocked().await;
        // A node executes requests in order. When it has a vote for another name, it has executed all requests for this
        // lease.
        let another_lease = client.lock("another").acquire().await.unwrap();
        cluster.wait_for_key_on("quorlock:another", &[0, 1, 2]).await;
        let counts_after = counts(&cluster.servers, release_count);
        assert_eq!(counts_after, counts_before.iter().map(|count| count + 1).collect::<Vec<_>>(), "{name}");
        another_lease.release().await.unwrap();
        cluster.wait_until_unlocked().await;
        wait_until_counts_grow(&cluster.servers, release_count, &counts_after, 1).await;
    }
    cluster.close_and_check(client).await;
}
