//! One busy time: many who come for leases, and mishaps.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::visitor::Visitor;
use crate::world::{NODES, World};

/// How many there are at a time, at each of the worlds: enough for requests of one client to go to a server together.
const VISITORS: usize = 48;

/// What this process has sent to Redis servers.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
static TOGETHER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count_requests() {
    quorlock::fuzzing::watch_requests(|_, together| {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        TOGETHER.fetch_add(u64::from(together), Ordering::Relaxed);
    });
}

/// What has been done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doings {
    pub(crate) leases: u64,
    pub(crate) cancelled: u64,
    pub(crate) failed: u64,
    pub(crate) mishaps: u64,
    pub(crate) requests: u64,
    pub(crate) together: u64,
}

impl AddAssign for Doings {
    fn add_assign(&mut self, other: Self) {
        self.leases += other.leases;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.mishaps += other.mishaps;
        self.requests += other.requests;
        self.together += other.together;
    }
}

/// What visitors have done, counted by all of them.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) leases: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// Keeps all worlds busy for so long.
pub(crate) async fn busy(worlds: &[World], time: Duration, seed: u64) -> Doings {
    let (count, mut dice) = (Arc::new(Count::default()), Rng::with_seed(seed));
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (requests, together) = (read(&REQUESTS), read(&TOGETHER));
    let until = Instant::now() + time;
    let mut visitors = JoinSet::new();
    for world in worlds {
        for visitor in 0..VISITORS {
            let client = world.clients[visitor % world.clients.len()].clone();
            let visitor = Visitor { client, builder: world.builder(), dice: dice.fork(), count: Arc::clone(&count) };
            visitors.spawn(visitor.come_and_go(until));
        }
    }
    // One node of each quorum, early enough to be back before everyone leaves.
    tokio::time::sleep_until(until - time * 2 / 3).await;
    let (node, forgets) = (dice.usize(..NODES), dice.bool());
    let mishaps = tokio::task::block_in_place(|| worlds.iter().filter(|world| world.mishap(node, forgets)).count());
    while let Some(visitor) = visitors.join_next().await {
        visitor.expect("no visitor panics");
    }
    Doings {
        leases: read(&count.leases),
        cancelled: read(&count.cancelled),
        failed: read(&count.failed),
        mishaps: mishaps as u64,
        requests: read(&REQUESTS) - requests,
        together: read(&TOGETHER) - together,
    }
}
