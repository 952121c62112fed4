//! Guarantees of every kind of lock, and of locks of different kinds with the same name.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Client, Lease, Leases, LostError, Renewals};

use crate::conformance::backend::{
    Backend, LONG, MEDIUM, SHORT, assert_free, assert_held, crash_after, take_over, wait_for_holders,
};

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockKind {
    Exclusive,
    Plain,
    Reentrant,
    Reading,
    Writing,
    Slot,
    Set,
}

impl LockKind {
    const ALL: [Self; 7] =
        [Self::Exclusive, Self::Plain, Self::Reentrant, Self::Reading, Self::Writing, Self::Slot, Self::Set];

    /// Whether two clients can hold locks of these kinds with the same name at the same time.
    fn is_compatible_with(self, other: Self) -> bool {
        self == other && matches!(self, Self::Reading | Self::Slot)
    }

    /// Tries to acquire the name. Tries again if the attempt took too long for the ttl.
    async fn acquire(self, client: &Client, name: &str, ttl: Duration) -> Option<AnyLease> {
        loop {
            match self.try_acquire(client, name, ttl).await {
                Err(AcquireError::TooSlow { .. }) => {}
                result => return result.unwrap(),
            }
        }
    }

    async fn try_acquire(self, client: &Client, name: &str, ttl: Duration) -> Result<Option<AnyLease>, AcquireError> {
        let lease = match self {
            Self::Exclusive => client.lock(name).ttl(ttl).try_acquire().await,
            Self::Plain => client.lock(name).plain().ttl(ttl).try_acquire().await,
            Self::Reentrant => client.reentrant(name).ttl(ttl).try_acquire().await,
            Self::Reading => client.rw(name).ttl(ttl).read().try_acquire().await,
            Self::Writing => client.rw(name).ttl(ttl).write().try_acquire().await,
            Self::Slot => client.semaphore(name, 2).ttl(ttl).try_acquire().await,
            Self::Set => return Ok(client.all([name]).ttl(ttl).try_acquire().await?.map(AnyLease::Set)),
        };
        Ok(lease?.map(AnyLease::Lease))
    }
}

/// A lease of any kind.
#[derive(Debug)]
enum AnyLease {
    Lease(Lease),
    Set(Leases),
}

impl AnyLease {
    /// The lease. For a set, the lease of its first name.
    fn inner(&self) -> &Lease {
        match self {
            Self::Lease(lease) => lease,
            Self::Set(leases) => leases.iter().next().unwrap(),
        }
    }

    async fn release(self) {
        match self {
            Self::Lease(lease) => lease.release().await.unwrap(),
            Self::Set(leases) => leases.release().await.unwrap(),
        }
    }
}

pub(crate) async fn every_kind_excludes_every_other_kind(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for held_kind in LockKind::ALL {
        let lease = held_kind
            .acquire(&our_client, "a", LONG)
            .await
            .unwrap_or_else(|| panic!("{held_kind:?}: the lock is free"));
        wait_for_holders(&our_client, "a", 1).await;
        for requested_kind in LockKind::ALL {
            let second_lease = requested_kind.acquire(&their_client, "a", LONG).await;
            assert_eq!(
                second_lease.is_some(),
                held_kind.is_compatible_with(requested_kind),
                "{requested_kind:?} while {held_kind:?}"
            );
            if let Some(second_lease) = second_lease {
                second_lease.release().await;
            }
            wait_for_holders(&their_client, "a", 1).await;
        }
        lease.inner().extend().await.unwrap();
        lease.release().await;
        wait_for_holders(&our_client, "a", 0).await;
        assert_free(&their_client, "a").await;
    }
}

pub(crate) async fn fences_grow_from_kind_to_kind(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut last_fence = None;
    let fenced_kinds = LockKind::ALL.into_iter().filter(|kind| *kind != LockKind::Plain);
    for (turn, kind) in fenced_kinds.clone().chain(fenced_kinds.rev()).enumerate() {
        let client = if turn % 2 == 0 { &our_client } else { &their_client };
        let lease = kind.acquire(client, "a", LONG).await.unwrap();
        let fence = lease.inner().fence().unwrap();
        assert!(last_fence.replace(fence) < Some(fence), "{kind:?}");
        lease.release().await;
        wait_for_holders(client, "a", 0).await;
    }
}

pub(crate) async fn every_kind_is_renewed(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut leases = Vec::new();
    for kind in LockKind::ALL {
        let name = format!("{kind:?}");
        leases.push((kind.acquire(&our_client, &name, MEDIUM).await.unwrap(), name));
    }
    let end = Instant::now() + MEDIUM * 2;
    while Instant::now() < end {
        for (_, name) in &leases {
            assert_held(&their_client, name).await;
        }
        tokio::time::sleep(MEDIUM / 20).await;
    }
    for (lease, _) in leases {
        lease.inner().ensure(Duration::ZERO).unwrap();
        lease.release().await;
    }
}

pub(crate) async fn every_kind_expires_after_its_ttl(backend: &Backend) {
    let client = backend.client().await;
    let start = Instant::now();
    let hold = async |client: &Client| {
        let mut leases = Vec::new();
        for kind in LockKind::ALL {
            leases.push(kind.acquire(client, &format!("{kind:?}"), SHORT).await.unwrap());
        }
        leases
    };
    crash_after(backend.builder(), hold).await;
    for kind in LockKind::ALL {
        take_over(&client, &format!("{kind:?}")).await.release().await.unwrap();
    }
    assert!(start.elapsed() >= SHORT, "the expiring leases did not block the lock");
}

pub(crate) async fn every_kind_survives_the_drop_of_its_client_and_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut leases = Vec::new();
    for kind in LockKind::ALL {
        leases.push(kind.acquire(&our_client, &format!("{kind:?}"), LONG).await.unwrap());
    }
    drop(our_client);
    for lease in &leases {
        lease.inner().extend().await.unwrap();
        wait_for_holders(&their_client, lease.inner().name().as_str(), 1).await;
    }
    drop(leases);
    for kind in LockKind::ALL {
        take_over(&their_client, &format!("{kind:?}")).await.release().await.unwrap();
    }
}

pub(crate) async fn every_kind_ends_when_its_client_is_closed(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut leases = Vec::new();
    for kind in LockKind::ALL {
        leases.push(kind.acquire(&our_client, &format!("{kind:?}"), LONG).await.unwrap());
    }
    our_client.close(LONG).await.unwrap();
    for lease in &leases {
        assert_eq!(lease.inner().lost().await, LostError::Closed);
        assert_eq!(lease.inner().ensure(Duration::ZERO), Err(LostError::Closed));
    }
    for kind in LockKind::ALL {
        assert_free(&their_client, &format!("{kind:?}")).await;
    }
}

pub(crate) async fn an_expired_lease_of_any_kind_does_not_affect_the_next_holder(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let (reentrant, rw, semaphore) =
        (our_client.reentrant("reentrant"), our_client.rw("rw"), our_client.semaphore("semaphore", 1));
    let expiring_leases = [
        reentrant.ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap(),
        rw.ttl(SHORT).renewals(Renewals::Off).read().acquire().await.unwrap(),
        semaphore.ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap(),
    ];
    for expiring_lease in expiring_leases {
        let name = expiring_lease.name().as_str();
        let next_lease = take_over(&their_client, name).await;
        assert_eq!(
            expiring_lease.ensure(Duration::ZERO),
            Err(LostError::Expired),
            "the next client has the lock already"
        );
        expiring_lease.extend().await.unwrap_err();
        expiring_lease.release().await.unwrap_err();
        next_lease.extend().await.unwrap();
    }
}
