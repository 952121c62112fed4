//! Reentrant locks: an owner that holds the lock may enter again.

use std::time::Instant;

use futures_util::FutureExt;
use quorlock::{AcquireError, Client, FenceError, Lease, LostError, Owner, Reentrant, Released, Renewals};

use crate::conformance::backend::{
    Backend, LONG, MEDIUM, SHORT, assert_free, assert_held, crash_after, enqueue, take_over, wait_for_holders,
    wait_for_waiters,
};

pub(crate) async fn the_owner_enters_again_and_other_owners_do_not(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let (outer, inner) = (enter(&lock).await, enter(&lock.clone()).await);
    assert_ne!(outer.id(), inner.id());
    for other_lock in [our_client.reentrant("a"), their_client.reentrant("a")] {
        assert!(other_lock.try_acquire().await.unwrap().is_none(), "another owner entered");
    }
    inner.release().await.unwrap();
    assert_held(&their_client, "a").await;
    outer.release().await.unwrap();
    assert_free(&their_client, "a").await;
}

pub(crate) async fn entries_end_in_any_order(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut entries = Vec::new();
        for _ in order {
            entries.push(Some(enter(&lock).await));
        }
        for index in order {
            assert_held(&their_client, "a").await;
            entries[index].take().unwrap().release().await.unwrap();
        }
        wait_for_holders(&our_client, "a", 0).await;
        assert_free(&their_client, "a").await;
    }
}

pub(crate) async fn a_waiter_gets_the_lock_when_the_last_entry_ends(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let (outer, inner) = (enter(&lock).await, enter(&lock).await);
    let fence = outer.fence().unwrap();
    let other_lock = their_client.reentrant("a");
    let waiter = enqueue(&our_client, "a", 1, async move { other_lock.acquire().await }).await;
    drop(inner);
    wait_for_holders(&our_client, "a", 1).await;
    wait_for_waiters(&our_client, "a", 1).await;
    assert!(!waiter.is_finished());
    outer.release().await.unwrap();
    assert!(waiter.await.unwrap().fence().unwrap() > fence);
}

pub(crate) async fn an_owner_enters_again_before_the_waiters(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let outer = enter(&lock).await;
    let other_lock = their_client.reentrant("a");
    let waiter = enqueue(&our_client, "a", 1, async move { other_lock.acquire().await }).await;
    // The waiter waits for the owner. If the owner had to wait for the waiter, too, both would wait forever.
    let inner = lock.acquire().await.unwrap();
    outer.release().await.unwrap();
    let third_entry = enter(&lock).await;
    inner.release().await.unwrap();
    assert!(!waiter.is_finished());
    drop(third_entry);
    waiter.await.unwrap().release().await.unwrap();
}

pub(crate) async fn an_owner_that_is_passed_as_text_enters_with_another_client(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let outer = enter(&lock).await;
    // A node that does not have the first entry yet might grant another fence to the second entry.
    wait_for_holders(&our_client, "a", 1).await;
    let text = lock.owner().reveal();
    let owner = Owner::parse(&text).unwrap();
    assert!(owner == lock.owner() && owner != our_client.new_owner());
    assert!(!format!("{owner:?} {lock:?}").contains(&text), "the debug output shows the owner, which is a secret");
    assert!(["", "x", &text[1..], &format!("{text}0")].into_iter().all(|text| Owner::parse(text).is_none()));

    let inner = enter(&their_client.reentrant("a").owned_by(owner)).await;
    assert_eq!(outer.fence().unwrap(), inner.fence().unwrap());
    outer.release().await.unwrap();
    assert_held(&our_client, "a").await;
    assert!(their_client.reentrant("a").try_acquire().await.unwrap().is_none(), "another owner entered");
    inner.release().await.unwrap();
    assert_free(&our_client, "a").await;
}

pub(crate) async fn all_entries_have_one_fence(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let mut last_fence = None;
    for _ in 0..3 {
        let mut entries = Vec::new();
        for _ in 0..3 {
            entries.push(enter(&lock).await);
            assert!(their_client.reentrant("a").try_acquire().await.unwrap().is_none());
        }
        entries[0].extend().await.unwrap();
        let fences: Vec<_> = entries.iter().map(|entry| entry.fence().unwrap()).collect();
        assert!(fences.iter().all(|fence| *fence == fences[0]), "{fences:?}");
        assert!(
            last_fence.replace(fences[0]) < Some(fences[0]),
            "the fence did not grow when the owner acquired the lock again"
        );
        for entry in entries {
            entry.release().await.unwrap();
        }
    }
}

