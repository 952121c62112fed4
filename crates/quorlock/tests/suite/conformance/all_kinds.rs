//! Claims about every kind of lock, and about locks of different kinds with the same name.

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
    async fn acquire(self, client: &Client, name: &str, ttl: Duration) -> Option<Acquired> {
        loop {
            match self.try_acquire(client, name, ttl).await {
                Err(AcquireError::TooSlow { .. }) => {}
                acquired => return acquired.unwrap(),
            }
        }
    }

    async fn try_acquire(self, client: &Client, name: &str, ttl: Duration) -> Result<Option<Acquired>, AcquireError> {
        let lease = match self {
            Self::Exclusive => client.lock(name).ttl(ttl).try_acquire().await,
            Self::Plain => client.lock(name).plain().ttl(ttl).try_acquire().await,
            Self::Reentrant => client.reentrant(name).ttl(ttl).try_acquire().await,
            Self::Reading => client.rw(name).ttl(ttl).read().try_acquire().await,
            Self::Writing => client.rw(name).ttl(ttl).write().try_acquire().await,
            Self::Slot => client.semaphore(name, 2).ttl(ttl).try_acquire().await,
            Self::Set => return Ok(client.all([name]).ttl(ttl).try_acquire().await?.map(Acquired::Set)),
        };
        Ok(lease?.map(Acquired::Lease))
    }
}

/// A lease of any kind.
#[derive(Debug)]
enum Acquired {
    Lease(Lease),
    Set(Leases),
}

impl Acquired {
    fn lease(&self) -> &Lease {
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
    let (ours, theirs) = backend.rivals().await;
    for held in LockKind::ALL {
        let acquired = held.acquire(&ours, "a", LONG).await.unwrap_or_else(|| panic!("{held:?}: the lock is free"));
        wait_for_holders(&ours, "a", 1).await;
        for requested in LockKind::ALL {
            let second_lease = requested.acquire(&theirs, "a", LONG).await;
            assert_eq!(second_lease.is_some(), held.is_compatible_with(requested), "{requested:?} while {held:?}");
            if let Some(second_lease) = second_lease {
                second_lease.release().await;
            }
            wait_for_holders(&theirs, "a", 1).await;
        }
        acquired.lease().extend().await.unwrap();
        acquired.release().await;
        wait_for_holders(&ours, "a", 0).await;
        assert_free(&theirs, "a").await;
    }
}

pub(crate) async fn fences_grow_from_kind_to_kind(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut last = None;
    let fenced = LockKind::ALL.into_iter().filter(|kind| *kind != LockKind::Plain);
    for (turn, kind) in fenced.clone().chain(fenced.rev()).enumerate() {
        let client = if turn % 2 == 0 { &ours } else { &theirs };
        let acquired = kind.acquire(client, "a", LONG).await.unwrap();
        let fence = acquired.lease().fence().unwrap();
        assert!(last.replace(fence) < Some(fence), "{kind:?}");
        acquired.release().await;
        wait_for_holders(client, "a", 0).await;
    }
}

pub(crate) async fn every_kind_is_renewed(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut all = Vec::new();
    for kind in LockKind::ALL {
        let name = format!("{kind:?}");
        all.push((kind.acquire(&ours, &name, MEDIUM).await.unwrap(), name));
    }
    let end = Instant::now() + MEDIUM * 2;
    while Instant::now() < end {
        for (_, name) in &all {
            assert_held(&theirs, name).await;
        }
        tokio::time::sleep(MEDIUM / 20).await;
    }
    for (acquired, _) in all {
        acquired.lease().ensure(Duration::ZERO).unwrap();
        acquired.release().await;
    }
}

pub(crate) async fn every_kind_expires_after_its_ttl(backend: &Backend) {
    let client = backend.client().await;
    let before = Instant::now();
    let hold = async |client: &Client| {
        let mut all = Vec::new();
        for kind in LockKind::ALL {
            all.push(kind.acquire(client, &format!("{kind:?}"), SHORT).await.unwrap());
        }
        all
    };
    crash_after(backend.builder(), hold).await;
    for kind in LockKind::ALL {
        take_over(&client, &format!("{kind:?}")).await.release().await.unwrap();
    }
    assert!(before.elapsed() >= SHORT, "the expiring leases did not block the lock");
}

pub(crate) async fn every_kind_survives_the_drop_of_its_client_and_lock(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut all = Vec::new();
    for kind in LockKind::ALL {
        all.push(kind.acquire(&ours, &format!("{kind:?}"), LONG).await.unwrap());
    }
    drop(ours);
    for acquired in &all {
        acquired.lease().extend().await.unwrap();
        wait_for_holders(&theirs, acquired.lease().name().as_str(), 1).await;
    }
    drop(all);
    for kind in LockKind::ALL {
        take_over(&theirs, &format!("{kind:?}")).await.release().await.unwrap();
    }
}

pub(crate) async fn every_kind_ends_when_its_client_is_closed(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut all = Vec::new();
    for kind in LockKind::ALL {
        all.push(kind.acquire(&ours, &format!("{kind:?}"), LONG).await.unwrap());
    }
    ours.close(LONG).await.unwrap();
    for acquired in &all {
        assert_eq!(acquired.lease().lost().await, LostError::Closed);
        assert_eq!(acquired.lease().ensure(Duration::ZERO), Err(LostError::Closed));
    }
    for kind in LockKind::ALL {
        assert_free(&theirs, &format!("{kind:?}")).await;
    }
}

pub(crate) async fn an_expired_lease_of_any_kind_does_not_affect_the_next_holder(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (reentrant, rw, semaphore) = (ours.reentrant("reentrant"), ours.rw("rw"), ours.semaphore("semaphore", 1));
    let expiring = [
        reentrant.ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap(),
        rw.ttl(SHORT).renewals(Renewals::Off).read().acquire().await.unwrap(),
        semaphore.ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap(),
    ];
    for expiring in expiring {
        let name = expiring.name().as_str();
        let next = take_over(&theirs, name).await;
        assert_eq!(expiring.ensure(Duration::ZERO), Err(LostError::Expired), "the next client has the lock already");
        expiring.extend().await.unwrap_err();
        expiring.release().await.unwrap_err();
        next.extend().await.unwrap();
    }
}
