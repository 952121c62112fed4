//! Renews a lease, and loses a lease that is not renewed.

use std::time::{Duration, Instant};

use quorlock::{Client, FenceError, Lease, LeaseError, Lock, LostError, Renewals};

use crate::conformance::backend::{Backend, MEDIUM, SHORT, assert_held, crash_after};

pub(crate) async fn manual_extensions_keep_a_lease(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let extend = async |lock: Lock| {
        let lease = lock.ttl(MEDIUM).renewals(Renewals::Off).acquire().await.unwrap();
        // Without extensions the lease would expire before this time.
        let end = Instant::now() + MEDIUM;
        while Instant::now() < end {
            lease.extend().await.unwrap();
            tokio::time::sleep(MEDIUM / 20).await;
        }
        lease
    };
    let (fenced_lease, plain_lease) =
        tokio::join!(extend(our_client.lock("fenced")), extend(our_client.lock("plain").plain()));
    assert_held(&their_client, "fenced").await;
    assert_held(&their_client, "plain").await;
    fenced_lease.ensure(Duration::ZERO).unwrap();
    plain_lease.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn an_unrenewed_lease_expires(backend: &Backend) {
    let client = backend.client().await;
    let check = async |lock: Lock| {
        let expired = expired_lease(&lock).await;
        assert_eq!(expired.lost().await, LostError::Expired);
        assert_eq!(expired.validity(), Duration::ZERO);
        assert_eq!(expired.ensure(Duration::ZERO), Err(LostError::Expired));
        assert_eq!(expired.fence(), Err(FenceError::Lost(LostError::Expired)));
        assert_eq!(expired.extend().await, Err(LeaseError::Lost(LostError::Expired)));
        assert_eq!(expired.release().await, Err(LeaseError::Lost(LostError::Expired)));
        lock.acquire().await.unwrap().release().await.unwrap();
    };
    tokio::join!(check(client.lock("fenced")), check(client.lock("plain").plain()));
}

pub(crate) async fn an_expired_lease_does_not_affect_the_next_holder(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let check = async |name: &str, with_kind: fn(Lock) -> Lock| {
        let lock = with_kind(our_client.lock(name)).ttl(SHORT).renewals(Renewals::Off);
        let expiring = lock.acquire().await.unwrap();
        let fence = expiring.fence();
        let next_lease = with_kind(their_client.lock(name)).acquire().await.unwrap();
        assert_eq!(expiring.ensure(Duration::ZERO), Err(LostError::Expired), "the next client has the lock already");
        if let Ok(fence) = fence {
            assert!(next_lease.fence().unwrap() > fence);
        }
        expiring.extend().await.unwrap_err();
        expiring.release().await.unwrap_err();
        next_lease.extend().await.unwrap();
        assert_held(&our_client, name).await;
    };
    tokio::join!(check("fenced", |lock| lock), check("plain", Lock::plain));
}

pub(crate) async fn a_crashed_holder_blocks_the_lock_for_its_ttl(backend: &Backend) {
    let client = backend.client().await;
    let check = async |name: &'static str, with_kind: fn(Lock) -> Lock| {
        let start = Instant::now();
        let hold = async move |client: &Client| with_kind(client.lock(name)).ttl(SHORT).acquire().await.unwrap();
        crash_after(backend.builder(), hold).await;
        let _next_lease = with_kind(client.lock(name)).acquire().await.unwrap();
        assert!(start.elapsed() >= SHORT, "the lease of the crashed client did not block the lock");
    };
    tokio::join!(check("fenced", |lock| lock), check("plain", Lock::plain));
}

pub(crate) async fn the_watchdog_keeps_a_lease(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let (fenced_lease, plain_lease) =
        (our_client.lock("fenced").ttl(MEDIUM), our_client.lock("plain").plain().ttl(MEDIUM));
    let (fenced_lease, plain_lease) = (fenced_lease.acquire().await.unwrap(), plain_lease.acquire().await.unwrap());
    let end = Instant::now() + MEDIUM * 2;
    while Instant::now() < end {
        assert_held(&their_client, "fenced").await;
        assert_held(&their_client, "plain").await;
        tokio::time::sleep(MEDIUM / 20).await;
    }
    fenced_lease.ensure(Duration::ZERO).unwrap();
    plain_lease.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn a_lease_ends_at_its_lifetime_limit(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    // The lifetime is long enough for one renewal, after a third of the ttl.
    let renewals = Renewals::Watchdog { every: None, lifetime: MEDIUM / 2 };
    let lease = our_client.lock("a").ttl(MEDIUM).renewals(renewals).acquire().await.unwrap();
    let end_without_renewal = Instant::now() + lease.validity();
    assert_eq!(lease.lost().await, LostError::Expired);
    assert!(Instant::now() > end_without_renewal, "the lease was never renewed");
    their_client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

/// Acquires this lock, and returns the lease after it has expired.
async fn expired_lease(lock: &Lock) -> Lease {
    let lease = lock.clone().ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap();
    lease.lost().await;
    lease
}
