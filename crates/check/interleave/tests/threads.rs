//! Properties that hold in every order in which the library's threads run. A scene is the code that a test runs in
//! several threads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use quorlock::{Client, DetachedLease, LostError};
use quorlock_core::name::LeaseId;
use quorlock_interleave::{Canceller, Cluster, RequestCounts, run_scene};
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

/// The number of random orders in which each scene runs. `QUORLOCK_ORDERS` overrides it. Each scene also runs in this
/// number of orders that change thread priorities only a few times.
const ORDERS: usize = 60;
/// The number of changes of thread priorities in such an order.
const PRIORITY_CHANGES: usize = 4;
/// The limit of a random pause, in points at which shuttle may switch threads.
const PAUSE_STEPS_MAX: u64 = 400;
/// The number of thread switches after which every reply in flight has arrived.
const THREAD_SWITCHES: u32 = 1_000;
/// The time from the start of a lease to its first renewal.
const FIRST_RENEWAL: Duration = Duration::from_millis(200);
/// The time from the start of a lease to its end, if it is not renewed.
const LEASE_END: Duration = Duration::from_millis(600);

/// Runs the scene in many orders. After each, calls `check_attempt` for every node and attempt.
fn run_in_many_orders(scene: fn(&Arc<Cluster>), check_attempt: fn(LeaseId, RequestCounts)) {
    let mut config = Config::new();
    config.stack_size = 512 * 1024;
    config.silence_warnings = true;
    let orders = std::env::var("QUORLOCK_ORDERS").map_or(ORDERS, |orders| orders.parse().unwrap());
    Runner::new(RandomScheduler::new(orders), config.clone()).run(move || run_scene(scene, check_attempt));
    Runner::new(PctScheduler::new(PRIORITY_CHANGES, orders), config).run(move || run_scene(scene, check_attempt));
}

/// Checks that a node got exactly one release of an attempt, which must be true if no connection breaks.
fn assert_released_once(attempt: LeaseId, counts: RequestCounts) {
    if counts.acquires > 0 {
        assert_eq!(counts.releases, 1, "{attempt:?}: {counts:?}");
    }
}

/// Checks that a node got at least one release of an attempt. After a broken connection, the client may repeat a release.
fn assert_released(attempt: LeaseId, counts: RequestCounts) {
    if counts.acquires > 0 {
        assert!(counts.releases >= 1, "{attempt:?}: {counts:?}");
    }
}

/// Starts a thread that cancels after a random pause.
fn cancel_soon(cluster: &Arc<Cluster>, canceller: &Arc<Canceller>) -> thread::JoinHandle<()> {
    let (cluster, canceller) = (Arc::clone(cluster), Arc::clone(canceller));
    thread::spawn(move || {
        cluster.pause(PAUSE_STEPS_MAX);
        canceller.cancel();
    })
}

