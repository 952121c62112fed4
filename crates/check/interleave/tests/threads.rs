//! Properties that hold in every order in which the library's threads run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use quorlock::{Client, DetachedLease, LostError};
use quorlock_core::name::LeaseId;
use quorlock_interleave::{Bell, Cluster, Count, play};
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

/// The number of random orders of each scene, unless `QUORLOCK_ORDERS` sets another. As many more orders change
/// priorities only a few times.
const ORDERS: usize = 60;
const CHANGES: usize = 4;
/// Interfering threads act within about this many steps.
const SOON: u64 = 400;
/// Enough turns for every reply in flight.
const YIELDS: u32 = 1_000;
/// The time of the first renewal, and the latest end of the lease.
const RENEWAL: Duration = Duration::from_millis(200);
const END: Duration = Duration::from_millis(600);

fn in_any_order(scene: fn(&Arc<Cluster>), judge: fn(LeaseId, Count)) {
    let mut config = Config::new();
    config.stack_size = 512 * 1024;
    config.silence_warnings = true;
    let orders = std::env::var("QUORLOCK_ORDERS").map_or(ORDERS, |orders| orders.parse().unwrap());
    Runner::new(RandomScheduler::new(orders), config.clone()).run(move || play(scene, judge));
    Runner::new(PctScheduler::new(CHANGES, orders), config).run(move || play(scene, judge));
}

/// A granted vote is released, and exactly once if no connection breaks.
fn exactly_once(attempt: LeaseId, count: Count) {
    if count.acquires > 0 {
        assert_eq!(count.releases, 1, "{attempt:?}: {count:?}");
    }
}

/// If connections break, repeated releases do no harm.
fn at_least_once(attempt: LeaseId, count: Count) {
    if count.acquires > 0 {
        assert!(count.releases >= 1, "{attempt:?}: {count:?}");
    }
}

fn ring_soon(cluster: &Arc<Cluster>, bell: &Arc<Bell>) -> thread::JoinHandle<()> {
    let (cluster, bell) = (Arc::clone(cluster), Arc::clone(bell));
    thread::spawn(move || {
        cluster.dawdle(SOON);
        bell.ring();
    })
}

#[test]
fn an_acquire_cancelled_while_votes_arrive_leaves_nothing_behind() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, bell) = (cluster.client(), Arc::new(Bell::default()));
        let ringing = ring_soon(cluster, &bell);
        let lock = client.lock("x");
        drop(block_on(bell.unless_rung(lock.acquire())));
        ringing.join().unwrap();
        drop(lock);
        cluster.close(client);
    };
    in_any_order(scene, exactly_once);
}

#[test]
fn a_waiter_dropped_during_a_handoff_leaves_no_vote() {
    let scene = |cluster: &Arc<Cluster>| {
        let (holder, client) = (cluster.client(), cluster.client());
        let lease = block_on(holder.lock("x").acquire()).unwrap();
        let bell = Arc::new(Bell::default());
        let waiting = {
            let (lock, bell) = (client.lock("x"), Arc::clone(&bell));
            thread::spawn(move || drop(block_on(bell.unless_rung(lock.acquire()))))
        };
        let ringing = ring_soon(cluster, &bell);
        cluster.dawdle(SOON);
        drop(lease);
        waiting.join().unwrap();
        ringing.join().unwrap();
        cluster.close(client);
        cluster.close(holder);
    };
    in_any_order(scene, exactly_once);
}

#[test]
fn replies_that_come_during_the_win_reach_the_hold() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lease = block_on(client.lock("x").acquire()).unwrap();
        for _ in 0..YIELDS {
            thread::yield_now();
        }
        // Time has stood still, so no renewal has reported which nodes granted.
        assert_eq!(lease.nodes(), 3);
        drop(lease);
        cluster.close(client);
    };
    in_any_order(scene, exactly_once);
}