pub(crate) async fn an_owner_has_one_fence_for_each_name(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let owner = our_client.new_owner();
    let lock_of = |client: &Client, name: &str| client.reentrant(name).owned_by(owner);
    // Ten leases raise the fence of "b" above the fence of "a", even if both are already above the nodes' clocks.
    for _ in 0..10 {
        their_client.lock("b").acquire().await.unwrap().release().await.unwrap();
    }
    for _ in 0..3 {
        let entry_a = enter(&lock_of(&our_client, "a")).await;
        let fence = entry_a.fence().unwrap();
        let entry_b = enter(&lock_of(&our_client, "b")).await;
        assert!(entry_b.fence().unwrap() > fence);
        assert_eq!(entry_a.fence(), Ok(fence));
        assert_eq!(entry_a.as_detached().fence(), Some(fence));
        let second_entry_a = enter(&lock_of(&our_client, "a")).await;
        assert_eq!(second_entry_a.fence(), Ok(fence));
        let detached = second_entry_a.detach().unwrap();
        assert_eq!(detached.fence(), Some(fence));
        our_client.release(&detached).await.unwrap();
        entry_a.release().await.unwrap();
        let other_lease = their_client.lock("a").acquire().await.unwrap();
        assert!(other_lease.fence().unwrap() > fence);
        other_lease.release().await.unwrap();
        entry_b.release().await.unwrap();
    }
}

pub(crate) async fn a_cancelled_entry_does_not_affect_the_other_entries(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let outer = enter(&lock).await;
    for _ in 0..5 {
        let mut entering = Box::pin(lock.acquire());
        let _ = entering.as_mut().now_or_never();
        drop(entering);
        drop(lock.acquire().await.unwrap());
    }
    wait_for_holders(&our_client, "a", 1).await;
    outer.extend().await.unwrap();
    assert_held(&their_client, "a").await;
    outer.release().await.unwrap();
    assert_free(&their_client, "a").await;
}

pub(crate) async fn each_entry_is_renewed_separately(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a").ttl(MEDIUM);
    let (outer, inner) = (enter(&lock).await, enter(&lock).await);
    outer.release().await.unwrap();
    let end = Instant::now() + MEDIUM * 2;
    while Instant::now() < end {
        assert_held(&their_client, "a").await;
        tokio::time::sleep(MEDIUM / 20).await;
    }
    inner.release().await.unwrap();
    assert_free(&their_client, "a").await;
}

pub(crate) async fn an_entry_of_a_crashed_client_does_not_affect_the_other_entries(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let outer = enter(&lock).await;
    enter_and_crash(backend, lock.owner()).await;
    wait_for_holders(&our_client, "a", 1).await;
    assert_held(&their_client, "a").await;
    outer.extend().await.unwrap();
}

pub(crate) async fn an_entry_of_a_crashed_client_ends_with_its_own_ttl(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let outer = enter(&lock).await;
    let start = Instant::now();
    enter_and_crash(backend, lock.owner()).await;
    // After the release of the outer entry, whose ttl is much longer, only the entry of the crashed client blocks the
    // lock.
    outer.release().await.unwrap();
    let _next_lease = take_over(&their_client, "a").await;
    assert!(start.elapsed() >= SHORT, "the entry of the crashed client did not block the lock");
}

pub(crate) async fn an_owner_that_lost_its_entries_must_acquire_again(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let expiring = enter(&lock.clone().ttl(SHORT).renewals(Renewals::Off)).await;
    let lost_fence = expiring.fence().unwrap();
    expiring.lost().await;
    let other_lease = take_over(&their_client, "a").await;
    let fence = other_lease.fence().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none(), "the owner entered while another owner held the lock");
    other_lease.release().await.unwrap();
    let new_lease = lock.acquire().await.unwrap();
    assert!(lost_fence < fence && fence < new_lease.fence().unwrap());
    assert_eq!(expiring.fence(), Err(FenceError::Lost(LostError::Expired)));
    expiring.release().await.unwrap_err();
    new_lease.extend().await.unwrap();
}

