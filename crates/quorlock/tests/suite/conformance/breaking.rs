//! Breaks another client's lease.

use std::time::Instant;

use quorlock::{Break, BreakError, Broken, Client, Lease, LeaseError, LostError, Renewals, RwLock, Target};

use crate::conformance::backend::{
    Backend, MEDIUM, assert_held, enqueue, take_over, wait_for_all_nodes, wait_for_holders,
};

/// Inspects a held lock, and returns the target for a break of its lease.
async fn break_target(client: &Client, name: &str) -> Target {
    wait_for_all_nodes(client, name, "held", |report| report.held.is_some()).await;
    client.inspect(name).await.unwrap().target().expect("the lease is held")
}

/// Breaks the lease of a lock. The lock then drains: it stays held until the lease would have expired.
async fn drain(client: &Client, name: &str) -> Broken {
    client.break_lock(name, Break::new(break_target(client, name).await, "a test")).await.unwrap()
}

/// Breaks the lease of a lock, and frees the lock at once.
async fn break_now(client: &Client, name: &str) -> Broken {
    client.break_lock(name, Break::new(break_target(client, name).await, "a test").now()).await.unwrap()
}

/// Frees a lock that drains. Does not wait until every node has a vote: if the holder learned of the first break and
/// released its votes before the break reached a node, this node has no vote any more.
async fn free_draining(client: &Client, name: &str) -> Broken {
    let target = client.inspect(name).await.unwrap().target().expect("a majority still has the lock");
    client.break_lock(name, Break::new(target, "a test").now()).await.unwrap()
}

/// The lease is not renewed and does not expire during the test, so the holder can learn of the break only from a
/// message.
pub(crate) async fn the_holder_of_a_broken_lease_learns_of_the_break_at_once(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("x").renewals(Renewals::Off).acquire().await.unwrap();
    let broken = drain(&their_client, "x").await;
    assert!(broken.nodes >= backend.quorum().1, "{broken:?}");
    assert_eq!(lease.lost().await, LostError::Broken);
    assert_eq!(lease.extend().await, Err(LeaseError::Lost(LostError::Broken)));
    assert_eq!(our_client.stats().lost, 1);
}

pub(crate) async fn a_drained_lock_stays_held_until_it_would_have_expired(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("x").ttl(MEDIUM).acquire().await.unwrap();
    let start = Instant::now();
    let broken = drain(&their_client, "x").await;
    assert!(broken.drain_time <= MEDIUM, "{broken:?}");
    lease.lost().await;
    // The release of the holder must not free a lock that drains.
    drop(lease);
    for client in [&our_client, &their_client] {
        assert_held(client, "x").await;
    }
    let next_lease = take_over(&our_client, "x").await;
    // The factor allows for clocks that run at different speeds.
    assert!(
        start.elapsed() > broken.drain_time * 9 / 10,
        "the lock was free after {:?} instead of {:?}",
        start.elapsed(),
        broken.drain_time
    );
    next_lease.release().await.unwrap();
}

pub(crate) async fn a_drained_lease_is_shown_as_broken(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("x").acquire().await.unwrap();
    drain(&their_client, "x").await;
    let inspection = their_client.inspect("x").await.unwrap();
    let holds = inspection.nodes.iter().filter_map(|(_, report)| report.as_ref().ok()?.held.as_ref());
    let broken_holds =
        holds.filter(|held| held.broken && held.holder.as_ref().is_some_and(|holder| holder.label == "the client"));
    assert!(broken_holds.count() >= backend.quorum().1, "{inspection:?}");
    drop(lease);
}

pub(crate) async fn a_waiter_gets_a_lock_that_is_broken_now(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("x").acquire().await.unwrap();
    let lock = their_client.lock("x");
    let waiter = enqueue(&their_client, "x", 1, async move { lock.acquire().await }).await;
    let broken = break_now(&their_client, "x").await;
    assert!(broken.drain_time.is_zero());
    let next_lease = waiter.await.unwrap();
    assert_eq!(lease.lost().await, LostError::Broken);
    drop(lease);
    // Late releases of the old holder must not affect the next holder.
    next_lease.extend().await.unwrap();
    assert_held(&our_client, "x").await;
}

pub(crate) async fn a_break_of_an_earlier_fence_changes_nothing(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let earlier_lease = our_client.lock("x").acquire().await.unwrap();
    let earlier_target = break_target(&their_client, "x").await;
    earlier_lease.release().await.unwrap();
    wait_for_holders(&their_client, "x", 0).await;
    let lease = our_client.lock("x").acquire().await.unwrap();
    let target = break_target(&their_client, "x").await;
    assert_eq!(target, Target::Fence(lease.fence().unwrap()));
    for request in [Break::new(earlier_target, "too late"), Break::new(earlier_target, "too late").now()] {
        let broken = their_client.break_lock("x", request).await;
        let Err(BreakError::AnotherLease { current, holder, .. }) = broken else {
            panic!("the break of an earlier lease succeeded")
        };
        assert_eq!((current, holder.unwrap().label.as_str()), (target, "the client"));
    }
    lease.extend().await.unwrap();
    assert_held(&their_client, "x").await;
}