#[test]
fn a_client_that_is_closed_during_a_renewal_releases_once_and_renews_no_more() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lease = block_on(client.lock("x").acquire()).unwrap();
        let moving = advance_soon(cluster, RENEWAL);
        cluster.dawdle(SOON);
        cluster.close(client);
        moving.join().unwrap();
        assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Closed));
    };
    in_any_order(scene, exactly_once);
}

#[test]
fn two_concurrent_acquires_never_both_hold() {
    let scene = |cluster: &Arc<Cluster>| {
        let (one, other) = (cluster.client(), cluster.client());
        let lock = other.lock("x");
        let trying = thread::spawn(move || block_on(lock.try_acquire()).unwrap());
        let first = block_on(one.lock("x").try_acquire()).unwrap();
        let second = trying.join().unwrap();
        assert!(first.is_none() || second.is_none(), "time stands still: both are valid");
        drop((first, second));
        cluster.close(other);
        cluster.close(one);
    };
    in_any_order(scene, exactly_once);
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
    in_any_order(scene, exactly_once);
}

#[test]
fn an_acquire_while_the_client_closes_leaves_nothing_behind() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lock = client.lock("x");
        let asking = thread::spawn(move || block_on(lock.acquire()));
        cluster.dawdle(SOON);
        cluster.close(client);
        if let Ok(lease) = asking.join().unwrap() {
            assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Closed));
        }
    };
    in_any_order(scene, exactly_once);
}

#[test]
fn a_lease_lost_during_its_release_is_released_once() {
    let scene = |cluster: &Arc<Cluster>| {
        let client = cluster.client();
        let lease = block_on(client.lock("x").acquire()).unwrap();
        let moving = advance_soon(cluster, END);
        cluster.dawdle(SOON);
        drop(lease);
        moving.join().unwrap();
        cluster.close(client);
    };
    in_any_order(scene, exactly_once);
}

fn advance_soon(cluster: &Arc<Cluster>, by: Duration) -> thread::JoinHandle<()> {
    let cluster = Arc::clone(cluster);
    thread::spawn(move || {
        cluster.dawdle(SOON);
        cluster.advance(by);
    })
}

/// Detaches a lease while time moves on, and releases it.
fn detach(cluster: &Arc<Cluster>, meanwhile: Duration) -> (Client, Result<DetachedLease, LostError>) {
    let (client, receiver) = (cluster.client(), cluster.client());
    let lease = block_on(client.lock("x").acquire()).unwrap();
    let moving = advance_soon(cluster, meanwhile);
    cluster.dawdle(SOON);
    let detached = lease.detach();
    if let Ok(detached) = &detached {
        // The release may time out; it is delivered later.
        drop(block_on(receiver.release(detached)));
    }
    moving.join().unwrap();
    cluster.close(receiver);
    (client, detached)
}

#[test]
fn a_lease_detached_during_a_renewal_is_not_renewed_again() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, detached) = detach(cluster, RENEWAL);
        assert!(detached.is_ok(), "it is valid for long");
        // A watchdog that kept running would find its lease gone, and release it again. Messages in flight must arrive
        // before the tombstone of the release expires: two ttls.
        for _ in 0..4 {
            cluster.advance(RENEWAL);
            cluster.dawdle(SOON / 8);
        }
        cluster.close(client);
    };
    in_any_order(scene, exactly_once);
}

#[test]
fn a_lease_is_lost_or_detached_and_never_both() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, _) = detach(cluster, END);
        cluster.close(client);
    };
    in_any_order(scene, exactly_once);
}

#[test]
fn a_connection_that_breaks_during_a_cancellation_leaves_no_vote() {
    let scene = |cluster: &Arc<Cluster>| {
        let (client, bell) = (cluster.client(), Arc::new(Bell::default()));
        let ringing = ring_soon(cluster, &bell);
        let cutting = {
            let cluster = Arc::clone(cluster);
            thread::spawn(move || {
                cluster.dawdle(SOON);
                cluster.cut(0);
            })
        };
        drop(block_on(bell.unless_rung(client.lock("x").acquire())));
        ringing.join().unwrap();
        cutting.join().unwrap();
        cluster.close(client);
    };
    in_any_order(scene, at_least_once);
}
