//! Releases a lock: by `release`, by dropping the lease, or by closing the client.

use std::time::Duration;

use futures_util::FutureExt;
use quorlock::{AcquireError, LostError, Renewals};

use crate::conformance::backend::{Backend, LONG, MEDIUM, assert_free, assert_held, take_over};

pub(crate) async fn a_release_frees_the_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for lock in [our_client.lock("a"), our_client.lock("a").plain()] {
        lock.acquire().await.unwrap().release().await.unwrap();
        assert_free(&their_client, "a").await;
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn a_second_release_does_not_free_the_lock_of_the_next_holder(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for lock in [our_client.lock("a"), our_client.lock("a").plain()] {
        let lease = lock.acquire().await.unwrap();
        // The lease is released twice: by the first poll of the future, and when the future is dropped.
        let mut release = Box::pin(lease.release());
        let _ = release.as_mut().now_or_never();
        let next_lease = take_over(&their_client, "a").await;
        drop(release);
        drop(lock);
        next_lease.extend().await.unwrap();
        assert_held(&our_client, "a").await;
        next_lease.release().await.unwrap();
    }
}

pub(crate) async fn dropping_a_lease_frees_the_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for lock in [our_client.lock("a"), our_client.lock("a").plain()] {
        drop(lock.acquire().await.unwrap());
        take_over(&their_client, "a").await.release().await.unwrap();
    }
}

pub(crate) async fn a_dropped_release_still_frees_the_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("a").acquire().await.unwrap();
    drop(lease.release());
    let lease = take_over(&their_client, "a").await;
    let _ = lease.release().now_or_never();
    take_over(&our_client, "a").await.release().await.unwrap();
}

pub(crate) async fn closing_ends_leases_and_delivers_releases(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let (lease_a, lease_b) =
        (our_client.lock("a").acquire().await.unwrap(), our_client.lock("b").plain().acquire().await.unwrap());
    our_client.close(LONG).await.unwrap();
    for lease in [lease_a, lease_b] {
        assert_eq!(lease.lost().await, LostError::Closed);
        assert_eq!(lease.ensure(Duration::ZERO), Err(LostError::Closed));
        lease.extend().await.unwrap_err();
    }
    let votes: Vec<String> = backend.lock_keys().into_iter().filter(|key| !key.starts_with("quorlock~")).collect();
    assert!(votes.is_empty(), "{votes:?}");
    assert_free(&their_client, "a").await;
    assert_free(&their_client, "b").await;
}

pub(crate) async fn a_closed_client_acquires_nothing(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("a").acquire().await.unwrap();
    let lock = our_client.lock("a");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    our_client.close(LONG).await.unwrap();
    assert!(matches!(waiter.await.unwrap(), Err(AcquireError::Closed)));
    lease.release().await.unwrap();
    assert!(matches!(lock.try_acquire().await, Err(AcquireError::Closed)));
    assert_free(&their_client, "a").await;
}

pub(crate) async fn a_lease_keeps_its_client_until_it_is_dropped(backend: &Backend) {
    let their_client = backend.client().await;
    let lease = backend.client().await.lock("a").acquire().await.unwrap();
    lease.extend().await.unwrap();
    assert_held(&their_client, "a").await;
    assert!(lease.lost().now_or_never().is_none());
    drop(lease);
    take_over(&their_client, "a").await.release().await.unwrap();
}

pub(crate) async fn a_leaked_lease_ends_at_its_lifetime_limit(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let renewals = Renewals::Watchdog { every: None, lifetime: MEDIUM / 2 };
    std::mem::forget(our_client.lock("a").ttl(MEDIUM).renewals(renewals).acquire().await.unwrap());
    drop(our_client);
    assert_held(&their_client, "a").await;
    take_over(&their_client, "a").await.release().await.unwrap();
}
