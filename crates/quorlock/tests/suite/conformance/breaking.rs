//! Breaking another client's lease.

use std::time::Instant;

use quorlock::{Break, BreakError, Broken, Client, Lease, LeaseError, LostError, Renewals, RwLock, Target};

use crate::conformance::backend::{BRISK, Backend, everywhere, held_by, is_held, queue, takes_over};

/// The target of a break, as an operator would name it.
async fn target(client: &Client, name: &str) -> Target {
    everywhere(client, name, "held", |report| report.held.is_some()).await;
    client.inspect(name).await.unwrap().target().expect("it is held")
}

async fn drain(client: &Client, name: &str) -> Broken {
    client.break_lock(name, Break::new(target(client, name).await, "a test")).await.unwrap()
}

async fn free(client: &Client, name: &str) -> Broken {
    client.break_lock(name, Break::new(target(client, name).await, "a test").now()).await.unwrap()
}

/// Breaks a drained lock. A holder that a majority has notified releases its vote on the other nodes, perhaps before
/// the break: then those have nothing to drain.
async fn free_drained(client: &Client, name: &str) -> Broken {
    let target = client.inspect(name).await.unwrap().target().expect("a majority keeps it");
    client.break_lock(name, Break::new(target, "a test").now()).await.unwrap()
}

/// The lease outlasts the test and is not renewed, so the holder can only learn of its end by a message.
pub(crate) async fn the_holder_of_a_broken_lease_learns_at_once(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("x").renewals(Renewals::Off).acquire().await.unwrap();
    let broken = drain(&theirs, "x").await;
    assert!(broken.nodes >= backend.quorum().1, "{broken:?}");
    assert_eq!(lease.lost().await, LostError::Broken);
    assert_eq!(lease.extend().await, Err(LeaseError::Lost(LostError::Broken)));
    assert_eq!(ours.stats().lost, 1);
}

pub(crate) async fn a_drained_lock_stays_held_until_it_would_have_expired(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("x").ttl(BRISK).acquire().await.unwrap();
    let since = Instant::now();
    let broken = drain(&theirs, "x").await;
    assert!(broken.drains <= BRISK, "{broken:?}");
    lease.lost().await;
    // The holder's release must not free the lock.
    drop(lease);
    for client in [&ours, &theirs] {
        is_held(client, "x").await;
    }
    let next = takes_over(&ours, "x").await;
    // Counted from before the break, by a clock that may run faster than the nodes'.
    assert!(since.elapsed() > broken.drains * 9 / 10, "after {:?} of {:?}", since.elapsed(), broken.drains);
    next.release().await.unwrap();
}

pub(crate) async fn a_drained_lease_is_shown_as_broken(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("x").acquire().await.unwrap();
    drain(&theirs, "x").await;
    let seen = theirs.inspect("x").await.unwrap();
    let held = || seen.nodes.iter().filter_map(|(_, said)| said.as_ref().ok()?.held.as_ref());
    let broken = held().filter(|held| held.broken && held.holder.as_ref().is_some_and(|who| who.label == "us"));
    assert!(broken.count() >= backend.quorum().1, "{seen:?}");
    drop(lease);
}

pub(crate) async fn a_waiter_gets_a_lock_that_is_broken_now(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("x").acquire().await.unwrap();
    let waiting = theirs.lock("x");
    let waiter = queue(&theirs, "x", 1, async move { waiting.acquire().await }).await;
    let broken = free(&theirs, "x").await;
    assert!(broken.drains.is_zero());
    let next = waiter.await.unwrap();
    let lost = lease.lost().await;
    assert_eq!(lost, LostError::Broken);
    drop(lease);
    // Late releases of the old holder must not affect the next one.
    next.extend().await.unwrap();
    is_held(&ours, "x").await;
}

pub(crate) async fn another_fence_breaks_nothing(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let before = ours.lock("x").acquire().await.unwrap();
    let old = target(&theirs, "x").await;
    before.release().await.unwrap();
    held_by(&theirs, "x", 0).await;
    let lease = ours.lock("x").acquire().await.unwrap();
    let held = target(&theirs, "x").await;
    assert_eq!(held, Target::Fence(lease.fence().unwrap()));
    for what in [Break::new(old, "too late"), Break::new(old, "too late").now()] {
        let broken = theirs.break_lock("x", what).await;
        let Err(BreakError::AnotherLease { current, holder, .. }) = broken else { panic!("it was another") };
        assert_eq!((current, holder.unwrap().label.as_str()), (held, "us"));
    }
    lease.extend().await.unwrap();
    is_held(&theirs, "x").await;
}

