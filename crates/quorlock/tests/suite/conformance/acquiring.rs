//! Acquires a lock, at once or after a wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::{AcquireError, FenceError, HeldError, Lock, Retry};

use crate::conformance::backend::{Backend, LONG, assert_free, assert_held, take_over};

pub(crate) async fn a_free_lock_is_acquired_at_once(backend: &Backend) {
    let client = backend.client().await;
    let lease = client.lock("a").try_acquire().await.unwrap().unwrap();
    assert_eq!(lease.name().as_str(), "a");
    assert!(lease.fence().unwrap().get() > 0);
    assert!(lease.validity() > LONG / 2 && lease.validity() < LONG);
    lease.ensure(LONG / 2).unwrap();
    lease.ensure(LONG).unwrap_err();
}

pub(crate) async fn a_held_lock_is_not_acquired(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("a").acquire().await.unwrap();
    assert_held(&our_client, "a").await;
    assert_held(&their_client, "a").await;
    lease.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn acquire_waits_until_the_lock_is_released(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("a").acquire().await.unwrap();
    let fence = lease.fence().unwrap();
    let lock = our_client.lock("a");
    let mut acquire = tokio::spawn(async move { lock.acquire().await });
    // In this time there are many retries. None of them may succeed while the lock is held.
    tokio::time::timeout(Duration::from_millis(100), &mut acquire).await.unwrap_err();
    lease.release().await.unwrap();
    assert!(acquire.await.unwrap().unwrap().fence().unwrap() > fence);
}

pub(crate) async fn acquire_within_names_the_holder(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("a").label("label of the holder").acquire().await.unwrap();
    let error = expect_held(&our_client.lock("a")).await;
    assert_eq!(error.name.as_str(), "a");
    let holder = error.holder.as_ref().unwrap();
    assert!(!holder.host.is_empty());
    assert_eq!((holder.pid, holder.label.as_str()), (std::process::id(), "label of the holder"));
    assert!(error.remaining.is_some_and(|left| left > LONG / 2 && left <= LONG));
    assert!(error.fence >= Some(lease.fence().unwrap()));
    let (nodes, majority) = backend.quorum();
    assert_eq!((error.tally.votes.len(), error.tally.nodes.len()), (nodes, nodes));
    assert!(error.tally.refused() > nodes - majority, "{}", error.tally);
    let text = error.to_string();
    assert!(text.contains("label of the holder") && text.contains(&holder.host) && text.contains("0 of"), "{text}");
}

pub(crate) async fn the_label_of_a_lock_replaces_the_label_of_its_client(backend: &Backend) {
    let our_client = backend.builder().label("the client's").connect().await.unwrap();
    let their_client = backend.client().await;
    let lock = our_client.lock("a");
    for (lock, label) in [(lock.clone(), "the client's"), (lock.label("the lock's \u{9501}"), "the lock's \u{9501}")] {
        let lease = lock.acquire().await.unwrap();
        assert_eq!(expect_held(&their_client.lock("a")).await.holder.unwrap().label, label);
        lease.release().await.unwrap();
    }
}

pub(crate) async fn an_acquire_ends_after_its_last_retry(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("a").acquire().await.unwrap();
    let retry = Retry { min: Duration::ZERO, max: Duration::from_millis(1), attempts: Some(3) };
    let lock = our_client.lock("a").retry(retry);
    assert!(matches!(lock.acquire().await, Err(AcquireError::Held(_))));
    lease.release().await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let without_attempts = our_client.lock("a").retry(Retry { attempts: Some(0), ..retry });
    assert!(matches!(without_attempts.acquire().await, Err(AcquireError::Config(_))));
}

pub(crate) async fn leases_of_two_names_are_independent(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease_a = our_client.lock("a").acquire().await.unwrap();
    let lease_b = their_client.lock("b").try_acquire().await.unwrap().unwrap();
    lease_a.release().await.unwrap();
    assert_held(&our_client, "b").await;
    assert_free(&their_client, "a").await;
    lease_b.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn plain_and_fenced_locks_exclude_each_other(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let fenced_lease = our_client.lock("a").acquire().await.unwrap();
    let first_fence = fenced_lease.fence().unwrap();
    assert!(their_client.lock("a").plain().try_acquire().await.unwrap().is_none());
    let error = expect_held(&their_client.lock("a").plain()).await;
    assert!(error.holder.is_some() && error.remaining.is_some() && error.fence == Some(first_fence), "{error}");
    fenced_lease.release().await.unwrap();

    let plain_lease = their_client.lock("a").plain().acquire().await.unwrap();
    assert_held(&our_client, "a").await;
    // A plain lock has no holder information.
    for lock in [our_client.lock("a"), our_client.lock("a").plain()] {
        let error = expect_held(&lock).await;
        assert!(error.holder.is_none() && error.remaining.is_some());
    }
    plain_lease.release().await.unwrap();
    assert!(take_over(&our_client, "a").await.fence().unwrap() > first_fence);
}

pub(crate) async fn there_is_one_holder_at_a_time_and_fences_grow(backend: &Backend) {
    let (is_held, fences) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (client, is_held, fences) = (backend.client().await, Arc::clone(&is_held), Arc::clone(&fences));
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let lease = client.lock("a").acquire().await.unwrap();
                assert!(!is_held.swap(true, Ordering::SeqCst), "two clients hold the lock");
                tokio::task::yield_now().await;
                fences.lock().unwrap().push(lease.fence().unwrap());
                is_held.store(false, Ordering::SeqCst);
                // About half of the leases are released, and the others are dropped.
                if lease.fence().unwrap().get() % 2 == 0 {
                    lease.release().await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let fences = fences.lock().unwrap();
    assert_eq!(fences.len(), 30);
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
}

pub(crate) async fn a_plain_lock_has_no_fence(backend: &Backend) {
    let client = backend.client().await;
    let lease = client.lock("a").plain().acquire().await.unwrap();
    assert_eq!(lease.fence(), Err(FenceError::Plain));
    lease.extend().await.unwrap();
    lease.release().await.unwrap();
    assert_free(&client, "a").await;
}

/// Tries to acquire a held lock, and returns the error.
async fn expect_held(lock: &Lock) -> HeldError {
    match lock.acquire_within(Duration::ZERO).await {
        Err(AcquireError::Held(error)) => *error,
        other => panic!("the lock is not held: {other:?}"),
    }
}
