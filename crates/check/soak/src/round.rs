//! The busy time of a round: many workers, and one fault in each world.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::worker::Worker;
use crate::world::{NODES, World};

/// The number of concurrent workers in each world. It is high enough for a client to send several requests in one
/// command.
const WORKERS: usize = 48;

/// The requests that this process has sent to Redis servers.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
/// The requests among them that shared a command with other requests.
static TOGETHER: AtomicU64 = AtomicU64::new(0);

/// Counts all requests to Redis servers from now on.
pub(crate) fn count_requests() {
    quorlock::fuzzing::watch_requests(|_, together| {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        TOGETHER.fetch_add(u64::from(together), Ordering::Relaxed);
    });
}

/// Counts of a round, or of all rounds so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) leases: u64,
    pub(crate) cancelled: u64,
    pub(crate) failed: u64,
    pub(crate) faults: u64,
    pub(crate) requests: u64,
    pub(crate) together: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.leases += other.leases;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.faults += other.faults;
        self.requests += other.requests;
        self.together += other.together;
    }
}

/// Counters that all workers share.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) leases: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// Keeps all worlds busy for `time`.
pub(crate) async fn busy(worlds: &[World], time: Duration, seed: u64) -> Totals {
    let (count, mut dice) = (Arc::new(Count::default()), Rng::with_seed(seed));
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (requests, together) = (read(&REQUESTS), read(&TOGETHER));
    let until = Instant::now() + time;
    let mut workers = JoinSet::new();
    for world in worlds {
        for worker in 0..WORKERS {
            let client = world.clients[worker % world.clients.len()].clone();
            let worker = Worker { client, builder: world.builder(), dice: dice.fork(), count: Arc::clone(&count) };
            workers.spawn(worker.run(until));
        }
    }
    // One node in each world has a fault, early enough for the node to recover before the workers end.
    tokio::time::sleep_until(until - time * 2 / 3).await;
    let (node, forgets) = (dice.usize(..NODES), dice.bool());
    let faults = tokio::task::block_in_place(|| worlds.iter().filter(|world| world.fault(node, forgets)).count());
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker panics");
    }
    Totals {
        leases: read(&count.leases),
        cancelled: read(&count.cancelled),
        failed: read(&count.failed),
        faults: faults as u64,
        requests: read(&REQUESTS) - requests,
        together: read(&TOGETHER) - together,
    }
}