#[test]
fn an_acquire_cancelled_while_votes_arrive_leaves_nothing_behind() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, canceller) = (cluster.client(), Arc::new(Canceller::default()));
        let cancel_thread = cancel_soon(cluster, &canceller);
        let lock = client.lock("x");
        drop(block_on(canceller.unless_cancelled(lock.acquire())));
        cancel_thread.join().unwrap();
        drop(lock);
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn a_waiter_dropped_during_a_handoff_leaves_no_vote() {
    let scene = |cluster: &Arc<Cluster>| {
        let (holder, client) = (cluster.client(), cluster.client());
        let lease = block_on(holder.lock("x").acquire()).unwrap();
        let canceller = Arc::new(Canceller::default());
        let waiter_thread = {
            let (lock, canceller) = (client.lock("x"), Arc::clone(&canceller));
            thread::spawn(move || drop(block_on(canceller.unless_cancelled(lock.acquire()))))
        };
        let cancel_thread = cancel_soon(cluster, &canceller);
        cluster.pause(PAUSE_STEPS_MAX);
        drop(lease);
        waiter_thread.join().unwrap();
        cancel_thread.join().unwrap();
        cluster.close(client);
        cluster.close(holder);
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn a_lease_counts_grants_that_arrive_while_it_is_won() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lease = block_on(client.lock("x").acquire()).unwrap();
        for _ in 0..THREAD_SWITCHES {
            thread::yield_now();
        }
        // Time has not moved, so the count does not come from a renewal.
        assert_eq!(lease.nodes(), 3);
        drop(lease);
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn a_client_that_closes_during_a_renewal_releases_once_and_stops_renewing() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lease = block_on(client.lock("x").acquire()).unwrap();
        let time_thread = advance_time_soon(cluster, FIRST_RENEWAL);
        cluster.pause(PAUSE_STEPS_MAX);
        cluster.close(client);
        time_thread.join().unwrap();
        assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Closed));
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn two_concurrent_acquires_never_both_hold() {
    let scene = |cluster: &Arc<Cluster>| {
        let (first_client, second_client) = (cluster.client(), cluster.client());
        let lock = second_client.lock("x");
        let try_thread = thread::spawn(move || block_on(lock.try_acquire()).unwrap());
        let first_lease = block_on(first_client.lock("x").try_acquire()).unwrap();
        let second_lease = try_thread.join().unwrap();
        assert!(first_lease.is_none() || second_lease.is_none(), "two clients hold the lock at the same time");
        drop((first_lease, second_lease));
        cluster.close(second_client);
        cluster.close(first_client);
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn a_lease_dropped_while_its_client_closes_is_released_once() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lease = block_on(client.lock("x").acquire()).unwrap();
        let drop_thread = thread::spawn(move || drop(lease));
        cluster.close(client);
        drop_thread.join().unwrap();
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn an_acquire_during_the_close_of_its_client_leaves_nothing_behind() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lock = client.lock("x");
        let acquire_thread = thread::spawn(move || block_on(lock.acquire()));
        cluster.pause(PAUSE_STEPS_MAX);
        cluster.close(client);
        if let Ok(lease) = acquire_thread.join().unwrap() {
            assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Closed));
        }
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn a_lease_lost_during_its_release_is_released_once() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lease = block_on(client.lock("x").acquire()).unwrap();
        let time_thread = advance_time_soon(cluster, LEASE_END);
        cluster.pause(PAUSE_STEPS_MAX);
        drop(lease);
        time_thread.join().unwrap();
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released_once);
}

/// Starts a thread that moves the time by `by` after a random pause.
fn advance_time_soon(cluster: &Arc<Cluster>, by: Duration) -> thread::JoinHandle<()> {
    let cluster = Arc::clone(cluster);
    thread::spawn(move || {
        cluster.pause(PAUSE_STEPS_MAX);
        cluster.advance_time(by);
    })
}

/// Detaches a lease while another thread moves the time by `duration`, and releases the detached lease. Returns the
/// client of the lease, and the result of the detaching.
fn detach_while_time_passes(cluster: &Arc<Cluster>, duration: Duration) -> (Client, Result<DetachedLease, LostError>) {
    let (client, receiver) = (cluster.client(), cluster.client());
    let lease = block_on(client.lock("x").acquire()).unwrap();
    let time_thread = advance_time_soon(cluster, duration);
    cluster.pause(PAUSE_STEPS_MAX);
    let detached = lease.detach();
    if let Ok(detached) = &detached {
        // If the release times out, the client delivers it later.
        drop(block_on(receiver.release(detached)));
    }
    time_thread.join().unwrap();
    cluster.close(receiver);
    (client, detached)
}

#[test]
fn a_lease_detached_during_a_renewal_is_not_renewed_again() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, detached) = detach_while_time_passes(cluster, FIRST_RENEWAL);
        assert!(detached.is_ok(), "the lease was lost before it was detached");
        // If the watchdog still ran, it would find the lease lost and release it again. The tombstone of the release
        // lasts two ttls. The time moves by less than that, so that messages in flight arrive before its end.
        for _ in 0..4 {
            cluster.advance_time(FIRST_RENEWAL);
            cluster.pause(PAUSE_STEPS_MAX / 8);
        }
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn a_lease_is_lost_or_detached_and_never_both() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, _) = detach_while_time_passes(cluster, LEASE_END);
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn a_connection_that_breaks_during_a_cancellation_leaves_no_vote() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, canceller) = (cluster.client(), Arc::new(Canceller::default()));
        let cancel_thread = cancel_soon(cluster, &canceller);
        let cut_thread = {
            let cluster = Arc::clone(cluster);
            thread::spawn(move || {
                cluster.pause(PAUSE_STEPS_MAX);
                cluster.cut_connections(0);
            })
        };
        drop(block_on(canceller.unless_cancelled(client.lock("x").acquire())));
        cancel_thread.join().unwrap();
        cut_thread.join().unwrap();
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released);
}
