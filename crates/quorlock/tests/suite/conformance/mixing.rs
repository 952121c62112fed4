//! Properties of every kind of lock, and between the kinds.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Client, Lease, Leases, LostError, Renewals};

use crate::conformance::backend::{BRISK, Backend, LONG, SHORT, crash_after, held_by, is_free, is_held, takes_over};

/// Every way to hold a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Exclusive,
    Plain,
    Reentrant,
    Reading,
    Writing,
    Slot,
    All,
}

impl Way {
    const EVERY: [Self; 7] =
        [Self::Exclusive, Self::Plain, Self::Reentrant, Self::Reading, Self::Writing, Self::Slot, Self::All];

    /// Whether two independent clients can hold a name in these ways at the same time.
    fn is_compatible_with(self, other: Self) -> bool {
        self == other && matches!(self, Self::Reading | Self::Slot)
    }

    /// Tries to acquire the name. Retries if a busy machine was too slow for a short ttl.
    async fn take(self, client: &Client, name: &str, ttl: Duration) -> Option<Taken> {
        loop {
            match self.try_take(client, name, ttl).await {
                Err(AcquireError::TooSlow { .. }) => {}
                taken => return taken.unwrap(),
            }
        }
    }

    async fn try_take(self, client: &Client, name: &str, ttl: Duration) -> Result<Option<Taken>, AcquireError> {
        let one = match self {
            Self::Exclusive => client.lock(name).ttl(ttl).try_acquire().await,
            Self::Plain => client.lock(name).plain().ttl(ttl).try_acquire().await,
            Self::Reentrant => client.reentrant(name).ttl(ttl).try_acquire().await,
            Self::Reading => client.rw(name).ttl(ttl).read().try_acquire().await,
            Self::Writing => client.rw(name).ttl(ttl).write().try_acquire().await,
            Self::Slot => client.semaphore(name, 2).ttl(ttl).try_acquire().await,
            Self::All => return Ok(client.all([name]).ttl(ttl).try_acquire().await?.map(Taken::All)),
        };
        Ok(one?.map(Taken::One))
    }
}

/// A lease of any kind.
#[derive(Debug)]
enum Taken {
    One(Lease),
    All(Leases),
}

impl Taken {
    fn lease(&self) -> &Lease {
        match self {
            Self::One(lease) => lease,
            Self::All(leases) => leases.iter().next().unwrap(),
        }
    }

    async fn release(self) {
        match self {
            Self::One(lease) => lease.release().await.unwrap(),
            Self::All(leases) => leases.release().await.unwrap(),
        }
    }
}

pub(crate) async fn every_kind_excludes_every_other(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for held in Way::EVERY {
        let taken = held.take(&ours, "a", LONG).await.unwrap_or_else(|| panic!("{held:?}: the lock is free"));
        held_by(&ours, "a", 1).await;
        for asked in Way::EVERY {
            let got = asked.take(&theirs, "a", LONG).await;
            assert_eq!(got.is_some(), held.is_compatible_with(asked), "{asked:?} while {held:?}");
            if let Some(got) = got {
                got.release().await;
            }
            held_by(&theirs, "a", 1).await;
        }
        taken.lease().extend().await.unwrap();
        taken.release().await;
        held_by(&ours, "a", 0).await;
        is_free(&theirs, "a").await;
    }
}

pub(crate) async fn fences_grow_from_kind_to_kind(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut last = None;
    let fenced = Way::EVERY.into_iter().filter(|way| *way != Way::Plain);
    for (turn, way) in fenced.clone().chain(fenced.rev()).enumerate() {
        let client = if turn % 2 == 0 { &ours } else { &theirs };
        let taken = way.take(client, "a", LONG).await.unwrap();
        let fence = taken.lease().fence().unwrap();
        assert!(last.replace(fence) < Some(fence), "{way:?}");
        taken.release().await;
        held_by(client, "a", 0).await;
    }
}

pub(crate) async fn every_kind_is_renewed(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut all = Vec::new();
    for way in Way::EVERY {
        let name = format!("{way:?}");
        all.push((way.take(&ours, &name, BRISK).await.unwrap(), name));
    }
    let end = Instant::now() + BRISK * 2;
    while Instant::now() < end {
        for (_, name) in &all {
            is_held(&theirs, name).await;
        }
        tokio::time::sleep(BRISK / 20).await;
    }
    for (taken, _) in all {
        taken.lease().ensure(Duration::ZERO).unwrap();
        taken.release().await;
    }
}

pub(crate) async fn every_kind_expires_after_its_ttl(backend: &Backend) {
    let client = backend.client().await;
    let before = Instant::now();
    let hold = async |client: &Client| {
        let mut all = Vec::new();
        for way in Way::EVERY {
            all.push(way.take(client, &format!("{way:?}"), SHORT).await.unwrap());
        }
        all
    };
    crash_after(backend.builder(), hold).await;
    for way in Way::EVERY {
        takes_over(&client, &format!("{way:?}")).await.release().await.unwrap();
    }
    assert!(before.elapsed() >= SHORT, "they were not in the way");
}

pub(crate) async fn every_kind_survives_the_drop_of_its_client_and_lock(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut all = Vec::new();
    for way in Way::EVERY {
        all.push(way.take(&ours, &format!("{way:?}"), LONG).await.unwrap());
    }
    drop(ours);
    for taken in &all {
        taken.lease().extend().await.unwrap();
        held_by(&theirs, taken.lease().name().as_str(), 1).await;
    }
    drop(all);
    for way in Way::EVERY {
        takes_over(&theirs, &format!("{way:?}")).await.release().await.unwrap();
    }
}

pub(crate) async fn every_kind_ends_when_its_client_is_closed(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut all = Vec::new();
    for way in Way::EVERY {
        all.push(way.take(&ours, &format!("{way:?}"), LONG).await.unwrap());
    }
    ours.close(LONG).await.unwrap();
    for taken in &all {
        assert_eq!(taken.lease().lost().await, LostError::Closed);
        assert_eq!(taken.lease().ensure(Duration::ZERO), Err(LostError::Closed));
    }
    for way in Way::EVERY {
        is_free(&theirs, &format!("{way:?}")).await;
    }
}

pub(crate) async fn an_expired_lease_of_any_kind_does_not_affect_the_next_holder(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (reentrant, rw, semaphore) = (ours.reentrant("reentrant"), ours.rw("rw"), ours.semaphore("semaphore", 1));
    let lapsing = [
        reentrant.ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap(),
        rw.ttl(SHORT).renewals(Renewals::Off).read().acquire().await.unwrap(),
        semaphore.ttl(SHORT).renewals(Renewals::Off).acquire().await.unwrap(),
    ];
    for lapsing in lapsing {
        let name = lapsing.name().as_str();
        let next = takes_over(&theirs, name).await;
        assert_eq!(lapsing.ensure(Duration::ZERO), Err(LostError::Expired), "the next has it already");
        lapsing.extend().await.unwrap_err();
        lapsing.release().await.unwrap_err();
        next.extend().await.unwrap();
    }
}
