//! Detached leases: one client detaches them, and another client extends, checks and releases them.

use std::time::{Duration, Instant};

use quorlock::{Client, DetachedLease, Lease, LeaseError, LostError, Released, Renewals};
use quorlock_testkit::eventually_async;

use crate::conformance::backend::{
    Backend, LONG, MEDIUM, SHORT, assert_free, assert_held, take_over, wait_for_holders,
};

/// Acquires a lease of every kind. Each lease has a different name.
async fn acquire_every_kind(client: &Client, ttl: Duration) -> Vec<Lease> {
    let no_renewals = Renewals::Off;
    vec![
        client.lock("exclusive").ttl(ttl).renewals(no_renewals).acquire().await.unwrap(),
        client.lock("plain").plain().ttl(ttl).renewals(no_renewals).acquire().await.unwrap(),
        client.reentrant("reentrant").ttl(ttl).renewals(no_renewals).acquire().await.unwrap(),
        client.rw("reading").ttl(ttl).renewals(no_renewals).read().acquire().await.unwrap(),
        client.rw("writing").ttl(ttl).renewals(no_renewals).write().acquire().await.unwrap(),
        client.semaphore("slot", 2).ttl(ttl).renewals(no_renewals).acquire().await.unwrap(),
    ]
}

/// Converts a lease to text and back, as if another process received it.
fn pass_as_text(lease: DetachedLease) -> DetachedLease {
    let text = lease.reveal();
    drop(lease);
    text.parse().unwrap()
}

pub(crate) async fn a_lease_of_any_kind_can_be_detached(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut detached = Vec::new();
    for lease in acquire_every_kind(&our_client, LONG).await {
        let (fence, slot) = (lease.fence().ok(), lease.slot());
        their_client.check(&lease.as_detached()).await.unwrap();
        let lease = pass_as_text(lease.detach().unwrap());
        assert_eq!((lease.fence(), lease.slot(), lease.ttl()), (fence, slot, LONG), "{lease}");
        detached.push(lease);
    }
    our_client.close(LONG).await.unwrap();
    for lease in detached {
        let name = lease.name().as_str();
        assert_held(&their_client, name).await;
        let validity = their_client.check(&lease).await.unwrap();
        assert!(!validity.is_zero() && validity < LONG, "{lease}: {validity:?}");
        let validity = their_client.extend(&lease).await.unwrap();
        assert!(!validity.is_zero() && validity < LONG, "{lease}: {validity:?}");
        assert_eq!(their_client.release(&lease).await, Ok(Released::StillHeld), "{lease}");
        wait_for_holders(&their_client, name, 0).await;
        assert_free(&their_client, name).await;
        // The release of a plain lock leaves no tombstone, so the nodes know only that the vote is gone.
        let lost = if lease.fence().is_some() { LostError::Ended } else { LostError::Removed };
        assert_eq!(their_client.check(&lease).await, Err(LeaseError::Lost(lost)), "{lease}");
        assert_eq!(
            their_client.extend(&lease).await,
            Err(LeaseError::Lost(LostError::Ended)),
            "{lease}: the client remembers that it released the lease"
        );
        assert_eq!(their_client.release(&lease).await, Ok(Released::AlreadyEnded), "{lease}");
        assert_free(&their_client, name).await;
    }
}

pub(crate) async fn a_detached_lease_is_not_renewed(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for lease in acquire_every_kind(&our_client, SHORT).await {
        // On a slow machine, a lease may have expired before it can be detached.
        let Ok(lease) = lease.detach() else { continue };
        let name = lease.name().as_str();
        let expired = Err(LeaseError::Lost(LostError::Removed));
        // A check does not extend the lease.
        eventually_async("the lease to expire", async || their_client.check(&lease).await == expired).await;
        let next_lease = take_over(&their_client, name).await;
        assert_eq!(their_client.extend(&lease).await, Err(LeaseError::Lost(LostError::Removed)), "{lease}");
        // The failed extension has released the remaining votes. Only releases of fenced locks leave a tombstone.
        let lost = if lease.fence().is_some() { LostError::Ended } else { LostError::Removed };
        assert_eq!(their_client.check(&lease).await, Err(LeaseError::Lost(lost)), "{lease}");
        assert_eq!(their_client.release(&lease).await, Ok(Released::AlreadyEnded), "{lease}");
        next_lease.extend().await.unwrap();
        assert_held(&our_client, name).await;
    }
}

pub(crate) async fn extensions_keep_a_detached_lease(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let leases: Vec<_> =
        acquire_every_kind(&our_client, MEDIUM).await.into_iter().map(|lease| lease.detach().unwrap()).collect();
    // Without extensions the leases would expire before this time.
    let end = Instant::now() + MEDIUM * 2;
    while Instant::now() < end {
        for lease in &leases {
            their_client.extend(lease).await.unwrap();
        }
        tokio::time::sleep(MEDIUM / 20).await;
    }
    for lease in &leases {
        our_client.check(lease).await.unwrap();
        assert_eq!(our_client.release(lease).await, Ok(Released::StillHeld), "{lease}");
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
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("a").label("first").acquire().await.unwrap().detach().unwrap();
    their_client.extend(&lease).await.unwrap();
    let (holder, fence) = their_client.inspect("a").await.unwrap().holder().unwrap();
    assert_eq!((holder, Some(fence)), (lease.holder(), lease.fence()));
    assert_eq!(lease.holder().unwrap().label, "first");
}

pub(crate) async fn releasing_one_detached_entry_leaves_the_other_entries(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let reentrant = our_client.reentrant("reentrant");
    let rw = our_client.rw("reading");
    let semaphore = our_client.semaphore("slot", 2);
    for (first_entry, second_entry) in [
        (reentrant.acquire().await.unwrap(), reentrant.acquire().await.unwrap()),
        (rw.read().acquire().await.unwrap(), rw.clone().read().acquire().await.unwrap()),
        (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()),
    ] {
        let first_entry = pass_as_text(first_entry.detach().unwrap());
        assert_eq!(their_client.release(&first_entry).await, Ok(Released::StillHeld));
        wait_for_holders(&their_client, first_entry.name().as_str(), 1).await;
        second_entry.extend().await.unwrap();
        their_client.check(&second_entry.detach().unwrap()).await.unwrap();
        assert_eq!(their_client.check(&first_entry).await, Err(LeaseError::Lost(LostError::Ended)));
    }
}

pub(crate) async fn a_closed_client_cannot_use_detached_leases(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("a").acquire().await.unwrap().detach().unwrap();
    our_client.clone().close(LONG).await.unwrap();
    assert_eq!(our_client.check(&lease).await, Err(LeaseError::Closed));
    assert_eq!(our_client.extend(&lease).await, Err(LeaseError::Closed));
    assert!(our_client.release(&lease).await.is_err());
    their_client.check(&lease).await.unwrap();
}
