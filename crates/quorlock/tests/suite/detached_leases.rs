//! Detached leases on real servers: a majority decides, and a release leaves no vote on any node.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::long_timeouts::{
    CLOSE_TIMEOUT, ProxiedCluster, connect_to_all, counts, vote_count, wait_for_silence, wait_until_all_vote,
    wait_until_counts_grow,
};
use quorlock::{AcquireError, Client, DetachedLease, Lease, LeaseError, LostError, Released};
use quorlock_testkit::{Reply, eventually_async};

const KEY: &str = "quorlock:a";

/// A node deadline that a test can wait for, and that is long enough for a busy machine.
const SHORT_DEADLINE: Duration = Duration::from_millis(500);

async fn acquire_and_detach(client: &Client) -> DetachedLease {
    client.lock("a").acquire().await.unwrap().detach().unwrap()
}

/// A client with a short node deadline.
async fn impatient_client(cluster: &ProxiedCluster) -> Client {
    connect_to_all(cluster.direct_builder().node_deadline(SHORT_DEADLINE)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_minority_gets_the_release_later() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
    let lease = acquire_and_detach(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    cluster.servers[2].freeze();
    client.check(&lease).await.unwrap();
    client.extend(&lease).await.unwrap();
    assert_eq!(client.release(&lease).await, Ok(Released::StillHeld));
    cluster.servers[2].thaw();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    cluster.wait_until_deleted(KEY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_requests_fail_and_the_release_is_retried() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
    let lease = acquire_and_detach(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    for server in &cluster.servers[..2] {
        server.freeze();
    }
    assert!(matches!(client.check(&lease).await, Err(LeaseError::NoQuorum { tally, .. }) if tally.granted() == 1));
    assert!(matches!(client.extend(&lease).await, Err(LeaseError::NoQuorum { tally, .. }) if tally.granted() == 1));
    assert!(matches!(client.release(&lease).await, Err(LeaseError::NoQuorum { tally, .. }) if tally.granted() == 1));
    for server in &cluster.servers[..2] {
        server.thaw();
    }
    client.close(CLOSE_TIMEOUT).await.unwrap();
    cluster.wait_until_deleted(KEY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_does_not_restore_a_lost_vote() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
    let lease = acquire_and_detach(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    cluster.servers[0].command(&["DEL", KEY]);
    client.extend(&lease).await.unwrap();
    client.check(&lease).await.unwrap();
    cluster.wait_for_key_on(KEY, &[1, 2]).await;
    cluster.servers[1].command(&["DEL", KEY]);
    assert_eq!(client.check(&lease).await, Err(LeaseError::Lost(LostError::Removed)));
    cluster.wait_for_key_on(KEY, &[2]).await;
    assert_eq!(client.extend(&lease).await, Err(LeaseError::Lost(LostError::Removed)));
    // The failed extension releases the remaining vote.
    cluster.wait_until_deleted(KEY).await;
    assert_eq!(client.release(&lease).await, Ok(Released::AlreadyEnded));
}

/// Disconnects the client from these nodes, which it reaches through proxies.
async fn disconnect(cluster: &ProxiedCluster, client: &Client, nodes: &[usize]) {
    for &node in nodes {
        cluster.proxies[node].refuse(true);
        cluster.proxies[node].cut();
    }
    for &node in nodes {
        wait_for_silence(client, node, |_| true).await;
    }
}

/// Lets clients reconnect to these nodes through the proxies.
fn reconnect(cluster: &ProxiedCluster, nodes: &[usize]) {
    for &node in nodes {
        cluster.proxies[node].refuse(false);
    }
}

/// Acquires a lease of one of the four kinds that have a fence. All kinds lock the same name.
async fn acquire_kind(client: &Client, kind: usize) -> Result<Lease, AcquireError> {
    match kind {
        0 => client.lock("a").acquire().await,
        1 => client.reentrant("a").acquire().await,
        2 => client.rw("a").read().acquire().await,
        _ => client.semaphore("a", 2).acquire().await,
    }
}

/// Acquires a lease while only three of five nodes can grant it. Retries, because on a busy machine a grant may arrive
/// too late.
async fn acquire_from_bare_majority(client: &Client, kind: usize) -> Lease {
    let mut lease = None;
    eventually_async("a bare majority to grant", async || {
        lease = acquire_kind(client, kind).await.ok();
        lease.is_some()
    })
    .await;
    lease.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_bare_majority_is_repaired_on_the_other_nodes() {
    let cluster = ProxiedCluster::start(5).await;
    let our_client = connect_to_all(cluster.proxied_builder().node_deadline(SHORT_DEADLINE)).await;
    let their_client = impatient_client(&cluster).await;
    for kind in 0..4 {
        disconnect(&cluster, &our_client, &[3, 4]).await;
        let lease = acquire_from_bare_majority(&our_client, kind).await.detach().unwrap();
        cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
        reconnect(&cluster, &[3, 4]);
        cluster.wait_for_key_on(KEY, &[0, 1, 2, 3, 4]).await;
        wait_until_all_vote(&our_client).await;
        // After the repair, all five nodes have the vote, so the lease survives the failure of two nodes.
        for server in &cluster.servers[..2] {
            server.freeze();
        }
        // All three remaining nodes must reply in time. On a busy machine this may take several attempts.
        eventually_async("an extension to succeed", async || their_client.extend(&lease).await.is_ok()).await;
        eventually_async("a check to succeed", async || their_client.check(&lease).await.is_ok()).await;
        for server in &cluster.servers[..2] {
            server.thaw();
        }
        wait_until_all_vote(&their_client).await;
        wait_until_all_vote(&our_client).await;
        eventually_async("the release to succeed", async || their_client.release(&lease).await.is_ok()).await;
        cluster.wait_until_deleted(KEY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_overtakes_a_late_repair_leaves_no_vote() {
    let cluster = ProxiedCluster::start(3).await;
    let our_client = connect_to_all(cluster.proxied_builder().node_deadline(SHORT_DEADLINE)).await;
    let their_client = impatient_client(&cluster).await;
    let last_server = &cluster.servers[2..];
    for kind in 0..4 {
        last_server[0].command(&["SET", KEY, "another program's"]);
        let lease = acquire_from_bare_majority(&our_client, kind).await.detach().unwrap();
        let counts_before = counts(last_server, vote_count);
        cluster.proxies[2].hold(true);
        last_server[0].command(&["DEL", KEY]);
        eventually_async("a repair request to be held by the proxy", async || cluster.proxies[2].held_up() > 0).await;
        their_client.release(&lease).await.unwrap();
        cluster.wait_until_deleted(KEY).await;
        eventually_async("the last node to have the tombstone", async || {
            last_server[0].keys("quorlock~done:*").len() > kind
        })
        .await;
        cluster.proxies[2].hold(false);
        wait_until_counts_grow(last_server, vote_count, &counts_before, 1).await;
        cluster.wait_until_deleted(KEY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_extensions_do_not_extend_the_votes_of_a_minority() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
    let lease = acquire_and_detach(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    for server in &cluster.servers[..2] {
        server.freeze();
    }
    assert!(matches!(client.extend(&lease).await, Err(LeaseError::NoQuorum { .. })));
    cluster.servers[2].command(&["PEXPIRE", KEY, "60000"]);
    let remaining_ms = || cluster.servers[2].command(&["PTTL", KEY]).as_int().unwrap();
    for _ in 0..3 {
        assert!(matches!(client.extend(&lease).await, Err(LeaseError::NoQuorum { .. })));
    }
    assert!(remaining_ms() <= 60_000, "a failed extension extended the vote of a minority");
    for server in &cluster.servers[..2] {
        server.thaw();
    }
    eventually_async("an extension to succeed", async || client.extend(&lease).await.is_ok()).await;
    assert!(remaining_ms() > 60_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_leaves_a_tombstone_on_every_node() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
    let lease = acquire_and_detach(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    client.release(&lease).await.unwrap();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    let tombstone = format!("quorlock~done:{}", lease.id().reveal());
    for server in &cluster.servers {
        assert_eq!(server.command(&["EXISTS", &tombstone]), Reply::Int(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_with_a_ttl_above_the_cluster_maximum_is_refused() {
    let cluster = ProxiedCluster::start(1).await;
    let lease = acquire_and_detach(&connect_to_all(cluster.direct_builder()).await).await;
    let other_client = Client::memory().await;
    assert!(matches!(other_client.check(&lease).await, Err(LeaseError::Config(_))));
    assert!(matches!(other_client.extend(&lease).await, Err(LeaseError::Config(_))));
    assert!(matches!(other_client.release(&lease).await, Err(LeaseError::Config(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_detached_lease_stays_lost() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
    let lease = acquire_and_detach(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    for server in &cluster.servers[..2] {
        server.command(&["DEL", KEY]);
    }
    eventually_async("an extension to find the lease lost", async || {
        client.extend(&lease).await == Err(LeaseError::Lost(LostError::Removed))
    })
    .await;
    cluster.wait_until_deleted(KEY).await;
    let tombstone = format!("quorlock~done:{}", lease.id().reveal());
    for server in &cluster.servers {
        eventually_async("every node to have the tombstone", async || {
            server.command(&["DEL", &tombstone]) == Reply::Int(1)
        })
        .await;
        server.command(&["SET", KEY, &lease.id().reveal(), "PX", "60000"]);
    }
    assert_eq!(client.extend(&lease).await, Err(LeaseError::Lost(LostError::Ended)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_with_little_remaining_time_after_an_outage_can_be_extended() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
    // A tenth of the ttl is subtracted for drift. This is more than the remaining time of 5.9 s below.
    let lease = client.lock("a").ttl(Duration::from_secs(60)).acquire().await.unwrap().detach().unwrap();
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    for server in &cluster.servers[..2] {
        server.freeze();
    }
    assert!(matches!(client.extend(&lease).await, Err(LeaseError::NoQuorum { .. })));
    for server in &cluster.servers[..2] {
        server.thaw();
    }
    wait_until_all_vote(&client).await;
    for server in &cluster.servers {
        server.command(&["PEXPIRE", KEY, "5900"]);
    }
    eventually_async("an extension to succeed", async || match client.extend(&lease).await {
        Err(LeaseError::Lost(error)) => panic!("{error}"),
        extended => extended.is_ok(),
    })
    .await;
}
