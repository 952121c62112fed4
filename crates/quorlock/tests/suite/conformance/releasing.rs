//! Releasing a lock: by `release`, by dropping the lease, or by closing the client.

use std::time::Duration;

use futures_util::FutureExt;
use quorlock::{AcquireError, LostError, Renewals};

use crate::conformance::backend::{Backend, LONG, MEDIUM, assert_free, assert_held, take_over};

pub(crate) async fn a_release_frees_the_lock(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lock in [ours.lock("a"), ours.lock("a").plain()] {
        lock.acquire().await.unwrap().release().await.unwrap();
        assert_free(&theirs, "a").await;
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn a_second_release_does_not_free_the_lock_of_the_next_holder(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lock in [ours.lock("a"), ours.lock("a").plain()] {
        let lease = lock.acquire().await.unwrap();
        // The lease is released twice: by the first poll of the future, and when the future is dropped.
        let mut release = Box::pin(lease.release());
        let _ = release.as_mut().now_or_never();
        let next = take_over(&theirs, "a").await;
        drop(release);
        drop(lock);
        next.extend().await.unwrap();
        assert_held(&ours, "a").await;
        next.release().await.unwrap();
    }
}

pub(crate) async fn dropping_a_lease_frees_the_lock(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lock in [ours.lock("a"), ours.lock("a").plain()] {
        drop(lock.acquire().await.unwrap());
        take_over(&theirs, "a").await.release().await.unwrap();
    }
}

pub(crate) async fn a_dropped_release_still_frees_the_lock(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").acquire().await.unwrap();
    drop(lease.release());
    let lease = take_over(&theirs, "a").await;
    let _ = lease.release().now_or_never();
    take_over(&ours, "a").await.release().await.unwrap();
}

pub(crate) async fn closing_ends_leases_and_delivers_releases(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (a, b) = (ours.lock("a").acquire().await.unwrap(), ours.lock("b").plain().acquire().await.unwrap());
    ours.close(LONG).await.unwrap();
    for lease in [a, b] {
        assert_eq!(lease.lost().await, LostError::Closed);
        assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Closed));
        lease.extend().await.unwrap_err();
    }
    let votes: Vec<String> = backend.lock_keys().into_iter().filter(|key| !key.starts_with("quorlock~")).collect();
    assert!(votes.is_empty(), "{votes:?}");
    assert_free(&theirs, "a").await;
    assert_free(&theirs, "b").await;
}

pub(crate) async fn a_closed_client_acquires_nothing(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = theirs.lock("a").acquire().await.unwrap();
    let lock = ours.lock("a");
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    ours.close(LONG).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(AcquireError::Closed)));
    lease.release().await.unwrap();
    assert!(matches!(lock.try_acquire().await, Err(AcquireError::Closed)));
    assert_free(&theirs, "a").await;
}

pub(crate) async fn a_lease_keeps_its_client_until_it_is_dropped(backend: &Backend) {
    let theirs = backend.client().await;
    let lease = backend.client().await.lock("a").acquire().await.unwrap();
    lease.extend().await.unwrap();
    assert_held(&theirs, "a").await;
    assert!(lease.lost().now_or_never().is_none());
    drop(lease);
    take_over(&theirs, "a").await.release().await.unwrap();
}

pub(crate) async fn a_leaked_lease_ends_at_its_lifetime_limit(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let renewals = Renewals::Watchdog { every: None, lifetime: MEDIUM / 2 };
    std::mem::forget(ours.lock("a").ttl(MEDIUM).renewals(renewals).acquire().await.unwrap());
    drop(ours);
    assert_held(&theirs, "a").await;
    take_over(&theirs, "a").await.release().await.unwrap();
}
