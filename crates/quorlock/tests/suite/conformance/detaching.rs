//! Detached leases: one client detaches them, and another client extends, checks and releases them.

use std::time::{Duration, Instant};

use quorlock::{Client, DetachedLease, Lease, LeaseError, LostError, Released, Renewals};
use quorlock_testkit::eventually_async;

use crate::conformance::backend::{
    Backend, LONG, MEDIUM, SHORT, assert_free, assert_held, take_over, wait_for_holders,
};

/// Acquires a lease of every kind. Each lease has a different name.
async fn acquire_every_kind(client: &Client, ttl: Duration) -> Vec<Lease> {
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

/// Converts a lease to text and back, as if another process received it.
fn pass_as_text(lease: DetachedLease) -> DetachedLease {
    let text = lease.reveal();
    drop(lease);
    text.parse().unwrap()
}

pub(crate) async fn a_lease_of_any_kind_can_be_detached(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut detached = Vec::new();
    for lease in acquire_every_kind(&ours, LONG).await {
        let (fence, slot) = (lease.fence().ok(), lease.slot());
        theirs.check(&lease.as_detached()).await.unwrap();
        let lease = pass_as_text(lease.detach().unwrap());
        assert_eq!((lease.fence(), lease.slot(), lease.ttl()), (fence, slot, LONG), "{lease}");
        detached.push(lease);
    }
    ours.close(LONG).await.unwrap();
    for lease in detached {
        let name = lease.name().as_str();
        assert_held(&theirs, name).await;
        let validity = theirs.check(&lease).await.unwrap();
        assert!(!validity.is_zero() && validity < LONG, "{lease}: {validity:?}");
        let validity = theirs.extend(&lease).await.unwrap();
        assert!(!validity.is_zero() && validity < LONG, "{lease}: {validity:?}");
        assert_eq!(theirs.release(&lease).await, Ok(Released::StillHeld), "{lease}");
        wait_for_holders(&theirs, name, 0).await;
        assert_free(&theirs, name).await;
        // The release of a plain lock leaves no tombstone, so the nodes know only that the vote is gone.
        let lost = if lease.fence().is_some() { LostError::Ended } else { LostError::Removed };
        assert_eq!(theirs.check(&lease).await, Err(LeaseError::Lost(lost)), "{lease}");
        assert_eq!(
            theirs.extend(&lease).await,
            Err(LeaseError::Lost(LostError::Ended)),
            "{lease}: the client remembers that it released the lease"
        );
        assert_eq!(theirs.release(&lease).await, Ok(Released::AlreadyEnded), "{lease}");
        assert_free(&theirs, name).await;
    }
}

pub(crate) async fn a_detached_lease_is_not_renewed(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lease in acquire_every_kind(&ours, SHORT).await {
        // On a slow machine, a lease may have expired before it can be detached.
        let Ok(lease) = lease.detach() else { continue };
        let name = lease.name().as_str();
        let expired = Err(LeaseError::Lost(LostError::Removed));
        // A check does not extend the lease.
        eventually_async("the lease to expire", async || theirs.check(&lease).await == expired).await;
        let next = take_over(&theirs, name).await;
        assert_eq!(theirs.extend(&lease).await, Err(LeaseError::Lost(LostError::Removed)), "{lease}");
        // The failed extension has released the remaining votes. Only fenced locks leave a tombstone.
        let lost = if lease.fence().is_some() { LostError::Ended } else { LostError::Removed };
        assert_eq!(theirs.check(&lease).await, Err(LeaseError::Lost(lost)), "{lease}");
        assert_eq!(theirs.release(&lease).await, Ok(Released::AlreadyEnded), "{lease}");
        next.extend().await.unwrap();
        assert_held(&ours, name).await;
    }
}

pub(crate) async fn extensions_keep_a_detached_lease(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let leases: Vec<_> =
        acquire_every_kind(&ours, MEDIUM).await.into_iter().map(|lease| lease.detach().unwrap()).collect();
    // Without extensions the leases would expire before this time.
    let end = Instant::now() + MEDIUM * 2;
    while Instant::now() < end {
        for lease in &leases {
            theirs.extend(lease).await.unwrap();
        }
        tokio::time::sleep(MEDIUM / 20).await;
    }
    for lease in &leases {
        ours.check(lease).await.unwrap();
        assert_eq!(ours.release(lease).await, Ok(Released::StillHeld), "{lease}");
    }
}

pub(crate) async fn an_ended_lease_cannot_be_detached(backend: &Backend) {
    let client = backend.client().await;
    for lease in acquire_every_kind(&client, SHORT).await {
        lease.lost().await;
        assert_eq!(lease.detach(), Err(LostError::Expired));
    }
}

pub(crate) async fn extending_a_detached_lease_does_not_change_its_holder(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").label("first").acquire().await.unwrap().detach().unwrap();
    theirs.extend(&lease).await.unwrap();
    let inspection = theirs.inspect("a").await.unwrap().holder().unwrap();
    assert_eq!((inspection.0, Some(inspection.1)), (lease.holder(), lease.fence()));
    assert_eq!(lease.holder().unwrap().label, "first");
}

pub(crate) async fn releasing_one_detached_entry_leaves_the_other_entries(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let reentrant = ours.reentrant("reentrant");
    let rw = ours.rw("reading");
    let semaphore = ours.semaphore("slot", 2);
    for (first, second) in [
        (reentrant.acquire().await.unwrap(), reentrant.acquire().await.unwrap()),
        (rw.read().acquire().await.unwrap(), rw.clone().read().acquire().await.unwrap()),
        (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()),
    ] {
        let first = pass_as_text(first.detach().unwrap());
        assert_eq!(theirs.release(&first).await, Ok(Released::StillHeld));
        wait_for_holders(&theirs, first.name().as_str(), 1).await;
        second.extend().await.unwrap();
        theirs.check(&second.detach().unwrap()).await.unwrap();
        assert_eq!(theirs.check(&first).await, Err(LeaseError::Lost(LostError::Ended)));
    }
}

pub(crate) async fn a_closed_client_cannot_use_detached_leases(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").acquire().await.unwrap().detach().unwrap();
    ours.clone().close(LONG).await.unwrap();
    assert_eq!(ours.check(&lease).await, Err(LeaseError::Closed));
    assert_eq!(ours.extend(&lease).await, Err(LeaseError::Closed));
    assert!(ours.release(&lease).await.is_err());
    theirs.check(&lease).await.unwrap();
}
