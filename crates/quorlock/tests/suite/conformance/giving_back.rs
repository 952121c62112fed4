//! Releasing a lock: by `release`, by dropping the lease, or by closing the client.

use std::time::Duration;

use futures_util::FutureExt;
use quorlock::{AcquireError, LostError, Renewals};

use crate::conformance::backend::{BRISK, Backend, LONG, is_free, is_held, takes_over};

pub(crate) async fn release_frees(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lock in [ours.lock("a"), ours.lock("a").plain()] {
        lock.acquire().await.unwrap().release().await.unwrap();
        is_free(&theirs, "a").await;
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn release_is_idempotent(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lock in [ours.lock("a"), ours.lock("a").plain()] {
        let lease = lock.acquire().await.unwrap();
        // Released twice: by the future's first poll, and by the drop of the future.
        let mut releasing = Box::pin(lease.release());
        let _ = releasing.as_mut().now_or_never();
        let next = takes_over(&theirs, "a").await;
        drop(releasing);
        drop(lock);
        next.extend().await.unwrap();
        is_held(&ours, "a").await;
        next.release().await.unwrap();
    }
}

pub(crate) async fn drop_frees(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lock in [ours.lock("a"), ours.lock("a").plain()] {
        drop(lock.acquire().await.unwrap());
        takes_over(&theirs, "a").await.release().await.unwrap();
    }
}

pub(crate) async fn a_dropped_release_still_frees(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").acquire().await.unwrap();
    drop(lease.release());
    let lease = takes_over(&theirs, "a").await;
    let _ = lease.release().now_or_never();
    takes_over(&ours, "a").await.release().await.unwrap();
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
    // No node has a vote left.
    let standing: Vec<String> = backend.traces().into_iter().filter(|key| !key.starts_with("quorlock~")).collect();
    assert!(standing.is_empty(), "{standing:?}");
    is_free(&theirs, "a").await;
    is_free(&theirs, "b").await;
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
    is_free(&theirs, "a").await;
}

pub(crate) async fn a_lease_keeps_its_client_until_it_is_dropped(backend: &Backend) {
    let theirs = backend.client().await;
    let lease = backend.client().await.lock("a").acquire().await.unwrap();
    lease.extend().await.unwrap();
    is_held(&theirs, "a").await;
    assert!(lease.lost().now_or_never().is_none());
    drop(lease);
    takes_over(&theirs, "a").await.release().await.unwrap();
}

pub(crate) async fn a_leaked_lease_ends_at_its_lifetime_limit(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let renewals = Renewals::Watchdog { every: None, lifetime: BRISK / 2 };
    std::mem::forget(ours.lock("a").ttl(BRISK).renewals(renewals).acquire().await.unwrap());
    drop(ours);
    is_held(&theirs, "a").await;
    takes_over(&theirs, "a").await.release().await.unwrap();
}