pub(crate) async fn a_free_lock_is_not_broken(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let assert_not_held = |broken| assert!(matches!(broken, Err(BreakError::NotHeld { .. })), "{broken:?}");
    let lease = our_client.lock("x").acquire().await.unwrap();
    let target = break_target(&their_client, "x").await;
    lease.release().await.unwrap();
    wait_for_holders(&their_client, "x", 0).await;
    assert_not_held(their_client.break_lock("x", Break::new(target, "too late")).await);
    assert_not_held(their_client.break_lock("x", Break::new(target, "too late").now()).await);
    assert_not_held(their_client.break_lock("never locked", Break::new(target, "nothing there")).await);
    assert!(matches!(their_client.break_lock("", Break::new(target, "")).await, Err(BreakError::Config(_))));
}

pub(crate) async fn a_broken_lock_can_be_broken_again(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("x").acquire().await.unwrap();
    let target = break_target(&their_client, "x").await;
    for _ in 0..2 {
        let broken = their_client.break_lock("x", Break::new(target, "once more")).await.unwrap();
        assert!(broken.nodes >= backend.quorum().1, "{broken:?}");
    }
    lease.lost().await;
    assert_held(&their_client, "x").await;
    for _ in 0..2 {
        let broken = our_client.break_lock("x", Break::new(target, "at once, after all").now()).await.unwrap();
        assert!(broken.nodes >= backend.quorum().1, "{broken:?}");
    }
    let next_lease = take_over(&their_client, "x").await;
    let late_break = our_client.break_lock("x", Break::new(target, "and again").now()).await;
    assert!(matches!(late_break, Err(BreakError::AnotherLease { .. })), "{late_break:?}");
    next_lease.extend().await.unwrap();
}

pub(crate) async fn a_break_during_renewals_succeeds(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("x").acquire().await.unwrap();
    let target = break_target(&their_client, "x").await;
    let renewing = tokio::spawn(async move {
        loop {
            if let Err(error) = lease.extend().await {
                return error;
            }
        }
    });
    their_client.break_lock("x", Break::new(target, "a test").now()).await.unwrap();
    assert_eq!(renewing.await.unwrap(), LeaseError::Lost(LostError::Broken));
    let next_lease = take_over(&their_client, "x").await;
    next_lease.extend().await.unwrap();
}

/// Breaks the lock, and checks that all leases are lost and that the lock drains.
async fn drain_and_check(our_client: &Client, their_client: &Client, leases: Vec<Lease>) {
    wait_for_holders(their_client, "x", leases.len() as u32).await;
    drain(their_client, "x").await;
    for lease in leases {
        assert_eq!(lease.lost().await, LostError::Broken);
    }
    assert_held(our_client, "x").await;
    assert_held(their_client, "x").await;
}

pub(crate) async fn a_break_ends_all_entries_of_an_owner(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("x");
    let leases = vec![lock.acquire().await.unwrap(), lock.acquire().await.unwrap()];
    drain_and_check(&our_client, &their_client, leases).await;
    assert!(lock.try_acquire().await.unwrap().is_none(), "the owner of the broken leases entered again");
    free_draining(&their_client, "x").await;
    lock.acquire().await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_break_ends_the_leases_of_all_readers(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let read = async |lock: RwLock| lock.read().acquire().await.unwrap();
    let leases = vec![read(our_client.rw("x")).await, read(their_client.rw("x")).await];
    drain_and_check(&our_client, &their_client, leases).await;
    assert!(our_client.rw("x").read().try_acquire().await.unwrap().is_none(), "a reader got a lock that drains");
    free_draining(&their_client, "x").await;
    read(our_client.rw("x")).await.release().await.unwrap();
}

pub(crate) async fn a_break_ends_the_leases_of_all_slots(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let leases = vec![
        our_client.semaphore("x", 3).acquire().await.unwrap(),
        their_client.semaphore("x", 3).acquire().await.unwrap(),
    ];
    drain_and_check(&our_client, &their_client, leases).await;
    assert!(
        our_client.semaphore("x", 3).try_acquire().await.unwrap().is_none(),
        "a semaphore that drains granted its free slot"
    );
    free_draining(&their_client, "x").await;
    our_client.semaphore("x", 3).acquire().await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_plain_lock_is_broken_by_its_digest(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    // This fenced lease leaves its fence on the nodes. The fence must not become the target of the plain lock.
    our_client.lock("x").acquire().await.unwrap().release().await.unwrap();
    wait_for_holders(&their_client, "x", 0).await;
    let lease = our_client.lock("x").plain().acquire().await.unwrap();
    let Target::Digest(digest) = break_target(&their_client, "x").await else { panic!("a plain lock has no fence") };
    assert!(
        !lease.id().reveal().contains(&digest.to_string()),
        "the digest shows a part of the lease id, which is a secret"
    );
    drain(&their_client, "x").await;
    assert_eq!(lease.lost().await, LostError::Removed, "the commands of a plain lock cannot tell a break from a loss");
    assert_held(&their_client, "x").await;
    // A majority still has the digest. The other nodes may have executed the release of the holder before the break.
    assert_eq!(their_client.inspect("x").await.unwrap().target(), Some(Target::Digest(digest)));
    their_client.break_lock("x", Break::new(Target::Digest(digest), "a test").now()).await.unwrap();
    take_over(&their_client, "x").await.release().await.unwrap();
}
