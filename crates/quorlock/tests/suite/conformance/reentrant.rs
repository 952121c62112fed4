//! The reentrant lock.

use std::time::Instant;

use futures_util::FutureExt;
use quorlock::{AcquireError, Client, FenceError, Lease, LostError, Owner, Reentrant, Released, Renewals};

use crate::conformance::backend::{
    BRISK, Backend, LONG, SHORT, crash_after, held_by, is_free, is_held, queue, queued_again, takes_over,
};

pub(crate) async fn the_owner_enters_again_and_others_do_not(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let (outer, inner) = (enter(&lock).await, enter(&lock.clone()).await);
    assert_ne!(outer.id(), inner.id());
    for other in [ours.reentrant("a"), theirs.reentrant("a")] {
        assert!(other.try_acquire().await.unwrap().is_none(), "another owner");
    }
    inner.release().await.unwrap();
    is_held(&theirs, "a").await;
    outer.release().await.unwrap();
    is_free(&theirs, "a").await;
}

pub(crate) async fn entries_end_in_any_order(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut entries = Vec::new();
        for _ in order {
            entries.push(Some(enter(&lock).await));
        }
        for at in order {
            is_held(&theirs, "a").await;
            entries[at].take().unwrap().release().await.unwrap();
        }
        held_by(&ours, "a", 0).await;
        is_free(&theirs, "a").await;
    }
}

pub(crate) async fn the_last_exit_lets_a_waiter_in(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let (outer, inner) = (enter(&lock).await, enter(&lock).await);
    let fence = outer.fence().unwrap();
    let other = theirs.reentrant("a");
    let waiting = queue(&ours, "a", 1, async move { other.acquire().await }).await;
    drop(inner);
    held_by(&ours, "a", 1).await;
    queued_again(&ours, "a", 1).await;
    assert!(!waiting.is_finished());
    outer.release().await.unwrap();
    assert!(waiting.await.unwrap().fence().unwrap() > fence);
}

pub(crate) async fn an_owner_does_not_wait_behind_others(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let outer = enter(&lock).await;
    let other = theirs.reentrant("a");
    let waiting = queue(&ours, "a", 1, async move { other.acquire().await }).await;
    // Otherwise the two would deadlock.
    let inner = lock.acquire().await.unwrap();
    outer.release().await.unwrap();
    let again = enter(&lock).await;
    inner.release().await.unwrap();
    assert!(!waiting.is_finished());
    drop(again);
    waiting.await.unwrap().release().await.unwrap();
}

pub(crate) async fn an_owner_passed_as_text_enters_elsewhere(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let outer = enter(&lock).await;
    // A node that does not have the first entry yet might give the second another fence.
    held_by(&ours, "a", 1).await;
    let text = lock.owner().reveal();
    let owner = Owner::parse(&text).unwrap();
    assert!(owner == lock.owner() && owner != ours.new_owner());
    assert!(!format!("{owner:?} {lock:?}").contains(&text), "it is a secret");
    assert!(["", "x", &text[1..], &format!("{text}0")].into_iter().all(|text| Owner::parse(text).is_none()));

    let inner = enter(&theirs.reentrant("a").owned_by(owner)).await;
    assert_eq!(outer.fence().unwrap(), inner.fence().unwrap());
    outer.release().await.unwrap();
    is_held(&ours, "a").await;
    assert!(theirs.reentrant("a").try_acquire().await.unwrap().is_none(), "another owner");
    inner.release().await.unwrap();
    is_free(&ours, "a").await;
}

pub(crate) async fn all_entries_have_one_fence(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let mut last = None;
    for _ in 0..3 {
        let mut entries = Vec::new();
        for _ in 0..3 {
            entries.push(enter(&lock).await);
            assert!(theirs.reentrant("a").try_acquire().await.unwrap().is_none());
        }
        entries[0].extend().await.unwrap();
        let fences: Vec<_> = entries.iter().map(|entry| entry.fence().unwrap()).collect();
        assert!(fences.iter().all(|fence| *fence == fences[0]), "{fences:?}");
        assert!(last.replace(fences[0]) < Some(fences[0]), "every time that it is taken has a higher one");
        for entry in entries {
            entry.release().await.unwrap();
        }
    }
}

pub(crate) async fn an_owner_has_a_fence_for_each_name(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let owner = ours.new_owner();
    let of = |client: &Client, name: &str| client.reentrant(name).owned_by(owner);
    // So that its fences are ahead, even if they count from a floor ahead of the clock.
    for _ in 0..10 {
        theirs.lock("b").acquire().await.unwrap().release().await.unwrap();
    }
    for _ in 0..3 {
        let first = enter(&of(&ours, "a")).await;
        let fence = first.fence().unwrap();
        let second = enter(&of(&ours, "b")).await;
        assert!(second.fence().unwrap() > fence);
        assert_eq!(first.fence(), Ok(fence));
        assert_eq!(first.as_detached().fence(), Some(fence));
        let again = enter(&of(&ours, "a")).await;
        assert_eq!(again.fence(), Ok(fence));
        let detached = again.detach().unwrap();
        assert_eq!(detached.fence(), Some(fence));
        ours.release(&detached).await.unwrap();
        first.release().await.unwrap();
        let other = theirs.lock("a").acquire().await.unwrap();
        assert!(other.fence().unwrap() > fence);
        other.release().await.unwrap();
        second.release().await.unwrap();
    }
}

pub(crate) async fn a_cancelled_entry_does_not_affect_the_others(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let outer = enter(&lock).await;
    for _ in 0..5 {
        let mut entering = Box::pin(lock.acquire());
        let _ = entering.as_mut().now_or_never();
        drop(entering);
        drop(lock.acquire().await.unwrap());
    }
    held_by(&ours, "a", 1).await;
    outer.extend().await.unwrap();
    is_held(&theirs, "a").await;
    outer.release().await.unwrap();
    is_free(&theirs, "a").await;
}

