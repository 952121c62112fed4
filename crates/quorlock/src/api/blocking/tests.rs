use std::sync::mpsc;

use super::*;
use crate::error::{AcquireError, FenceError, LostError};
use crate::{MemoryNodes, Owner, Progress};

#[test]
fn a_lock_works_without_a_runtime() {
    let client = Client::memory();
    let lease = client.lock("a").ttl(Duration::from_secs(5)).label("first").acquire().unwrap();
    assert!(client.lock("a").try_acquire().unwrap().is_none());
    let held = client.lock("a").acquire_within(Duration::ZERO).unwrap_err();
    assert!(matches!(&held, AcquireError::Held(held) if held.holder.as_ref().unwrap().label == "first"), "{held}");
    lease.extend().unwrap();
    let first = lease.fence().unwrap();
    lease.release().unwrap();
    let second = client.lock("a").run(|lease| lease.fence().unwrap()).unwrap();
    assert!(second > first);
    client.close(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_waiting_thread_gets_the_lock_when_the_lease_is_dropped() {
    let client = Client::memory();
    let lease = client.lock("a").acquire().unwrap();
    let waiter = std::thread::spawn({
        let lock = client.lock("a");
        move || lock.acquire().map(|lease| lease.fence().unwrap())
    });
    let first = lease.fence().unwrap();
    drop(lease);
    assert!(waiter.join().unwrap().unwrap() > first);
}

#[test]
fn a_lease_keeps_its_client_open_and_its_thread_running() {
    let nodes = MemoryNodes::new(1);
    let connect = || Client::start(crate::Client::builder().memory(&nodes).connect()).unwrap();
    let lease = connect().lock("a").ttl(Duration::from_secs(2)).acquire().unwrap();
    let other = connect();
    assert_renewed_twice(&lease);
    lease.extend().unwrap();
    assert!(other.lock("a").try_acquire().unwrap().is_none());
    drop(lease);
    other.lock("a").acquire().unwrap().release().unwrap();
    // The lease of a leader, and the leases of several names, also keep their client open.
    let leadership = connect().election("b").acquire().unwrap();
    let leases = connect().all(["c", "d"]).acquire().unwrap();
    leadership.extend().unwrap();
    leases.iter().for_each(|lease| leases.wait(lease.extend()).unwrap());
    assert!(leadership.ensure(Duration::ZERO).is_ok() && leases.ensure(Duration::ZERO).is_ok());
}

#[test]
fn a_lease_is_renewed_while_its_thread_is_busy() {
    let client = Client::memory();
    assert_renewed_twice(&client.lock("a").ttl(Duration::from_secs(2)).acquire().unwrap());
}

/// Keeps this thread busy until the watchdog has renewed the lease twice.
fn assert_renewed_twice(lease: &Lease) {
    let mut renewals = 0;
    let mut last = lease.validity();
    while renewals < 2 {
        std::thread::yield_now();
        lease.ensure(Duration::from_millis(1)).expect("the lease is renewed in time");
        let now = lease.validity();
        renewals += u32::from(now > last);
        last = now;
    }
}

#[test]
fn an_owner_enters_again_without_a_runtime() {
    let client = Client::memory();
    let lock = client.reentrant("a");
    let outer = lock.acquire().unwrap();
    let revealed = Owner::parse(&lock.owner().reveal()).expect("the revealed owner can be parsed");
    let inner = client.reentrant("a").owned_by(revealed).acquire_within(Duration::from_secs(5)).unwrap();
    assert_eq!(inner.fence().unwrap(), outer.fence().unwrap());
    outer.release().unwrap();
    assert!(client.reentrant("a").try_acquire().unwrap().is_none(), "another owner must wait for the remaining entry");
    inner.release().unwrap();
    assert!(client.reentrant("a").try_acquire().unwrap().is_some());
}

#[test]
fn readers_share_and_a_writer_does_not_without_a_runtime() {
    let client = Client::memory();
    let prices = client.rw("a");
    let other = prices.clone();
    let readers = (prices.read().acquire().unwrap(), other.read().acquire_within(Duration::from_secs(5)).unwrap());
    assert!(matches!(prices.write().acquire(), Err(AcquireError::UpgradeUnsupported { .. })));
    assert!(client.rw("a").write().try_acquire().unwrap().is_none());
    let reader_fence = readers.0.fence().unwrap().max(readers.1.fence().unwrap());
    drop(readers);
    let writer = prices.write().acquire_within(Duration::from_secs(5)).unwrap();
    assert!(writer.fence().unwrap() > reader_fence);
    assert!(other.read().try_acquire().unwrap().is_none());
    drop(writer);
    assert!(other.write().acquire().is_ok());
}

#[test]
fn a_semaphore_limits_its_holders_without_a_runtime() {
    let client = Client::memory();
    let workers = client.semaphore("a", 2);
    let (one, other) = (workers.acquire().unwrap(), workers.acquire().unwrap());
    assert_ne!(one.slot().unwrap(), other.slot().unwrap());
    assert!(workers.try_acquire().unwrap().is_none());
    let error = client.semaphore("a", 3).try_acquire().unwrap_err();
    assert!(matches!(error, AcquireError::SlotsMismatch { requested: 3, in_use: 2, .. }), "{error}");
    let freed_slot = one.slot();
    one.release().unwrap();
    assert_eq!(workers.acquire_within(Duration::from_secs(5)).unwrap().slot(), freed_slot);
}

#[test]
fn all_names_are_held_or_none_without_a_runtime() {
    let client = Client::memory();
    let leases = client.all(["b", "a", "b"]).label("both").acquire().unwrap();
    assert_eq!(leases.iter().map(|lease| lease.name().as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(leases.fence("a").unwrap(), leases.get("a").unwrap().fence().unwrap());
    assert_eq!(leases.fence("c"), Err(FenceError::NotHeld));
    leases.ensure(leases.validity() / 2).unwrap();
    assert!(client.all(["b", "c"]).try_acquire().unwrap().is_none());
    assert!(
        client.lock("c").try_acquire().unwrap().is_some(),
        "a failed acquire of several names must hold none of them"
    );
    leases.release().unwrap();
    let leases = client.all(["a", "b"]).acquire_within(Duration::from_secs(5)).unwrap();
    client.close(Duration::from_secs(5)).unwrap();
    assert_eq!(leases.lost().1, LostError::Closed);
}

#[test]
fn followers_see_every_leader_without_a_runtime() {
    let client = Client::memory();
    let election = client.election("a").ttl(Duration::from_secs(5));
    let mut changes = election.leader_changes();
    assert_eq!(changes.next(), Some(None));
    let first = election.clone().label("first").acquire().unwrap();
    assert!(first.ensure(Duration::ZERO).is_ok());
    let leader = changes.next().unwrap().expect("there is a leader");
    assert_eq!((leader.holder.unwrap().label.as_str(), leader.term), ("first", first.fence().unwrap()));
    first.release().unwrap();
    let second = election.acquire_within(Duration::from_secs(5)).unwrap();
    assert_eq!(election.leader().unwrap().unwrap().term, second.fence().unwrap());
    // The changes may lack the time without a leader, because they are polled.
    let new_leader = changes.by_ref().flatten().next().expect("the client is open");
    assert_eq!(new_leader.term, second.fence().unwrap());
    client.close(Duration::from_secs(5)).unwrap();
    assert_eq!(second.lost(), LostError::Closed);
    assert_eq!(changes.next(), None, "the changes end when the client is closed");
}

#[test]
fn a_waiter_is_observed_and_counted_without_a_runtime() {
    let client = Client::memory();
    let lease = client.lock("a").label("first").acquire().unwrap();
    let (sender, received) = mpsc::channel();
    let lock = client.lock("a").observe(move |progress| sender.send(progress.clone()).expect("the receiver exists"));
    let waiter = std::thread::spawn(move || lock.acquire().map(|lease| lease.fence().unwrap()));
    let Progress::Waiting(wait) = received.recv().unwrap() else { panic!("the lock is held") };
    assert_eq!((wait.position, wait.waiting, wait.holder.unwrap().label.as_str()), (Some(1), 1, "first"));
    let inspection = client.wait(client.inspect("a")).unwrap();
    assert_eq!((inspection.waiting(), inspection.holder().unwrap().1), (1, lease.fence().unwrap()));
    lease.release().unwrap();
    let fence = waiter.join().unwrap().unwrap();
    assert_eq!(received.iter().last(), Some(Progress::Granted { fence: Some(fence) }));
    assert_eq!(client.stats().acquired, 2);
}

#[test]
fn a_detached_lease_is_used_by_another_client_without_a_runtime() {
    let nodes = MemoryNodes::new(1);
    let client = Client::start(crate::Client::builder().memory(&nodes).connect()).unwrap();
    let lease = client.lock("a").acquire().unwrap().detach().unwrap();
    client.close(Duration::from_secs(5)).unwrap();
    let other = Client::start(crate::Client::builder().memory(&nodes).connect()).unwrap();
    assert!(other.wait(other.extend(&lease)).unwrap() < lease.ttl());
    assert!(other.wait(other.check(&lease)).unwrap() < lease.ttl());
    assert_eq!(other.wait(other.release(&lease)).unwrap(), crate::Released::StillHeld);
    other.wait(other.check(&lease)).unwrap_err();
}
