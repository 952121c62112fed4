//! Properties that hold in every order in which the library's threads run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use quorlock::{Client, DetachedLease, LostError};
use quorlock_core::name::LeaseId;
use quorlock_interleave::{Canceller, Cluster, RequestCounts, run_scene};
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

/// The number of random orders of each scene. `QUORLOCK_ORDERS` overrides it. Each scene also runs in the same number
/// of orders that change thread priorities only a few times.
const ORDERS: usize = 60;
/// The number of changes of thread priorities in an order.
const PRIORITY_CHANGES: usize = 4;
/// The maximum pause of an interfering thread, in steps.
const PAUSE_STEPS_MAX: u64 = 400;
/// The number of thread switches in which every reply in flight arrives.
const THREAD_SWITCHES: u32 = 1_000;
/// The time after which the watchdog renews the lease for the first time.
const RENEWAL: Duration = Duration::from_millis(200);
/// The time after which the lease has ended.
const LEASE_END: Duration = Duration::from_millis(600);

/// Runs the scene in many orders. Calls `check_attempt` for every attempt.
fn run_in_many_orders(scene: fn(&Arc<Cluster>), check_attempt: fn(LeaseId, RequestCounts)) {
    let mut config = Config::new();
    config.stack_size = 512 * 1024;
    config.silence_warnings = true;
    let orders = std::env::var("QUORLOCK_ORDERS").map_or(ORDERS, |orders| orders.parse().unwrap());
    Runner::new(RandomScheduler::new(orders), config.clone()).run(move || run_scene(scene, check_attempt));
    Runner::new(PctScheduler::new(PRIORITY_CHANGES, orders), config).run(move || run_scene(scene, check_attempt));
}

/// Checks that an attempt is released exactly once, which must be true if no connection breaks.
fn assert_released_once(attempt: LeaseId, counts_of_attempt: RequestCounts) {
    if counts_of_attempt.acquires > 0 {
        assert_eq!(counts_of_attempt.releases, 1, "{attempt:?}: {counts_of_attempt:?}");
    }
}

/// Checks that an attempt is released at least once. A broken connection may repeat a release.
fn assert_released(attempt: LeaseId, counts_of_attempt: RequestCounts) {
    if counts_of_attempt.acquires > 0 {
        assert!(counts_of_attempt.releases >= 1, "{attempt:?}: {counts_of_attempt:?}");
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
        let cancelling = cancel_soon(cluster, &canceller);
        let lock = client.lock("x");
        drop(block_on(canceller.unless_cancelled(lock.acquire())));
        cancelling.join().unwrap();
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
        let waiting = {
            let (lock, canceller) = (client.lock("x"), Arc::clone(&canceller));
            thread::spawn(move || drop(block_on(canceller.unless_cancelled(lock.acquire()))))
        };
        let cancelling = cancel_soon(cluster, &canceller);
        cluster.pause(PAUSE_STEPS_MAX);
        drop(lease);
        waiting.join().unwrap();
        cancelling.join().unwrap();
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
        let advancing_time = advance_time_soon(cluster, RENEWAL);
        cluster.pause(PAUSE_STEPS_MAX);
        cluster.close(client);
        advancing_time.join().unwrap();
        assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Closed));
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn two_concurrent_acquires_never_both_hold() {
    let scene = |cluster: &Arc<Cluster>| {
        let (first_client, second_client) = (cluster.client(), cluster.client());
        let lock = second_client.lock("x");
        let trying = thread::spawn(move || block_on(lock.try_acquire()).unwrap());
        let first = block_on(first_client.lock("x").try_acquire()).unwrap();
        let second = trying.join().unwrap();
        assert!(first.is_none() || second.is_none(), "two clients hold the lock at the same time");
        drop((first, second));
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
        let dropping = thread::spawn(move || drop(lease));
        cluster.close(client);
        dropping.join().unwrap();
    };
    run_in_many_orders(scene, assert_released_once);
}

#[test]
fn an_acquire_during_the_close_of_its_client_leaves_nothing_behind() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lock = client.lock("x");
        let asking = thread::spawn(move || block_on(lock.acquire()));
        cluster.pause(PAUSE_STEPS_MAX);
        cluster.close(client);
        if let Ok(lease) = asking.join().unwrap() {
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
        let advancing_time = advance_time_soon(cluster, LEASE_END);
        cluster.pause(PAUSE_STEPS_MAX);
        drop(lease);
        advancing_time.join().unwrap();
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released_once);
}

fn advance_time_soon(cluster: &Arc<Cluster>, by: Duration) -> thread::JoinHandle<()> {
    let cluster = Arc::clone(cluster);
    thread::spawn(move || {
        cluster.pause(PAUSE_STEPS_MAX);
        cluster.advance_time(by);
    })
}

/// Detaches a lease while another thread moves the time by `duration`, and releases the detached lease.
fn detach_while_time_passes(cluster: &Arc<Cluster>, duration: Duration) -> (Client, Result<DetachedLease, LostError>) {
    let (client, receiver) = (cluster.client(), cluster.client());
    let lease = block_on(client.lock("x").acquire()).unwrap();
    let advancing_time = advance_time_soon(cluster, duration);
    cluster.pause(PAUSE_STEPS_MAX);
    let detached = lease.detach();
    if let Ok(detached) = &detached {
        // If the release times out, it is delivered later.
        drop(block_on(receiver.release(detached)));
    }
    advancing_time.join().unwrap();
    cluster.close(receiver);
    (client, detached)
}

#[test]
fn a_lease_detached_during_a_renewal_is_not_renewed_again() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, detached) = detach_while_time_passes(cluster, RENEWAL);
        assert!(detached.is_ok(), "the lease was lost before it was detached");
        // If the watchdog still ran, it would find the lease lost and release it again. The time moves by less than two
        // ttls, so that messages in flight arrive before the tombstone of the release expires.
        for _ in 0..4 {
            cluster.advance_time(RENEWAL);
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
        let cancelling = cancel_soon(cluster, &canceller);
        let cutting = {
            let cluster = Arc::clone(cluster);
            thread::spawn(move || {
                cluster.pause(PAUSE_STEPS_MAX);
                cluster.cut_connections(0);
            })
        };
        drop(block_on(canceller.unless_cancelled(client.lock("x").acquire())));
        cancelling.join().unwrap();
        cutting.join().unwrap();
        cluster.close(client);
    };
    run_in_many_orders(scene, assert_released);
}
