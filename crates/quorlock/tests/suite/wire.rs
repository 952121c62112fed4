//! A network that loses, delays, strands and cuts messages: no reply is matched to a wrong request, and no granted vote
//! is left behind.

use std::time::Duration;

use crate::common::long_leases::{
    CLOSE_TIMEOUT, ProxiedCluster, connect_to_all, counts, wait_until_counts_grow, wait_for_silence, release_count, expect_soon, hold_once, vote_count, wait_until_all_vote,
};
use quorlock::{AcquireError, Client, Lease, Silence};
use quorlock_testkit::{Proxy, eventually, eventually_async};

const EVERYWHERE: [usize; 5] = [0, 1, 2, 3, 4];
const KEY: &str = "quorlock:job";

/// A node deadline that a test can wait for.
const SHORT: Duration = Duration::from_millis(100);

/// Lets replies through again, on a new connection: a TCP stream has no gaps.
fn let_replies_through(proxy: &Proxy) {
    let before = proxy.connections();
    proxy.refuse(true);
    proxy.cut();
    proxy.drop_replies(false);
    proxy.refuse(false);
    eventually("the client to come back", || proxy.connections() > before);
}

async fn fails_without_a_quorum(client: &Client) {
    let outcome = client.lock("job").try_acquire().await;
    assert!(matches!(outcome, Err(AcquireError::NoQuorum { .. })), "{outcome:?}");
}

/// Strands the last request to this node: the client's connection is closed, and the request is still in flight.
fn strand(proxy: &Proxy) {
    eventually("a request to be under way", || proxy.held_up() > 0);
    proxy.strand();
    proxy.hold(false);
}