pub(crate) async fn a_free_lock_is_not_broken(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let not_held = |broken| assert!(matches!(broken, Err(BreakError::NotHeld { .. })), "{broken:?}");
    let lease = ours.lock("x").acquire().await.unwrap();
    let target = target(&theirs, "x").await;
    lease.release().await.unwrap();
    held_by(&theirs, "x", 0).await;
    not_held(theirs.break_lock("x", Break::new(target, "too late")).await);
    not_held(theirs.break_lock("x", Break::new(target, "too late").now()).await);
    not_held(theirs.break_lock("never locked", Break::new(target, "nothing there")).await);
    assert!(matches!(theirs.break_lock("", Break::new(target, "")).await, Err(BreakError::Config(_))));
}

pub(crate) async fn a_broken_lock_can_be_broken_again(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("x").acquire().await.unwrap();
    let target = target(&theirs, "x").await;
    for _ in 0..2 {
        let broken = theirs.break_lock("x", Break::new(target, "once more")).await.unwrap();
        assert!(broken.nodes >= backend.quorum().1, "{broken:?}");
    }
    lease.lost().await;
    is_held(&theirs, "x").await;
    for _ in 0..2 {
        let broken = ours.break_lock("x", Break::new(target, "at once, after all").now()).await.unwrap();
        assert!(broken.nodes >= backend.quorum().1, "{broken:?}");
    }
    let next = takes_over(&theirs, "x").await;
    let late = ours.break_lock("x", Break::new(target, "and again").now()).await;
    assert!(matches!(late, Err(BreakError::AnotherLease { .. })), "{late:?}");
    next.extend().await.unwrap();
}

pub(crate) async fn a_break_during_renewals_succeeds(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("x").acquire().await.unwrap();
    let target = target(&theirs, "x").await;
    let renewing = tokio::spawn(async move {
        loop {
            if let Err(error) = lease.extend().await {
                return error;
            }
        }
    });
    theirs.break_lock("x", Break::new(target, "a test").now()).await.unwrap();
    assert_eq!(renewing.await.unwrap(), LeaseError::Lost(LostError::Broken));
    let next = takes_over(&theirs, "x").await;
    next.extend().await.unwrap();
}

/// Checks that all leases are lost and the lock drains.
async fn all_are_broken(ours: &Client, theirs: &Client, leases: Vec<Lease>) {
    held_by(theirs, "x", leases.len() as u32).await;
    drain(theirs, "x").await;
    for lease in leases {
        assert_eq!(lease.lost().await, LostError::Broken);
    }
    is_held(ours, "x").await;
    is_held(theirs, "x").await;
}

pub(crate) async fn all_entries_of_an_owner_are_broken(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("x");
    let leases = vec![lock.acquire().await.unwrap(), lock.acquire().await.unwrap()];
    all_are_broken(&ours, &theirs, leases).await;
    assert!(lock.try_acquire().await.unwrap().is_none(), "its owner has to wait, too");
    free_drained(&theirs, "x").await;
    lock.acquire().await.unwrap().release().await.unwrap();
}

pub(crate) async fn all_readers_are_broken(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let read = async |lock: RwLock| lock.read().acquire().await.unwrap();
    let leases = vec![read(ours.rw("x")).await, read(theirs.rw("x")).await];
    all_are_broken(&ours, &theirs, leases).await;
    assert!(ours.rw("x").read().try_acquire().await.unwrap().is_none(), "no reader joins");
    free_drained(&theirs, "x").await;
    read(ours.rw("x")).await.release().await.unwrap();
}

pub(crate) async fn all_slots_are_broken(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let leases =
        vec![ours.semaphore("x", 3).acquire().await.unwrap(), theirs.semaphore("x", 3).acquire().await.unwrap()];
    all_are_broken(&ours, &theirs, leases).await;
    assert!(ours.semaphore("x", 3).try_acquire().await.unwrap().is_none(), "the free slot was granted");
    free_drained(&theirs, "x").await;
    ours.semaphore("x", 3).acquire().await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_plain_lock_is_broken_by_its_digest(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    // The fence of an earlier lease does not belong to a plain lock.
    ours.lock("x").acquire().await.unwrap().release().await.unwrap();
    held_by(&theirs, "x", 0).await;
    let lease = ours.lock("x").plain().acquire().await.unwrap();
    let Target::Digest(digest) = target(&theirs, "x").await else { panic!("it has no fence") };
    assert!(!lease.id().reveal().contains(&digest.to_string()), "the lease id is its holder's secret");
    drain(&theirs, "x").await;
    assert_eq!(lease.lost().await, LostError::Taken, "the page's commands know no more than that");
    is_held(&theirs, "x").await;
    // Nodes that got the holder's release before the break have nothing left; a majority is enough.
    assert_eq!(theirs.inspect("x").await.unwrap().target(), Some(Target::Digest(digest)));
    theirs.break_lock("x", Break::new(Target::Digest(digest), "a test").now()).await.unwrap();
    takes_over(&theirs, "x").await.release().await.unwrap();
}
