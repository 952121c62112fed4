//! Someone who wants leases of every kind, and has different ways to be done with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use quorlock::{AcquireError, Client, ClientBuilder, DetachedLease, Filter, Lease};
use tokio::time::Instant;

use crate::round::Count;

/// How long anyone waits for a lock.
const PATIENCE: Duration = Duration::from_millis(100);
/// How many locks of each kind there are: few enough for visitors to meet.
const NAMES: usize = 16;
const PERMITS: u32 = 2;
/// How many are taken at once, at most.
const SEVERAL: usize = 4;
/// Names that have a fence: those of four kinds, and the leader's.
pub(crate) const FENCED: usize = 4 * NAMES + 1;

pub(crate) struct Visitor {
    pub(crate) client: Client,
    pub(crate) builder: ClientBuilder,
    pub(crate) dice: Rng,
    pub(crate) count: Arc<Count>,
}

impl Visitor {
    pub(crate) async fn come_and_go(mut self, until: Instant) {
        while Instant::now() < until {
            match self.dice.u32(..100) {
                0..3 => self.bring_a_client().await,
                3..6 => self.look_around().await,
                6..12 => self.take_several().await,
                12..16 => self.lead().await,
                16..35 => self.lose_interest().await,
                _ => self.take_one().await,
            }
        }
    }

    /// A lease of some kind, or not, and some end of it.
    async fn take_one(&mut self) {
        let client = self.client.clone();
        match self.ask(&client).await {
            Ok(lease) => self.be_done(lease).await,
            Err(_) => add(&self.count.failed),
        }
    }

    async fn ask(&mut self, client: &Client) -> Result<Lease, AcquireError> {
        let number = self.dice.usize(..NAMES);
        let name = |kind: &str| format!("{kind}/{number}");
        match self.dice.u32(..7) {
            0 => client.lock(name("plain")).plain().acquire_within(PATIENCE).await,
            1 => client.reentrant(name("reentrant")).acquire_within(PATIENCE).await,
            2 => client.rw(name("rw")).read().acquire_within(PATIENCE).await,
            3 => client.rw(name("rw")).write().acquire_within(PATIENCE).await,
            4 => client.semaphore(name("semaphore"), PERMITS).acquire_within(PATIENCE).await,
            _ => client.lock(name("lock")).acquire_within(PATIENCE).await,
        }
    }

    async fn be_done(&mut self, lease: Lease) {
        add(&self.count.leases);
        match self.dice.u32(..10) {
            0 => drop(lease),
            1 => {
                let lost = lease.lost();
                // Whoever waits for a loss is gone before there is one.
                drop(tokio::time::timeout(self.moment(), lost).await);
            }
            2 => {
                drop(lease.extend().await);
                drop(lease.release().await);
            }
            3 => self.hand_on(lease).await,
            // Two at a time, of which one is left to its own devices.
            4 => drop(tokio::time::timeout(self.moment(), lease.release()).await),
            _ => {
                tokio::time::sleep(self.moment()).await;
                drop(lease.release().await);
            }
        }
    }

    /// As a word, to somebody else of the same nodes; who may forget about it, and then it lapses.
    async fn hand_on(&mut self, lease: Lease) {
        let Ok(detached) = lease.detach() else { return };
        let Ok(detached) = detached.reveal().parse::<DetachedLease>() else {
            panic!("a lease that was written can be read")
        };
        drop(self.client.check(&detached).await);
        drop(self.client.extend(&detached).await);
        if self.dice.u32(..10) > 0 {
            drop(self.client.release(&detached).await);
        }
    }

    /// Drops the future somewhere on its way.
    async fn lose_interest(&mut self) {
        let (client, moment) = (self.client.clone(), self.moment());
        match tokio::time::timeout(moment, self.ask(&client)).await {
            Ok(Ok(lease)) => self.be_done(lease).await,
            Ok(Err(_)) => add(&self.count.failed),
            Err(_) => add(&self.count.cancelled),
        }
    }

    async fn take_several(&mut self) {
        let names: Vec<String> = (0..=self.dice.usize(..SEVERAL)).map(|number| format!("lock/{number}")).collect();
        match self.client.all(names).acquire_within(PATIENCE).await {
            Ok(leases) => {
                add(&self.count.leases);
                drop(leases.release().await);
            }
            Err(_) => add(&self.count.failed),
        }
    }

    async fn lead(&mut self) {
        let election = self.client.election("leader");
        match election.acquire_within(PATIENCE).await {
            Ok(leadership) => {
                add(&self.count.leases);
                drop(leadership.release().await);
            }
            Err(_) => add(&self.count.failed),
        }
    }

    async fn look_around(&mut self) {
        drop(self.client.inspect(format!("lock/{}", self.dice.usize(..NAMES))).await);
        drop(self.client.list(&Filter::default()).await);
        drop(self.client.history(10).await);
    }

    /// A client that comes for one lease, and is closed or just gone, with or without it.
    async fn bring_a_client(&mut self) {
        let Ok(client) = self.builder.clone().connect_lazy().await else { return add(&self.count.failed) };
        let asked = self.ask(&client).await;
        match (self.dice.u32(..3), asked) {
            (0, _) => {}
            (1, asked) => {
                let _ = client.close(PATIENCE).await;
                drop(asked);
            }
            (_, Ok(lease)) => self.be_done(lease).await,
            (_, Err(_)) => add(&self.count.failed),
        }
    }

    fn moment(&mut self) -> Duration {
        Duration::from_micros(self.dice.u64(..5_000))
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