/// Enters the lock "a" as this owner with another client, which then crashes.
async fn enter_and_crash(backend: &Backend, owner: Owner) {
    let hold = async move |client: &Client| enter(&client.reentrant("a").owned_by(owner).ttl(SHORT)).await;
    crash_after(backend.builder(), hold).await;
}

/// Enters a lock that is free or that the same owner holds.
async fn enter(lock: &Reentrant) -> Lease {
    lock.try_acquire().await.unwrap().expect("the owner can enter")
}

pub(crate) async fn a_retired_owner_loses_its_entries_and_cannot_enter_again(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.reentrant("a");
    let same_owner = their_client.reentrant("a").owned_by(lock.owner());
    let (first_entry, second_entry) = (enter(&lock).await, enter(&same_owner).await);
    wait_for_holders(&our_client, "a", 2).await;
    let next_lock = their_client.lock("a");
    let waiter = enqueue(&our_client, "a", 1, async move { next_lock.acquire().await }).await;
    assert_eq!(our_client.retire("a", lock.owner(), LONG).await, Ok(Released::StillHeld));
    let next_lease = waiter.await.unwrap();
    assert!(next_lease.fence().unwrap() > first_entry.fence().unwrap());
    for lock in [&lock, &same_owner] {
        let refused = lock.try_acquire().await.unwrap_err();
        assert!(matches!(refused, AcquireError::Retired { .. }), "{refused}");
    }
    drop((first_entry, second_entry));
    assert_held(&our_client, "a").await;
    assert_eq!(our_client.retire("a", lock.owner(), LONG).await, Ok(Released::AlreadyEnded));
    next_lease.release().await.unwrap();
    assert_free(&their_client, "a").await;
}

pub(crate) async fn a_waiter_learns_that_its_owner_is_retired(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("a").acquire().await.unwrap();
    let lock = their_client.reentrant("a");
    let owner = lock.owner();
    let refused = async move { Ok(lock.acquire().await.unwrap_err()) };
    let waiter = enqueue(&our_client, "a", 1, refused).await;
    our_client.retire("a", owner, LONG).await.unwrap();
    let refused = waiter.await.unwrap();
    assert!(matches!(refused, AcquireError::Retired { .. }), "{refused}");
    wait_for_waiters(&our_client, "a", 0).await;
    assert!(lease.fence().is_ok());
}

pub(crate) async fn an_owner_is_retired_from_one_name_only(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let owner = our_client.new_owner();
    let [first, second] = ["a", "b"].map(|name| our_client.reentrant(name).owned_by(owner));
    let (first_entry, second_entry) = (enter(&first).await, enter(&second).await);
    let reading = our_client.rw("c").owned_by(owner).read().acquire().await.unwrap();
    assert_eq!(our_client.retire("a", owner, LONG).await, Ok(Released::StillHeld));
    assert!(matches!(first.try_acquire().await, Err(AcquireError::Retired { .. })));
    assert_free(&their_client, "a").await;
    second_entry.extend().await.unwrap();
    reading.extend().await.unwrap();
    enter(&second).await.release().await.unwrap();
    assert_held(&their_client, "b").await;
    drop((first_entry, second_entry, reading));
}

pub(crate) async fn retiring_a_reader_leaves_the_other_readers(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let owner = our_client.new_owner();
    let reader = our_client.rw("a").owned_by(owner);
    let (first_entry, second_entry) = (reader.read().acquire().await.unwrap(), reader.read().acquire().await.unwrap());
    let other_reader = their_client.rw("a").read().acquire().await.unwrap();
    wait_for_holders(&our_client, "a", 3).await;
    our_client.retire("a", owner, LONG).await.unwrap();
    wait_for_holders(&our_client, "a", 1).await;
    assert!(matches!(reader.read().try_acquire().await, Err(AcquireError::Retired { .. })));
    drop((first_entry, second_entry));
    other_reader.release().await.unwrap();
    assert_free(&their_client, "a").await;
}
