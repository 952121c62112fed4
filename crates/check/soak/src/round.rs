//! Runs the workers of a round, and injects one fault into each cluster.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::node_kind::{ClusterWithClients, NODES};
use crate::worker::Worker;

/// The number of concurrent workers on each cluster. It is high enough for a client to send several requests in one
/// command.
const WORKERS: usize = 48;

/// The requests that this process has sent to Redis servers.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
/// The requests to Redis servers that shared a command with other requests.
static BATCHED: AtomicU64 = AtomicU64::new(0);

/// Counts all requests to Redis servers from now on.
pub(crate) fn count_requests() {
    quorlock::fuzzing::watch_requests(|_, batched| {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        BATCHED.fetch_add(u64::from(batched), Ordering::Relaxed);
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
    pub(crate) batched: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.leases += other.leases;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.faults += other.faults;
        self.requests += other.requests;
        self.batched += other.batched;
    }
}

/// Counters that all workers share.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    pub(crate) leases: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// Runs workers on all clusters for `time`.
pub(crate) async fn run_workers(clusters: &[ClusterWithClients], time: Duration, seed: u64) -> Totals {
    let (counters, mut rng) = (Arc::new(SharedCounters::default()), Rng::with_seed(seed));
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (requests, batched) = (read(&REQUESTS), read(&BATCHED));
    let until = Instant::now() + time;
    let mut workers = JoinSet::new();
    for cluster in clusters {
        for worker in 0..WORKERS {
            let client = cluster.clients[worker % cluster.clients.len()].clone();
            let worker =
                Worker { client, builder: cluster.builder(), rng: rng.fork(), counters: Arc::clone(&counters) };
            workers.spawn(worker.run(until));
        }
    }
    // One node of each cluster has a fault, early enough for the node to recover before the workers end.
    tokio::time::sleep_until(until - time * 2 / 3).await;
    let (node, forgets) = (rng.usize(..NODES), rng.bool());
    let faults =
        tokio::task::block_in_place(|| clusters.iter().filter(|cluster| cluster.inject_fault(node, forgets)).count());
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker panics");
    }
    Totals {
        leases: read(&counters.leases),
        cancelled: read(&counters.cancelled),
        failed: read(&counters.failed),
        faults: faults as u64,
        requests: read(&REQUESTS) - requests,
        batched: read(&BATCHED) - batched,
    }
}
