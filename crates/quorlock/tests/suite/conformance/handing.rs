//! Detached leases: detached by one client, and extended, checked and released by another.

use std::time::{Duration, Instant};

use quorlock::{Client, DetachedLease, Lease, LeaseError, LostError, Released, Renewals};
use quorlock_testkit::eventually_async;

use crate::conformance::backend::{BRISK, Backend, LONG, SHORT, held_by, is_free, is_held, takes_over};

/// A lease of every kind, each with its own name.
async fn one_of_each(client: &Client, ttl: Duration) -> Vec<Lease> {
    let off = Renewals::Off;
    vec![
        client.lock("exclusive").ttl(ttl).renewals(off).acquire().await.unwrap(),
        client.lock("plain").plain().ttl(ttl).renewals(off).acquire().await.unwrap(),
        client.reentrant("reentrant").ttl(ttl).renewals(off).acquire().await.unwrap(),
        client.rw("reading").ttl(ttl).renewals(off).read().acquire().await.unwrap(),
        client.rw("writing").ttl(ttl).renewals(off).write().acquire().await.unwrap(),
        client.semaphore("slot", 2).ttl(ttl).renewals(off).acquire().await.unwrap(),
    ]
}

/// As another process would receive it.
fn through_text(lease: DetachedLease) -> DetachedLease {
    let text = lease.reveal();
    drop(lease);
    text.parse().unwrap()
}

pub(crate) async fn a_lease_of_any_kind_can_be_detached(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut travellers = Vec::new();
    for lease in one_of_each(&ours, LONG).await {
        let (fence, slot) = (lease.fence().ok(), lease.slot());
        theirs.check(&lease.as_detached()).await.unwrap();
        let lease = through_text(lease.detach().unwrap());
        assert_eq!((lease.fence(), lease.slot(), lease.ttl()), (fence, slot, LONG), "{lease}");
        travellers.push(lease);
    }
    ours.close(LONG).await.unwrap();
    for lease in travellers {
        let name = lease.name().as_str();
        is_held(&theirs, name).await;
        let left = theirs.check(&lease).await.unwrap();
        assert!(!left.is_zero() && left < LONG, "{lease}: {left:?}");
        let left = theirs.extend(&lease).await.unwrap();
        assert!(!left.is_zero() && left < LONG, "{lease}: {left:?}");
        assert_eq!(theirs.release(&lease).await, Ok(Released::Standing), "{lease}");
        held_by(&theirs, name, 0).await;
        is_free(&theirs, name).await;
        // A plain release leaves no tombstone.
        let over = if lease.fence().is_some() { LostError::Ended } else { LostError::Taken };
        assert_eq!(theirs.check(&lease).await, Err(LeaseError::Lost(over)), "{lease}");
        assert_eq!(
            theirs.extend(&lease).await,
            Err(LeaseError::Lost(LostError::Ended)),
            "{lease}: the client that released it knows"
        );
        assert_eq!(theirs.release(&lease).await, Ok(Released::Gone), "{lease}");
        is_free(&theirs, name).await;
    }
}

pub(crate) async fn a_detached_lease_is_not_renewed(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lease in one_of_each(&ours, SHORT).await {
        // Some may have expired by now and cannot be detached.
        let Ok(lease) = lease.detach() else { continue };
        let name = lease.name().as_str();
        let over = Err(LeaseError::Lost(LostError::Taken));
        // A check does not extend it.
        eventually_async("the lease to lapse", async || theirs.check(&lease).await == over).await;
        let next = takes_over(&theirs, name).await;
        assert_eq!(theirs.extend(&lease).await, Err(LeaseError::Lost(LostError::Taken)), "{lease}");
        // The remaining votes were released; only fenced locks leave a tombstone.
        let over = if lease.fence().is_some() { LostError::Ended } else { LostError::Taken };
        assert_eq!(theirs.check(&lease).await, Err(LeaseError::Lost(over)), "{lease}");
        assert_eq!(theirs.release(&lease).await, Ok(Released::Gone), "{lease}");
        next.extend().await.unwrap();
        is_held(&ours, name).await;
    }
}

pub(crate) async fn extensions_keep_a_detached_lease(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let leases: Vec<_> = one_of_each(&ours, BRISK).await.into_iter().map(|lease| lease.detach().unwrap()).collect();
    // Without an extension they would be over by then.
    let end = Instant::now() + BRISK * 2;
    while Instant::now() < end {
        for lease in &leases {
            theirs.extend(lease).await.unwrap();
        }
        tokio::time::sleep(BRISK / 20).await;
    }
    for lease in &leases {
        ours.check(lease).await.unwrap();
        assert_eq!(ours.release(lease).await, Ok(Released::Standing), "{lease}");
    }
}

pub(crate) async fn an_ended_lease_cannot_be_detached(backend: &Backend) {
    let client = backend.client().await;
    for lease in one_of_each(&client, SHORT).await {
        lease.lost().await;
        assert_eq!(lease.detach(), Err(LostError::Expired));
    }
}

pub(crate) async fn extending_does_not_change_the_holder(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").label("first").acquire().await.unwrap().detach().unwrap();
    theirs.extend(&lease).await.unwrap();
    let found = theirs.inspect("a").await.unwrap().holder().unwrap();
    assert_eq!((found.0, Some(found.1)), (lease.holder(), lease.fence()));
    assert_eq!(lease.holder().unwrap().label, "first");
}

pub(crate) async fn releasing_one_entry_leaves_the_others(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let reentrant = ours.reentrant("reentrant");
    let rw = ours.rw("reading");
    let semaphore = ours.semaphore("slot", 2);
    for (first, second) in [
        (reentrant.acquire().await.unwrap(), reentrant.acquire().await.unwrap()),
        (rw.read().acquire().await.unwrap(), rw.clone().read().acquire().await.unwrap()),
        (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()),
    ] {
        let first = through_text(first.detach().unwrap());
        assert_eq!(theirs.release(&first).await, Ok(Released::Standing));
        held_by(&theirs, first.name().as_str(), 1).await;
        second.extend().await.unwrap();
        theirs.check(&second.detach().unwrap()).await.unwrap();
        assert_eq!(theirs.check(&first).await, Err(LeaseError::Lost(LostError::Ended)));
    }
}

pub(crate) async fn a_closed_client_reports_that_it_is_closed(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").acquire().await.unwrap().detach().unwrap();
    ours.clone().close(LONG).await.unwrap();
    assert_eq!(ours.check(&lease).await, Err(LeaseError::Closed));
    assert_eq!(ours.extend(&lease).await, Err(LeaseError::Closed));
    assert!(ours.release(&lease).await.is_err());
    theirs.check(&lease).await.unwrap();
}
