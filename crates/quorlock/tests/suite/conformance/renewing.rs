//! Renewing a lease, and losing a lease that is not renewed.

use std::time::{Duration, Instant};

use quorlock::{Client, FenceError, Lease, LeaseError, Lock, LostError, Renewals};

use crate::conformance::backend::{Backend, MEDIUM, SHORT, assert_held, crash_after};

pub(crate) async fn manual_extensions_keep_a_lease(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
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
    let (fenced, plain) = tokio::join!(extend(ours.lock("fenced")), extend(ours.lock("plain").plain()));
    assert_held(&theirs, "fenced").await;
    assert_held(&theirs, "plain").await;
    fenced.ensure(Duration::ZERO).unwrap();
    plain.ensure(Duration::ZERO).unwrap();
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
    let (ours, theirs) = backend.rivals().await;
    let check = async |name: &str, kind: fn(Lock) -> Lock| {
        let lock = kind(ours.lock(name)).ttl(SHORT).renewals(Renewals::Off);
        let expiring = lock.acquire().await.unwrap();
        let fence = expiring.fence();
        let next = kind(theirs.lock(name)).acquire().await.unwrap();
        assert_eq!(expiring.ensure(Duration::ZERO), Err(LostError::Expired), "the next client has the lock already");
        if let Ok(fence) = fence {
            assert!(next.fence().unwrap() > fence);
        }
        expiring.extend().await.unwrap_err();
        expiring.release().await.unwrap_err();
        next.extend().await.unwrap();
        assert_held(&ours, name).await;
    };
    tokio::join!(check("fenced", |lock| lock), check("plain", Lock::plain));
}

pub(crate) async fn a_crashed_holder_blocks_the_lock_for_its_ttl(backend: &Backend) {
    let client = backend.client().await;
    let check = async |name: &'static str, kind: fn(Lock) -> Lock| {
        let before = Instant::now();
        let hold = async move |client: &Client| kind(client.lock(name)).ttl(SHORT).acquire().await.unwrap();
        crash_after(backend.builder(), hold).await;
        let _next = kind(client.lock(name)).acquire().await.unwrap();
        assert!(before.elapsed() >= SHORT, "the lease of the crashed client did not block the lock");
    };
    tokio::join!(check("fenced", |lock| lock), check("plain", Lock::plain));
}

pub(crate) async fn the_watchdog_keeps_a_lease(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (fenced, plain) = (ours.lock("fenced").ttl(MEDIUM), ours.lock("plain").plain().ttl(MEDIUM));
    let (fenced, plain) = (fenced.acquire().await.unwrap(), plain.acquire().await.unwrap());
    let end = Instant::now() + MEDIUM * 2;
    while Instant::now() < end {
        assert_held(&theirs, "fenced").await;
        assert_held(&theirs, "plain").await;
        tokio::time::sleep(MEDIUM / 20).await;
    }
    fenced.ensure(Duration::ZERO).unwrap();
    plain.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn a_lease_ends_at_its_lifetime_limit(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    // Long enough for one renewal, after a third of the ttl.
    let renewals = Renewals::Watchdog { every: None, lifetime: MEDIUM / 2 };
    let lease = ours.lock("a").ttl(MEDIUM).renewals(renewals).acquire().await.unwrap();
    let end_without_renewal = Instant::now() + lease.validity();
    assert_eq!(lease.lost().await, LostError::Expired);
    assert!(Instant::now() > end_without_renewal, "the lease was never renewed");
    theirs.lock("a").acquire().await.unwrap().release().await.unwrap();
}

/// Acquires this lock, and returns the lease after it has expired.
async fn expired_lease(lock: &Lock) -> Lease {
    let lease = lock.clone().ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap();
    lease.lost().await;
    lease
}
