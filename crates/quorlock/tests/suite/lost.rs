//! Loses a lease: `lost` resolves, nothing revives the lease, and the next holder gets a higher fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use crate::common::long_timeouts::{
    CLOSE_TIMEOUT, LONG, ProxiedCluster, connect_to_all, counts, expect_soon, vote_count, wait_until_counts_grow,
};
use crate::common::{Cluster, TTL};
use quorlock::{Client, Drift, FenceError, Lease, LeaseError, LostError, Renewals, RunError};
use quorlock_testkit::{RedisServer, eventually_async};

const KEY: &str = "quorlock:job";
const ALL_NODES: [usize; 5] = [0, 1, 2, 3, 4];

/// Renewals that are so frequent that a test can wait for them.
const FREQUENT_RENEWALS: Renewals = Renewals::Watchdog { every: Some(Duration::from_millis(50)), lifetime: LONG };

/// The maximum validity of a lease, counted from the time at which the granted requests were sent.
fn max_validity(ttl: Duration) -> Duration {
    let drift = Drift::default();
    ttl.saturating_sub(ttl * drift.ppm / 1_000_000 + drift.fixed)
}

/// Checks the lease again and again until it has ended. Returns the last time at which the lease was valid.
async fn poll_until_lost(lease: &Lease) -> Instant {
    let mut last_valid = Instant::now();
    loop {
        let now = Instant::now();
        match lease.ensure(Duration::ZERO) {
            Ok(()) => last_valid = now,
            Err(_) => return last_valid,
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Checks that the lease is lost for this reason, and that it cannot be extended.
async fn assert_lost(lease: &Lease, reason: LostError) {
    assert_eq!(lease.validity(), Duration::ZERO);
    assert_eq!(lease.ensure(Duration::ZERO), Err(reason));
    assert_eq!(lease.fence(), Err(FenceError::Lost(reason)));
    assert_eq!(expect_soon(lease.extend()).await, Err(LeaseError::Lost(reason)));
    assert_eq!(expect_soon(lease.lost()).await, reason, "`lost` resolves again");
}

/// Whether this future, which [`Lease::lost`] returned, resolves at its first poll.
fn is_ready(lost_future: &mut (impl Future<Output = LostError> + Unpin)) -> bool {
    std::pin::Pin::new(lost_future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_majority_is_frozen_is_lost_and_stays_lost() {
    let cluster = Cluster::start(5).await;
    let client = connect_to_all(cluster.builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    let frozen_servers = &cluster.servers[..3];
    frozen_servers.iter().for_each(RedisServer::freeze);
    // Every majority contains a frozen node, so no majority grants a request that is sent from now on.
    let last_sent = Instant::now();
    let (reason, last_valid) = tokio::join!(expect_soon(lease.lost()), expect_soon(poll_until_lost(&lease)));
    assert_eq!(reason, LostError::Expired);
    assert!(last_valid <= last_sent + max_validity(TTL), "the lease was valid for longer than a majority had granted");
    assert_lost(&lease, reason).await;

    frozen_servers.iter().for_each(RedisServer::thaw);
    let next_client = connect_to_all(cluster.builder()).await;
    assert!(expect_soon(next_client.lock("job").acquire()).await.unwrap().fence().unwrap() > fence);
    // The nodes have thawed and would grant a renewal, but a lost lease is not renewed.
    assert_lost(&lease, reason).await;
    eventually_async("the lock to be free", async || (0..5).all(|node| cluster.lock_keys(node).is_empty())).await;
    assert!(lease.release().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_resolves_by_itself_at_the_end_of_validity() {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder().renewals(Renewals::Off)).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let start = Instant::now();
    let validity = lease.validity();
    // The lease is not polled while it expires.
    assert_eq!(expect_soon(lease.lost()).await, LostError::Expired);
    // The clock of the lease and the clock of this test may run at slightly different speeds.
    assert!(start.elapsed() >= validity.mul_f64(0.9), "`lost` resolved although the lease was still valid");
    assert_lost(&lease, LostError::Expired).await;
    // The client releases the votes of a lost lease before they expire, so that others can acquire at once.
    drop(expect_soon(client.lock("job").acquire()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_lease_is_not_lost() {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let mut lost_future = Box::pin(lease.lost());
    assert!(!is_ready(&mut lost_future));
    let _ = lease.release().await;
    let later_lease = client.lock("another").renewals(Renewals::Off).acquire().await.unwrap();
    expect_soon(later_lease.lost()).await;
    assert!(!is_ready(&mut lost_future), "`lost` resolved for a released lease");
}

/// Overwrites the votes of the lock on these nodes.
fn overwrite_votes(cluster: &ProxiedCluster, nodes: &[usize]) {
    for &node in nodes {
        cluster.servers[node].command(&["SET", KEY, "another program's", "PX", "100000"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_majority_was_overwritten_is_lost_at_the_next_renewal() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder().renewals(FREQUENT_RENEWALS)).await;
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &ALL_NODES).await;
    overwrite_votes(&cluster, &[0, 1]);
    // The votes of a minority are not needed.
    expect_soon(lease.extend()).await.unwrap();
    overwrite_votes(&cluster, &[2]);
    assert_eq!(expect_soon(lease.lost()).await, LostError::Removed);
    assert_lost(&lease, LostError::Removed).await;
    // The client releases the remaining votes, and leaves the keys of the other program.
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_lease_whose_keys_were_deleted_is_lost_at_the_next_renewal() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder().renewals(FREQUENT_RENEWALS)).await;
    let lease = client.lock("job").plain().acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &ALL_NODES).await;
    for server in &cluster.servers[..3] {
        server.command(&["DEL", KEY]);
    }
    assert_eq!(expect_soon(lease.lost()).await, LostError::Removed);
    cluster.wait_until_unlocked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_keys_are_restored_by_the_next_renewal() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder().renewals(FREQUENT_RENEWALS)).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    cluster.wait_for_key_on(KEY, &ALL_NODES).await;
    // No other client acquires the lock meanwhile, so the nodes may grant the deleted votes again.
    for deleted in [&[4][..], &[0, 1], &ALL_NODES] {
        for &node in deleted {
            cluster.servers[node].command(&["DEL", KEY]);
        }
        cluster.wait_for_key_on(KEY, &ALL_NODES).await;
        for server in &cluster.servers {
            assert_eq!(server.command(&["GET", KEY]).as_str(), Some(lease.id().reveal().as_str()));
        }
        assert_eq!(lease.fence(), Ok(fence));
    }
    lease.release().await.unwrap();
    cluster.close_and_check(client).await;
}

/// Waits for at least `count` renewal periods: until every server has executed `count` renewals of another lease.
async fn wait_for_renewal_periods(cluster: &ProxiedCluster, client: &Client, count: u64) {
    let measured_lease = client.lock("measured").renewals(FREQUENT_RENEWALS).acquire().await.expect("the lock is free");
    wait_until_counts_grow(&cluster.servers, vote_count, &counts(&cluster.servers, vote_count), count).await;
    measured_lease.release().await.expect("all nodes answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_stop_with_the_release_or_the_client() {
    let cluster = ProxiedCluster::start(3).await;
    let other_client = connect_to_all(cluster.direct_builder()).await;
    let client = connect_to_all(cluster.direct_builder().renewals(FREQUENT_RENEWALS)).await;
    let (lock_to_release, lock_to_drop, lock_to_close) =
        (client.lock("released"), client.lock("dropped"), client.lock("closed"));
    for _ in 0..20 {
        let leases = [lock_to_release.acquire().await.unwrap(), lock_to_drop.acquire().await.unwrap()];
        // After an extension, some leases are in the middle of a renewal when they end.
        expect_soon(leases[0].extend()).await.unwrap();
        let [released_lease, dropped_lease] = leases;
        released_lease.release().await.unwrap();
        drop(dropped_lease);
    }
    wait_for_renewal_periods(&cluster, &other_client, 10).await;
    cluster.wait_until_unlocked().await;

    let lease = lock_to_close.acquire().await.unwrap();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    cluster.wait_until_unlocked().await;
    wait_for_renewal_periods(&cluster, &other_client, 10).await;
    // A late renewal would have restored a vote, which would stay for the rest of the test.
    cluster.wait_until_unlocked().await;
    assert!(expect_soon(lease.extend()).await.is_err());
}

/// Sets a flag when it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_dropped_when_its_lease_is_lost() {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder()).await;
    let is_dropped = Arc::new(AtomicBool::new(false));
    let lock = client.lock("job");
    let outcome = lock.run(async |_lease| {
        let _guard = SetOnDrop(Arc::clone(&is_dropped));
        cluster.servers[1..].iter().for_each(RedisServer::freeze);
        std::future::pending::<()>().await;
    });
    assert_eq!(expect_soon(outcome).await, Err(RunError::Lost(LostError::Expired)));
    assert!(is_dropped.load(Ordering::SeqCst), "the work continued without the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_end_at_the_lifetime_limit() {
    let cluster = Cluster::start(3).await;
    let lifetime = TTL / 2;
    let renewals = Renewals::Watchdog { every: Some(Duration::from_millis(100)), lifetime };
    let client = connect_to_all(cluster.builder().renewals(renewals)).await;
    let counts_before = counts(&cluster.servers, vote_count);
    let lease = client.lock("job").acquire().await.unwrap();
    assert_eq!(expect_soon(lease.lost()).await, LostError::Expired, "the lease did not end at its lifetime limit");
    let counts_after = counts(&cluster.servers, vote_count);
    let renewing_nodes =
        counts_after.iter().zip(&counts_before).filter(|(after, before)| **after > **before + 1).count();
    assert!(renewing_nodes >= 2, "the lease was never renewed: {counts_before:?} to {counts_after:?}");
    assert_lost(&lease, LostError::Expired).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watchdog_renews_again_after_failed_renewals() {
    let cluster = ProxiedCluster::start(1).await;
    let (proxy, ttl) = (&cluster.proxies[0], Duration::from_secs(30));
    let renewals = Renewals::Watchdog { every: Some(Duration::from_secs(1)), lifetime: LONG };
    let builder = cluster.proxied_builder().node_deadline(Duration::from_millis(200)).renewals(renewals);
    let client = connect_to_all(builder).await;
    let lease = client.lock("job").ttl(ttl).acquire().await.unwrap();
    let mut lost_future = Box::pin(lease.lost());
    for _ in 0..2 {
        proxy.refuse(true);
        proxy.cut();
        let mut failures = 0;
        while failures < 3 {
            // An extension may still succeed if the node answered a renewal before the connection was cut.
            failures += i32::from(matches!(lease.extend().await, Err(LeaseError::NoQuorum { .. })));
        }
        // Wait until the validity is so short that a renewal makes a visible difference.
        eventually_async("the validity to decrease", async || lease.validity() < ttl.mul_f64(0.8)).await;
        lease.ensure(Duration::from_secs(1)).expect("a lease outlives the failure of a renewal");
        proxy.refuse(false);
        eventually_async("the watchdog to renew the lease", async || lease.validity() > ttl.mul_f64(0.85)).await;
    }
    assert!(!is_ready(&mut lost_future));
    drop(lease);
    cluster.close_and_check(client).await;
}

/// Deletes the data of all nodes while a client holds a lease with these renewals. Checks that no other client gets the
/// lock before this lease ends.
async fn flush_all_nodes_during_a_lease(renewals: Renewals) {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder().renewals(renewals)).await;
    let other_client = connect_to_all(cluster.builder()).await;
    let lease = Arc::new(client.lock("job").acquire().await.expect("the lock is free"));
    let fence = lease.fence().expect("the lease is held");
    for server in &cluster.servers {
        server.command(&["FLUSHALL"]);
    }
    let last_sent = Instant::now();
    let poll = tokio::spawn({
        let lease = Arc::clone(&lease);
        async move { expect_soon(poll_until_lost(&lease)).await }
    });
    let next_lease = expect_soon(other_client.lock("job").acquire()).await.expect("the lock becomes free");
    assert_eq!(
        lease.ensure(Duration::ZERO),
        Err(LostError::Expired),
        "there are two holders, or the lease was lost for another reason"
    );
    let last_valid = poll.await.expect("the task ends with the lease");
    assert!(last_valid <= last_sent + max_validity(TTL), "nodes that had forgotten the lease renewed it");
    assert!(next_lease.fence().expect("the lease is held") > fence);
    assert_lost(&lease, LostError::Expired).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_survives_memory_loss_and_excludes_others_until_its_end() {
    tokio::join!(flush_all_nodes_during_a_lease(Renewals::Off), flush_all_nodes_during_a_lease(FREQUENT_RENEWALS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validity_counts_from_the_send() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.proxied_builder().renewals(Renewals::Off)).await;
    // Waits until the proxies hold all three requests, and lets the requests pass after a pause. Returns a time after
    // all requests had been sent.
    let delay_requests = async || {
        for proxy in &cluster.proxies {
            eventually_async("the proxy to hold the request", async || proxy.held_up() > 0).await;
        }
        let sent = Instant::now();
        // The validity must count from before this pause.
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
        sent
    };
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    let lock = client.lock("job");
    let (sent, lease) = tokio::join!(delay_requests(), lock.acquire());
    let lease = lease.unwrap();
    let now = Instant::now();
    assert!(now + lease.validity() <= sent + max_validity(LONG));

    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    let (sent, extended) = tokio::join!(delay_requests(), lease.extend());
    extended.unwrap();
    let now = Instant::now();
    assert!(now + lease.validity() <= sent + max_validity(LONG));
    lease.release().await.unwrap();
}