/// Releases, lets the stranded request arrive after the release, and checks that it left no vote.
async fn release_before_the_stranded_request_arrives(cluster: &ProxiedCluster, client: &Client, lease: Lease, node: usize) {
    let server = &cluster.servers[node..=node];
    wait_until_all_vote(client).await;
    let before = counts(server, release_count);
    expect_soon(lease.release()).await.expect("a majority acknowledges");
    wait_until_counts_grow(server, release_count, &before, 1).await;
    let before = counts(server, vote_count);
    cluster.proxies[node].deliver_stranded();
    wait_until_counts_grow(server, vote_count, &before, 1).await;
    assert_eq!(cluster.lock_keys_by_node()[node], Vec::<String>::new(), "a ghost");
    cluster.wait_until_unlocked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_leaves_no_key_when_replies_are_late() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.builder().node_deadline(SHORT)).await;
    for proxy in &cluster.proxies[..3] {
        proxy.hold(true);
    }
    fails_without_a_quorum(&client).await;
    for proxy in &cluster.proxies[..3] {
        proxy.hold(false);
    }
    wait_until_all_vote(&client).await;
    // Slower than the deadline, but not slow enough to replace a connection: each node grants too late.
    for proxy in &cluster.proxies {
        proxy.delay(SHORT * 2);
    }
    for _ in 0..3 {
        // On a very slow machine the deadline may be late as well.
        drop(client.lock("job").try_acquire().await);
    }
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_leaves_no_key_when_replies_are_lost() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.builder().node_deadline(SHORT)).await;
    for proxy in &cluster.proxies[..3] {
        proxy.drop_replies(true);
    }
    eventually_async("an answer to be lost", async || {
        fails_without_a_quorum(&client).await;
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
    let client = connect_to_all(cluster.builder().node_deadline(SHORT)).await;
    let (deaf, proxy) = (4, &cluster.proxies[4]);
    proxy.drop_replies(true);
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
    drop(lease);
    cluster.wait_until_unlocked().await;

    // Once the link has given up on the node, the release waits for the next connection.
    let_replies_through(proxy);
    wait_until_all_vote(&client).await;
    proxy.drop_replies(true);
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
    proxy.refuse(true);
    wait_for_silence(&client, deaf, |why| matches!(why, Silence::Broken(_) | Silence::Unreachable(_))).await;
    drop(lease);
    cluster.wait_for_key_on(KEY, &[deaf]).await;
    let_replies_through(proxy);
    cluster.wait_until_unlocked().await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_acquire_after_its_release_leaves_no_vote() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.builder()).await;
    cluster.proxies[4].hold(true);
    let lease = expect_soon(client.lock("job").acquire()).await.unwrap();
    strand(&cluster.proxies[4]);
    release_before_the_stranded_request_arrives(&cluster, &client, lease, 4).await;
    hold_once(&client, "job").await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_renewal_after_its_release_leaves_no_vote() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
    cluster.proxies[4].hold(true);
    expect_soon(lease.extend()).await.unwrap();
    strand(&cluster.proxies[4]);
    release_before_the_stranded_request_arrives(&cluster, &client, lease, 4).await;
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_acquire_of_a_failed_attempt_leaves_no_vote() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.builder()).await;
    let stranded = &cluster.proxies[..3];
    stranded.iter().for_each(Proxy::strand_next_requests);
    expect_soon(fails_without_a_quorum(&client)).await;
    // Its releases are sent on the next connections.
    client.close(CLOSE_TIMEOUT).await.expect("the nodes are reachable again");
    let before = counts(&cluster.servers[..3], vote_count);
    stranded.iter().for_each(Proxy::deliver_stranded);
    wait_until_counts_grow(&cluster.servers[..3], vote_count, &before, 1).await;
    assert_eq!(cluster.lock_keys_by_node().concat(), Vec::<String>::new(), "a ghost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_replaced() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.builder().node_deadline(SHORT)).await;
    // One connection owes a reply; the other one only sends heartbeats.
    let (asked, idle) = (&cluster.proxies[4], connect_to_all(cluster.builder().node_deadline(SHORT)).await);
    let before = asked.connections();
    asked.hold(true);
    let lease = client.lock("job").acquire().await.unwrap();
    for client in [&client, &idle] {
        wait_for_silence(client, 4, |_| true).await;
    }
    eventually("both to try anew", || asked.connections() >= before + 2);
    cluster.wait_for_key_on(KEY, &[0, 1, 2, 3]).await;
    asked.hold(false);
    wait_until_all_vote(&client).await;
    wait_until_all_vote(&idle).await;
    // The renewal repairs the node that had not replied.
    eventually_async("a renewal in time", async || lease.extend().await.is_ok()).await;
    cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
    drop(lease);
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_during_a_batch_leave_nothing_behind() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.builder()).await;
    for turn in 1..=10 {
        // Two of five nodes at first, then all of them: after this many requests the reply is lost, although the node
        // has executed the request.
        let cut = if turn % 2 == 1 { &cluster.proxies[3..] } else { &cluster.proxies[..] };
        for proxy in cut {
            proxy.cut_after_requests(1 + turn / 3);
        }
        let turns: Vec<_> = (0..20)
            .map(|number| {
                let lock = client.lock(format!("job {number}"));
                tokio::spawn(async move {
                    let lease = expect_soon(lock.acquire()).await.expect("acquire retries until a majority votes");
                    let fence = lease.fence();
                    // Dropped, so that nothing waits for the acknowledgement.
                    drop(lease);
                    fence
                })
            })
            .collect();
        for turn in turns {
            turn.await.unwrap().expect("the lease was held");
        }
    }
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_released_once_on_every_node() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct()).await;
    for name in ["released", "dropped"] {
        let before = counts(&cluster.servers, release_count);
        let lease = client.lock(name).acquire().await.unwrap();
        cluster.wait_for_key_on(&format!("quorlock:{name}"), &[0, 1, 2]).await;
        if name == "released" {
            lease.release().await.unwrap();
        } else {
            drop(lease);
        }
        cluster.wait_until_unlocked().await;
        // Requests are executed in order: when those of the next lease have arrived, all requests of this lease have.
        let another = client.lock("another").acquire().await.unwrap();
        cluster.wait_for_key_on("quorlock:another", &[0, 1, 2]).await;
        let after = counts(&cluster.servers, release_count);
        assert_eq!(after, before.iter().map(|count| count + 1).collect::<Vec<_>>(), "{name}");
        another.release().await.unwrap();
        cluster.wait_until_unlocked().await;
        wait_until_counts_grow(&cluster.servers, release_count, &after, 1).await;
    }
    cluster.close_and_check(client).await;
}
