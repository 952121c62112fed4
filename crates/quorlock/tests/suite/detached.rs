//! Detached leases on real servers: a majority decides, and nothing is left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::long_leases::{CLOSE_TIMEOUT, ProxiedCluster, connect_to_all, counts, wait_until_counts_grow, wait_for_silence, vote_count, wait_until_all_vote};
use quorlock::{AcquireError, Client, DetachedLease, Lease, LeaseError, LostError, Released};
use quorlock_testkit::{Reply, eventually_async};

const KEY: &str = "quorlock:a";

/// The deadline for a reply: short enough for a test to wait, long enough for a busy machine.
const NOT_LONG: Duration = Duration::from_millis(500);

async fn detached(client: &Client) -> DetachedLease {
    client.lock("a").acquire().await.unwrap().detach().unwrap()
}

/// A client with a short deadline for nodes that do not reply.
async fn brisk(cluster: &ProxiedCluster) -> Client {
    connect_to_all(cluster.direct().node_deadline(NOT_LONG)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_minority_gets_the_release_later() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let lease = detached(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    cluster.servers[2].freeze();
    client.check(&lease).await.unwrap();
    client.extend(&lease).await.unwrap();
    assert_eq!(client.release(&lease).await, Ok(Released::Standing));
    cluster.servers[2].thaw();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    cluster.wait_for_key_on(KEY, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_the_result_is_unknown_and_the_release_is_retried() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let lease = detached(&client).await;
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
    cluster.wait_for_key_on(KEY, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_vote_is_not_granted_again() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let lease = detached(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    cluster.servers[0].command(&["DEL", KEY]);
    client.extend(&lease).await.unwrap();
    client.check(&lease).await.unwrap();
    cluster.wait_for_key_on(KEY, &[1, 2]).await;
    cluster.servers[1].command(&["DEL", KEY]);
    assert_eq!(client.check(&lease).await, Err(LeaseError::Lost(LostError::Taken)));
    cluster.wait_for_key_on(KEY, &[2]).await;
    assert_eq!(client.extend(&lease).await, Err(LeaseError::Lost(LostError::Taken)));
    // The remaining votes are useless, and are released.
    cluster.wait_for_key_on(KEY, &[]).await;
    assert_eq!(client.release(&lease).await, Ok(Released::Gone));
}

/// Makes these nodes unreachable through their proxies.
async fn away(cluster: &ProxiedCluster, client: &Client, nodes: &[usize]) {
    for &node in nodes {
        cluster.proxies[node].refuse(true);
        cluster.proxies[node].cut();
    }
    for &node in nodes {
        wait_for_silence(client, node, |_| true).await;
    }
}

fn back(cluster: &ProxiedCluster, nodes: &[usize]) {
    for &node in nodes {
        cluster.proxies[node].refuse(false);
    }
}

/// Acquires a lease of any kind that has a fence, always of the same name.
async fn of_kind(client: &Client, kind: usize) -> Result<Lease, AcquireError> {
    match kind {
        0 => client.lock("a").acquire().await,
        1 => client.reentrant("a").acquire().await,
        2 => client.rw("a").read().acquire().await,
        _ => client.semaphore("a", 2).acquire().await,
    }
}

/// Acquires a lease that needs the grant of every reachable node. Retries, because a busy machine may make a grant
/// late.
async fn by_all_of_a_bare_majority(client: &Client, kind: usize) -> Lease {
    let mut lease = None;
    eventually_async("a bare majority to grant", async || {
        lease = of_kind(client, kind).await.ok();
        lease.is_some()
    })
    .await;
    lease.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_bare_majority_is_repaired_on_the_other_nodes() {
    let cluster = ProxiedCluster::start(5).await;
    let ours = connect_to_all(cluster.builder().node_deadline(NOT_LONG)).await;
    let theirs = brisk(&cluster).await;
    for kind in 0..4 {
        away(&cluster, &ours, &[3, 4]).await;
        let lease = by_all_of_a_bare_majority(&ours, kind).await.detach().unwrap();
        cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
        back(&cluster, &[3, 4]);
        cluster.wait_for_key_on(KEY, &[0, 1, 2, 3, 4]).await;
        wait_until_all_vote(&ours).await;
        // As good as a lease that all nodes granted: two may fail.
        for server in &cluster.servers[..2] {
            server.freeze();
        }
        // All that are left must reply in time, which may take several attempts on a busy machine.
        eventually_async("it goes on", async || theirs.extend(&lease).await.is_ok()).await;
        eventually_async("it stands", async || theirs.check(&lease).await.is_ok()).await;
        for server in &cluster.servers[..2] {
            server.thaw();
        }
        wait_until_all_vote(&theirs).await;
        wait_until_all_vote(&ours).await;
        eventually_async("it is released", async || theirs.release(&lease).await.is_ok()).await;
        cluster.wait_for_key_on(KEY, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_overtakes_a_late_repair_leaves_no_vote() {
    let cluster = ProxiedCluster::start(3).await;
    let ours = connect_to_all(cluster.builder().node_deadline(NOT_LONG)).await;
    let theirs = brisk(&cluster).await;
    let last = &cluster.servers[2..];
    for kind in 0..4 {
        last[0].command(&["SET", KEY, "another program's"]);
        let lease = by_all_of_a_bare_majority(&ours, kind).await.detach().unwrap();
        let before = counts(last, vote_count);
        cluster.proxies[2].hold(true);
        last[0].command(&["DEL", KEY]);
        eventually_async("a repair to be under way", async || cluster.proxies[2].held_up() > 0).await;
        theirs.release(&lease).await.unwrap();
        cluster.wait_for_key_on(KEY, &[]).await;
        eventually_async("all nodes to have the tombstone", async || last[0].keys("quorlock~done:*").len() > kind)
            .await;
        cluster.proxies[2].hold(false);
        wait_until_counts_grow(last, vote_count, &before, 1).await;
        cluster.wait_for_key_on(KEY, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_extensions_keep_no_minority_alive() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let lease = detached(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    for server in &cluster.servers[..2] {
        server.freeze();
    }
    assert!(matches!(client.extend(&lease).await, Err(LeaseError::NoQuorum { .. })));
    cluster.servers[2].command(&["PEXPIRE", KEY, "60000"]);
    let left = || cluster.servers[2].command(&["PTTL", KEY]).as_int().unwrap();
    for _ in 0..3 {
        assert!(matches!(client.extend(&lease).await, Err(LeaseError::NoQuorum { .. })));
    }
    assert!(left() <= 60_000, "the extension of a minority was kept");
    for server in &cluster.servers[..2] {
        server.thaw();
    }
    eventually_async("it goes on", async || client.extend(&lease).await.is_ok()).await;
    assert!(left() > 60_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_requests_for_a_released_lease_are_refused() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let lease = detached(&client).await;
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
    let lease = detached(&connect_to_all(cluster.direct()).await).await;
    let other = Client::memory().await;
    assert!(matches!(other.check(&lease).await, Err(LeaseError::Config(_))));
    assert!(matches!(other.extend(&lease).await, Err(LeaseError::Config(_))));
    assert!(matches!(other.release(&lease).await, Err(LeaseError::Config(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_detached_lease_stays_lost() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let lease = detached(&client).await;
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
    for server in &cluster.servers[..2] {
        server.command(&["DEL", KEY]);
    }
    eventually_async("two say that it is gone", async || {
        client.extend(&lease).await == Err(LeaseError::Lost(LostError::Taken))
    })
    .await;
    cluster.wait_for_key_on(KEY, &[]).await;
    let tombstone = format!("quorlock~done:{}", lease.id().reveal());
    for server in &cluster.servers {
        eventually_async("it is given back", async || server.command(&["DEL", &tombstone]) == Reply::Int(1)).await;
        server.command(&["SET", KEY, &lease.id().reveal(), "PX", "60000"]);
    }
    assert_eq!(client.extend(&lease).await, Err(LeaseError::Lost(LostError::Ended)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_with_little_left_after_an_outage_is_extended_not_lost() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    // A tenth of the ttl is the allowance for drift.
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
    eventually_async("it goes on", async || match client.extend(&lease).await {
        Err(LeaseError::Lost(why)) => panic!("{why}"),
        extended => extended.is_ok(),
    })
    .await;
}