pub(crate) async fn each_entry_is_renewed_by_itself(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a").ttl(BRISK);
    let (outer, inner) = (enter(&lock).await, enter(&lock).await);
    outer.release().await.unwrap();
    let end = Instant::now() + BRISK * 2;
    while Instant::now() < end {
        is_held(&theirs, "a").await;
        tokio::time::sleep(BRISK / 20).await;
    }
    inner.release().await.unwrap();
    is_free(&theirs, "a").await;
}

pub(crate) async fn a_forgotten_entry_does_not_affect_the_others(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let outer = enter(&lock).await;
    enter_and_crash(backend, lock.owner()).await;
    held_by(&ours, "a", 1).await;
    is_held(&theirs, "a").await;
    outer.extend().await.unwrap();
}

pub(crate) async fn a_forgotten_entry_ends_with_its_own_ttl(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let outer = enter(&lock).await;
    let before = Instant::now();
    enter_and_crash(backend, lock.owner()).await;
    // The outer entry would have lasted much longer.
    outer.release().await.unwrap();
    let _next = takes_over(&theirs, "a").await;
    assert!(before.elapsed() >= SHORT, "the entry was not in the way");
}

pub(crate) async fn an_owner_that_lost_its_entries_must_acquire_again(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let lapsing = enter(&lock.clone().ttl(SHORT).renewals(Renewals::Off)).await;
    let lost = lapsing.fence().unwrap();
    lapsing.lost().await;
    let between = takes_over(&theirs, "a").await;
    let fence = between.fence().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none(), "another owner holds it now");
    between.release().await.unwrap();
    let anew = lock.acquire().await.unwrap();
    assert!(lost < fence && fence < anew.fence().unwrap());
    assert_eq!(lapsing.fence(), Err(FenceError::Lost(LostError::Expired)));
    lapsing.release().await.unwrap_err();
    anew.extend().await.unwrap();
}

/// Enters once more with a client that then crashes.
async fn enter_and_crash(backend: &Backend, owner: Owner) {
    let hold = async move |client: &Client| enter(&client.reentrant("a").owned_by(owner).ttl(SHORT)).await;
    crash_after(backend.builder(), hold).await;
}

async fn enter(lock: &Reentrant) -> Lease {
    lock.try_acquire().await.unwrap().expect("it should be open to its owner")
}

pub(crate) async fn a_retired_owner_loses_its_entries_and_cannot_enter(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.reentrant("a");
    let elsewhere = theirs.reentrant("a").owned_by(lock.owner());
    let (one, other) = (enter(&lock).await, enter(&elsewhere).await);
    held_by(&ours, "a", 2).await;
    let next = theirs.lock("a");
    let waiting = queue(&ours, "a", 1, async move { next.acquire().await }).await;
    assert_eq!(ours.retire("a", lock.owner(), LONG).await, Ok(Released::Standing));
    let lease = waiting.await.unwrap();
    assert!(lease.fence().unwrap() > one.fence().unwrap());
    for lock in [&lock, &elsewhere] {
        let refused = lock.try_acquire().await.unwrap_err();
        assert!(matches!(refused, AcquireError::Retired { .. }), "{refused}");
    }
    drop((one, other));
    is_held(&ours, "a").await;
    assert_eq!(ours.retire("a", lock.owner(), LONG).await, Ok(Released::Gone));
    lease.release().await.unwrap();
    is_free(&theirs, "a").await;
}

pub(crate) async fn a_waiter_learns_that_it_is_retired(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").acquire().await.unwrap();
    let lock = theirs.reentrant("a");
    let owner = lock.owner();
    let refused = async move { Ok(lock.acquire().await.unwrap_err()) };
    let waiting = queue(&ours, "a", 1, refused).await;
    ours.retire("a", owner, LONG).await.unwrap();
    let refused = waiting.await.unwrap();
    assert!(matches!(refused, AcquireError::Retired { .. }), "{refused}");
    queued_again(&ours, "a", 0).await;
    assert!(lease.fence().is_ok());
}

pub(crate) async fn an_owner_is_retired_from_one_name_only(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let owner = ours.new_owner();
    let [first, second] = ["a", "b"].map(|name| ours.reentrant(name).owned_by(owner));
    let (one, other) = (enter(&first).await, enter(&second).await);
    let reading = ours.rw("c").owned_by(owner).read().acquire().await.unwrap();
    assert_eq!(ours.retire("a", owner, LONG).await, Ok(Released::Standing));
    assert!(matches!(first.try_acquire().await, Err(AcquireError::Retired { .. })));
    is_free(&theirs, "a").await;
    other.extend().await.unwrap();
    reading.extend().await.unwrap();
    enter(&second).await.release().await.unwrap();
    is_held(&theirs, "b").await;
    drop((one, other, reading));
}

pub(crate) async fn readers_are_retired_one_by_one(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let owner = ours.new_owner();
    let reader = ours.rw("a").owned_by(owner);
    let (one, again) = (reader.read().acquire().await.unwrap(), reader.read().acquire().await.unwrap());
    let other = theirs.rw("a").read().acquire().await.unwrap();
    held_by(&ours, "a", 3).await;
    ours.retire("a", owner, LONG).await.unwrap();
    held_by(&ours, "a", 1).await;
    assert!(matches!(reader.read().try_acquire().await, Err(AcquireError::Retired { .. })));
    drop((one, again));
    other.release().await.unwrap();
    is_free(&theirs, "a").await;
}
