//! A worker, which acquires leases of every kind and ends them in every way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use quorlock::{AcquireError, Client, ClientBuilder, DetachedLease, Filter, Lease};
use tokio::time::Instant;

use crate::round::SharedCounters;

/// The longest wait for a lock.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// The number of names of each kind of lock. It is small, so that workers compete.
const NAMES: usize = 16;
const PERMITS: u32 = 2;
/// The maximum number of locks that a worker acquires at once.
const LOCKS_AT_ONCE_MAX: usize = 4;
/// The number of names with a fence: the names of four kinds of locks, and the name of the election.
pub(crate) const FENCED_NAMES: usize = 4 * NAMES + 1;

pub(crate) struct Worker {
    pub(crate) client: Client,
    pub(crate) builder: ClientBuilder,
    pub(crate) rng: Rng,
    pub(crate) counters: Arc<SharedCounters>,
}

impl Worker {
    pub(crate) async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            match self.rng.u32(..100) {
                0..3 => self.use_new_client().await,
                3..6 => self.inspect().await,
                6..12 => self.use_several_leases().await,
                12..16 => self.use_leadership().await,
                16..35 => self.cancel_acquire().await,
                _ => self.use_one_lease().await,
            }
        }
    }

    /// Acquires a lease of a random kind, and ends it in a random way.
    async fn use_one_lease(&mut self) {
        let client = self.client.clone();
        match self.acquire(&client).await {
            Ok(lease) => self.end_lease(lease).await,
            Err(_) => increment(&self.counters.failed),
        }
    }

    async fn acquire(&mut self, client: &Client) -> Result<Lease, AcquireError> {
        let number = self.rng.usize(..NAMES);
        let name = |kind: &str| format!("{kind}/{number}");
        match self.rng.u32(..7) {
            0 => client.lock(name("plain")).plain().acquire_within(WAIT_MAX).await,
            1 => client.reentrant(name("reentrant")).acquire_within(WAIT_MAX).await,
            2 => client.rw(name("rw")).read().acquire_within(WAIT_MAX).await,
            3 => client.rw(name("rw")).write().acquire_within(WAIT_MAX).await,
            4 => client.semaphore(name("semaphore"), PERMITS).acquire_within(WAIT_MAX).await,
            _ => client.lock(name("lock")).acquire_within(WAIT_MAX).await,
        }
    }

    async fn end_lease(&mut self, lease: Lease) {
        increment(&self.counters.leases);
        match self.rng.u32(..10) {
            0 => drop(lease),
            1 => {
                let lost = lease.lost();
                // Wait for a loss, and cancel the wait before the lease is lost.
                drop(tokio::time::timeout(self.random_delay(), lost).await);
            }
            2 => {
                drop(lease.extend().await);
                drop(lease.release().await);
            }
            3 => self.use_detached(lease).await,
            // Cancel the release.
            4 => drop(tokio::time::timeout(self.random_delay(), lease.release()).await),
            _ => {
                tokio::time::sleep(self.random_delay()).await;
                drop(lease.release().await);
            }
        }
    }

    /// Detaches the lease and uses its text form. In one of ten cases, lets the lease expire instead of releasing it.
    async fn use_detached(&mut self, lease: Lease) {
        let Ok(detached) = lease.detach() else { return };
        let Ok(detached) = detached.reveal().parse::<DetachedLease>() else {
            panic!("the text of a detached lease must be parsable")
        };
        drop(self.client.check(&detached).await);
        drop(self.client.extend(&detached).await);
        if self.rng.u32(..10) > 0 {
            drop(self.client.release(&detached).await);
        }
    }

    /// Drops the future of an acquire at a random moment.
    async fn cancel_acquire(&mut self) {
        let (client, delay) = (self.client.clone(), self.random_delay());
        match tokio::time::timeout(delay, self.acquire(&client)).await {
            Ok(Ok(lease)) => self.end_lease(lease).await,
            Ok(Err(_)) => increment(&self.counters.failed),
            Err(_) => increment(&self.counters.cancelled),
        }
    }

    async fn use_several_leases(&mut self) {
        let names: Vec<String> =
            (0..=self.rng.usize(..LOCKS_AT_ONCE_MAX)).map(|number| format!("lock/{number}")).collect();
        match self.client.all(names).acquire_within(WAIT_MAX).await {
            Ok(leases) => {
                increment(&self.counters.leases);
                drop(leases.release().await);
            }
            Err(_) => increment(&self.counters.failed),
        }
    }

    async fn use_leadership(&mut self) {
        let election = self.client.election("leader");
        match election.acquire_within(WAIT_MAX).await {
            Ok(leadership) => {
                increment(&self.counters.leases);
                drop(leadership.release().await);
            }
            Err(_) => increment(&self.counters.failed),
        }
    }

    async fn inspect(&mut self) {
        drop(self.client.inspect(format!("lock/{}", self.rng.usize(..NAMES))).await);
        drop(self.client.list(&Filter::default()).await);
        drop(self.client.history(10).await);
    }

    /// Connects a new client for one lease. Then closes or drops the client, before or after the lease.
    async fn use_new_client(&mut self) {
        let Ok(client) = self.builder.clone().connect_lazy().await else { return increment(&self.counters.failed) };
        let acquired = self.acquire(&client).await;
        match (self.rng.u32(..3), acquired) {
            (0, _) => {}
            (1, acquired) => {
                let _ = client.close(WAIT_MAX).await;
                drop(acquired);
            }
            (_, Ok(lease)) => self.end_lease(lease).await,
            (_, Err(_)) => increment(&self.counters.failed),
        }
    }

    fn random_delay(&mut self) -> Duration {
        Duration::from_micros(self.rng.u64(..5_000))
    }
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
