//! Keeping a lease, and losing it.

use std::time::{Duration, Instant};

use quorlock::{Client, FenceError, Lease, LeaseError, Lock, LostError, Renewals};

use crate::conformance::backend::{BRISK, Backend, SHORT, crash_after, is_held};

pub(crate) async fn extending_by_hand_keeps_a_lease(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let extend = async |lock: Lock| {
        let lease = lock.ttl(BRISK).renewals(Renewals::Off).acquire().await.unwrap();
        // Without an extension it would be over by then.
        let end = Instant::now() + BRISK;
        while Instant::now() < end {
            lease.extend().await.unwrap();
            tokio::time::sleep(BRISK / 20).await;
        }
        lease
    };
    let (fenced, plain) = tokio::join!(extend(ours.lock("fenced")), extend(ours.lock("plain").plain()));
    is_held(&theirs, "fenced").await;
    is_held(&theirs, "plain").await;
    fenced.ensure(Duration::ZERO).unwrap();
    plain.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn an_unrenewed_lease_expires(backend: &Backend) {
    let client = backend.client().await;
    let check = async |lock: Lock| {
        let lapsed = lapse(&lock).await;
        assert_eq!(lapsed.lost().await, LostError::Expired);
        assert_eq!(lapsed.validity(), Duration::ZERO);
        assert_eq!(lapsed.ensure(Duration::ZERO), Err(LostError::Expired));
        assert_eq!(lapsed.fence(), Err(FenceError::Lost(LostError::Expired)));
        assert_eq!(lapsed.extend().await, Err(LeaseError::Lost(LostError::Expired)));
        assert_eq!(lapsed.release().await, Err(LeaseError::Lost(LostError::Expired)));
        lock.acquire().await.unwrap().release().await.unwrap();
    };
    tokio::join!(check(client.lock("fenced")), check(client.lock("plain").plain()));
}

pub(crate) async fn an_expired_lease_does_not_affect_the_next_holder(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let check = async |name: &str, kind: fn(Lock) -> Lock| {
        let lock = kind(ours.lock(name)).ttl(SHORT).renewals(Renewals::Off);
        let lapsing = lock.acquire().await.unwrap();
        let fence = lapsing.fence();
        let next = kind(theirs.lock(name)).acquire().await.unwrap();
        assert_eq!(lapsing.ensure(Duration::ZERO), Err(LostError::Expired), "the next has it already");
        if let Ok(fence) = fence {
            assert!(next.fence().unwrap() > fence);
        }
        lapsing.extend().await.unwrap_err();
        lapsing.release().await.unwrap_err();
        next.extend().await.unwrap();
        is_held(&ours, name).await;
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
        assert!(before.elapsed() >= SHORT, "it was not in the way");
    };
    tokio::join!(check("fenced", |lock| lock), check("plain", Lock::plain));
}

pub(crate) async fn the_watchdog_keeps_a_lease(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (fenced, plain) = (ours.lock("fenced").ttl(BRISK), ours.lock("plain").plain().ttl(BRISK));
    let (fenced, plain) = (fenced.acquire().await.unwrap(), plain.acquire().await.unwrap());
    let end = Instant::now() + BRISK * 2;
    while Instant::now() < end {
        is_held(&theirs, "fenced").await;
        is_held(&theirs, "plain").await;
        tokio::time::sleep(BRISK / 20).await;
    }
    fenced.ensure(Duration::ZERO).unwrap();
    plain.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn the_lifetime_cap_ends_a_lease(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    // Time for one renewal, at a third of the ttl.
    let renewals = Renewals::Watchdog { every: None, lifetime: BRISK / 2 };
    let lease = ours.lock("a").ttl(BRISK).renewals(renewals).acquire().await.unwrap();
    let unrenewed = Instant::now() + lease.validity();
    assert_eq!(lease.lost().await, LostError::Expired);
    assert!(Instant::now() > unrenewed, "it was never renewed");
    theirs.lock("a").acquire().await.unwrap().release().await.unwrap();
}

/// Returns a lease of this lock that has expired.
async fn lapse(lock: &Lock) -> Lease {
    let lease = lock.clone().ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap();
    lease.lost().await;
    lease
}
