//! Losing a lease: `lost` resolves, nothing revives the lease, and the next holder gets a higher fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use crate::common::long_leases::{CLOSE_TIMEOUT, LONG, ProxiedCluster, connect_to_all, counts, wait_until_counts_grow, expect_soon, vote_count};
use crate::common::{Cluster, TTL};
use quorlock::{Client, Drift, FenceError, Lease, LeaseError, LostError, Renewals, RunError};
use quorlock_testkit::{RedisServer, eventually_async};

const KEY: &str = "quorlock:job";
const EVERYWHERE: [usize; 5] = [0, 1, 2, 3, 4];

/// Renewals that are short enough to wait for, unlike the ttl.
const FREQUENT_RENEWALS: Renewals = Renewals::Watchdog { every: Some(Duration::from_millis(50)), lifetime: LONG };

/// The maximum validity of a lease, counted from the last request that a majority granted.
fn longest(ttl: Duration) -> Duration {
    let drift = Drift::default();
    ttl.saturating_sub(ttl * drift.ppm / 1_000_000 + drift.fixed)
}

/// Polls the lease until it is over. Returns when it was last valid.
async fn last_valid(lease: &Lease) -> Instant {
    let mut last = Instant::now();
    loop {
        let before = Instant::now();
        match lease.ensure(Duration::ZERO) {
            Ok(()) => last = before,
            Err(_) => return last,
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn stays_lost(lease: &Lease, why: LostError) {
    assert_eq!(lease.validity(), Duration::ZERO);
    assert_eq!(lease.ensure(Duration::ZERO), Err(why));
    assert_eq!(lease.fence(), Err(FenceError::Lost(why)));
    assert_eq!(expect_soon(lease.extend()).await, Err(LeaseError::Lost(why)));
    assert_eq!(expect_soon(lease.lost()).await, why, "the latch stays fired");
}

fn is_lost(lost: &mut (impl Future<Output = LostError> + Unpin)) -> bool {
    std::pin::Pin::new(lost).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_majority_is_frozen_is_lost_and_stays_so() {
    let cluster = Cluster::start(5).await;
    let client = connect_to_all(cluster.builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    let frozen = &cluster.servers[..3];
    frozen.iter().for_each(RedisServer::freeze);
    // One node of every majority is frozen, so the last granted request was sent before this.
    let last_sent = Instant::now();
    let (why, last_ok) = tokio::join!(expect_soon(lease.lost()), expect_soon(last_valid(&lease)));
    assert_eq!(why, LostError::Expired);
    assert!(last_ok <= last_sent + longest(TTL), "held for longer than any majority had granted");
    stays_lost(&lease, why).await;

    frozen.iter().for_each(RedisServer::thaw);
    let next = connect_to_all(cluster.builder()).await;
    assert!(expect_soon(next.lock("job").acquire()).await.unwrap().fence().unwrap() > fence);
    // All nodes are back, and would grant a renewal.
    stays_lost(&lease, why).await;
    eventually_async("the lock to be free", async || (0..5).all(|node| cluster.lock_keys(node).is_empty())).await;
    assert!(lease.release().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_resolves_by_itself_at_the_end_of_validity() {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder().renewals(Renewals::Off)).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let before = Instant::now();
    let validity = lease.validity();
    // The lease is not polled while it expires.
    assert_eq!(expect_soon(lease.lost()).await, LostError::Expired);
    // The monotonic clock may be slewed, unlike the lease's.
    assert!(before.elapsed() >= validity.mul_f64(0.9), "it fired although the lease was still valid");
    stays_lost(&lease, LostError::Expired).await;
    // Its votes are released when it is lost, not when they expire, so that another client can acquire at once.
    drop(expect_soon(client.lock("job").acquire()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_lease_is_not_lost() {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let mut lost = Box::pin(lease.lost());
    assert!(!is_lost(&mut lost));
    let _ = lease.release().await;
    let after = client.lock("another").renewals(Renewals::Off).acquire().await.unwrap();
    expect_soon(after.lost()).await;
    assert!(!is_lost(&mut lost), "a released lease is reported as lost");
}

/// Overwrites the votes of a lock on these nodes, as a program that breaks the rules would.
fn steal(cluster: &ProxiedCluster, nodes: &[usize]) {
    for &node in nodes {
        cluster.servers[node].command(&["SET", KEY, "another program's", "PX", "100000"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_majority_was_overwritten_is_lost_at_the_next_renewal() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct().renewals(FREQUENT_RENEWALS)).await;
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
    steal(&cluster, &[0, 1]);
    // A minority does not matter.
    expect_soon(lease.extend()).await.unwrap();
    steal(&cluster, &[2]);
    assert_eq!(expect_soon(lease.lost()).await, LostError::Taken);
    stays_lost(&lease, LostError::Taken).await;
    // The remaining votes are released, and those of the other program are not touched.
    cluster.wait_for_key_on(KEY, &[0, 1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_lease_whose_keys_were_deleted_is_lost_at_the_next_renewal() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct().renewals(FREQUENT_RENEWALS)).await;
    let lease = client.lock("job").plain().acquire().await.unwrap();
    cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
    for server in &cluster.servers[..3] {
        server.command(&["DEL", KEY]);
    }
    assert_eq!(expect_soon(lease.lost()).await, LostError::Taken);
    cluster.wait_until_unlocked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_keys_are_restored_by_the_next_renewal() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct().renewals(FREQUENT_RENEWALS)).await;
    let lease = client.lock("job").acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
    // A deleted vote cannot have made another lease possible, because every lease needs a majority.
    for deleted in [&[4][..], &[0, 1], &EVERYWHERE] {
        for &node in deleted {
            cluster.servers[node].command(&["DEL", KEY]);
        }
        cluster.wait_for_key_on(KEY, &EVERYWHERE).await;
        for server in &cluster.servers {
            assert_eq!(server.command(&["GET", KEY]).as_str(), Some(lease.id().reveal().as_str()));
        }
        assert_eq!(lease.fence(), Ok(fence));
    }
    lease.release().await.unwrap();
    cluster.close_and_check(client).await;
}

/// Waits until these servers have seen `count` more renewals of another lease, which serves as a clock.
async fn periods(cluster: &ProxiedCluster, client: &Client, count: u64) {
    let beacon = client.lock("beacon").renewals(FREQUENT_RENEWALS).acquire().await.expect("the lock is free");
    wait_until_counts_grow(&cluster.servers, vote_count, &counts(&cluster.servers, vote_count), count).await;
    beacon.release().await.expect("all nodes answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_stop_with_the_release_or_the_client() {
    let cluster = ProxiedCluster::start(3).await;
    let other = connect_to_all(cluster.direct()).await;
    let client = connect_to_all(cluster.direct().renewals(FREQUENT_RENEWALS)).await;
    let (released, dropped, kept) = (client.lock("released"), client.lock("dropped"), client.lock("kept"));
    for _ in 0..20 {
        let leases = [released.acquire().await.unwrap(), dropped.acquire().await.unwrap()];
        // So that some of them are in the middle of a renewal when they end.
        expect_soon(leases[0].extend()).await.unwrap();
        let [first, second] = leases;
        first.release().await.unwrap();
        drop(second);
    }
    periods(&cluster, &other, 10).await;
    cluster.wait_until_unlocked().await;

    let lease = kept.acquire().await.unwrap();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    cluster.wait_until_unlocked().await;
    periods(&cluster, &other, 10).await;
    // A vote that is restored now would stay.
    cluster.wait_until_unlocked().await;
    assert!(expect_soon(lease.extend()).await.is_err());
}

/// Records that it was dropped.
struct Work(Arc<AtomicBool>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_dropped_when_its_lease_is_lost() {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder()).await;
    let stopped = Arc::new(AtomicBool::new(false));
    let lock = client.lock("job");
    let outcome = lock.run(async |_lease| {
        let _work = Work(Arc::clone(&stopped));
        cluster.servers[1..].iter().for_each(RedisServer::freeze);
        std::future::pending::<()>().await;
    });
    assert_eq!(expect_soon(outcome).await, Err(RunError::Lost(LostError::Expired)));
    assert!(stopped.load(Ordering::SeqCst), "still at work without the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_end_with_the_lifetime() {
    let cluster = Cluster::start(3).await;
    let lifetime = TTL / 2;
    let renewals = Renewals::Watchdog { every: Some(Duration::from_millis(100)), lifetime };
    let client = connect_to_all(cluster.builder().renewals(renewals)).await;
    let before = counts(&cluster.servers, vote_count);
    let lease = client.lock("job").acquire().await.unwrap();
    assert_eq!(expect_soon(lease.lost()).await, LostError::Expired, "the lifetime ends it although all nodes are healthy");
    let after = counts(&cluster.servers, vote_count);
    let renewed = after.iter().zip(&before).filter(|(after, before)| **after > **before + 1).count();
    assert!(renewed >= 2, "it was never renewed: {before:?} to {after:?}");
    stays_lost(&lease, LostError::Expired).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_resume_after_a_failure() {
    let cluster = ProxiedCluster::start(1).await;
    let (proxy, ttl) = (&cluster.proxies[0], Duration::from_secs(30));
    let renewals = Renewals::Watchdog { every: Some(Duration::from_secs(1)), lifetime: LONG };
    let builder = cluster.builder().node_deadline(Duration::from_millis(200)).renewals(renewals);
    let client = connect_to_all(builder).await;
    let lease = client.lock("job").ttl(ttl).acquire().await.unwrap();
    let mut lost = Box::pin(lease.lost());
    for _ in 0..2 {
        proxy.refuse(true);
        proxy.cut();
        let mut failed = 0;
        while failed < 3 {
            // A renewal may have been answered before the connection was cut.
            failed += i32::from(matches!(lease.extend().await, Err(LeaseError::NoQuorum { .. })));
        }
        // Far enough for a renewal to be visible.
        eventually_async("validity to run down", async || lease.validity() < ttl.mul_f64(0.8)).await;
        lease.ensure(Duration::from_secs(1)).expect("a lease outlives the failure of a renewal");
        proxy.refuse(false);
        eventually_async("the watchdog to succeed", async || lease.validity() > ttl.mul_f64(0.85)).await;
    }
    assert!(!is_lost(&mut lost));
    drop(lease);
    cluster.close_and_check(client).await;
}

/// Empties all nodes under a lease with these renewals, and checks that no other client gets the lock before the lease
/// ends.
async fn everything_is_flushed_under_a_lease(renewals: Renewals) {
    let cluster = Cluster::start(3).await;
    let client = connect_to_all(cluster.builder().renewals(renewals)).await;
    let other = connect_to_all(cluster.builder()).await;
    let lease = Arc::new(client.lock("job").acquire().await.expect("the lock is free"));
    let fence = lease.fence().expect("the lease is held");
    for server in &cluster.servers {
        server.command(&["FLUSHALL"]);
    }
    let last_sent = Instant::now();
    let watched = tokio::spawn({
        let lease = Arc::clone(&lease);
        async move { expect_soon(last_valid(&lease)).await }
    });
    let next = expect_soon(other.lock("job").acquire()).await.expect("the lock becomes free");
    assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Expired), "two holders, or lost for another reason");
    let last_ok = watched.await.expect("the task ends with the lease");
    assert!(last_ok <= last_sent + longest(TTL), "renewed by nodes that had forgotten it");
    assert!(next.fence().expect("the lease is held") > fence);
    stays_lost(&lease, LostError::Expired).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_survives_memory_loss_and_excludes_others_until_its_end() {
    tokio::join!(everything_is_flushed_under_a_lease(Renewals::Off), everything_is_flushed_under_a_lease(FREQUENT_RENEWALS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validity_counts_from_the_send() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.builder().renewals(Renewals::Off)).await;
    // All three requests are held back, so none was sent after this.
    let hold_up = async || {
        for proxy in &cluster.proxies {
            eventually_async("the request to be under way", async || proxy.held_up() > 0).await;
        }
        let sent = Instant::now();
        // The test is that this time does not count as validity.
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
        sent
    };
    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    let lock = client.lock("job");
    let (sent, lease) = tokio::join!(hold_up(), lock.acquire());
    let lease = lease.unwrap();
    let now = Instant::now();
    assert!(now + lease.validity() <= sent + longest(LONG));

    cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
    let (sent, extended) = tokio::join!(hold_up(), lease.extend());
    extended.unwrap();
    let now = Instant::now();
    assert!(now + lease.validity() <= sent + longest(LONG));
    lease.release().await.unwrap();
}
