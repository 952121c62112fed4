//! A demonstration: nodes in this process that fail now and then, and workers that compete for their locks.

use std::time::Duration;
use std::{io, thread};

use quorlock::{Client, ClientBuilder, Lease, MemoryNodes, Renewals};
use quorlock_core::rng::Seeded;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::subscriber::NoSubscriber;

use crate::command::demo::memory_builder;
use crate::command::demo::plan::{FAULTS, Fault};
use crate::exit::{Failure, Outcome};

/// A fixed seed, so that the demonstration is the same every time.
const SEED: u64 = 7;
const NODES: usize = 5;
const WORKERS: u64 = 64;
/// Short constants, so that losses and quarantines can be watched from beginning to end.
const TTL: Duration = Duration::from_secs(5);
const MAX_TTL: Duration = Duration::from_secs(10);
const CLOCK_SKEW: Duration = Duration::from_secs(2);
/// The longest wait of a worker for a lock. After that, the worker tries another lock.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// On average, one of this many leases belongs to a worker that hangs, and is not renewed.
const LEASES_PER_HANG: usize = 20;

#[rustfmt::skip]
const NAMES: [&str; 26] = [
    "accounts/7", "accounts/12", "backup/db-1", "backup/db-2", "backup/files", "cache/warm-up", "deploy/ap", "deploy/eu",
    "deploy/us", "import/orders", "import/stock", "invoices/42", "invoices/43", "invoices/44", "ledger", "mail/digest",
    "mail/outbox", "migrations", "nightly-report", "payments/refunds", "payments/settle", "scheduler", "search/reindex",
    "sitemap", "tenants/acme", "tenants/globex",
];
/// The names of locks with readers and writers.
const RW_NAMES: [&str; 3] = ["prices", "rates", "catalogue"];
/// The names of semaphores, and their numbers of slots.
const SEMAPHORES: [(&str, u32); 2] = [("encoders", 4), ("exports", 2)];

/// Starts the workers and the faults, which end with this process. Returns a client of the same nodes.
pub(super) async fn start() -> Outcome<Client> {
    let nodes = MemoryNodes::new(NODES);
    let client = builder(&nodes).label("service").leases_outlive_process().init_cluster().await?;
    let failure = |error: io::Error| Failure::internal(format!("no thread for the workers: {error}"));
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failure)?;
    // Every worker has a client, and all clients would log the same events of a node. Log nothing on the workers'
    // thread.
    let run = move || {
        let _quiet = tracing::subscriber::set_default(NoSubscriber::default());
        runtime.block_on(run_tasks(nodes));
    };
    thread::Builder::new().name("demo".into()).spawn(run).map_err(failure)?;
    Ok(client)
}

/// Runs the workers and the faults. Never returns.
async fn run_tasks(nodes: MemoryNodes) {
    let mut tasks = JoinSet::new();
    let mut seeds = Seeded::new(SEED);
    for number in 1..=WORKERS {
        let client = builder(&nodes).label(format!("worker-{number}"));
        tasks.spawn(work(client, seeds.fork()));
    }
    tasks.spawn(inject_faults(nodes, seeds.fork()));
    tasks.join_all().await;
}

fn builder(nodes: &MemoryNodes) -> ClientBuilder {
    memory_builder(nodes, TTL, MAX_TTL, CLOCK_SKEW).history(true)
}

/// Acquires one lock after another, and holds each lock for a while.
async fn work(client: ClientBuilder, mut rng: Seeded) {
    // This cannot fail: the service has connected to the same nodes.
    let Ok(client) = client.connect_lazy().await else { return };
    loop {
        sleep(rng.millis(50, 4_000)).await;
        let busy = rng.millis(500, 12_000);
        // Timeouts and losses are part of the demonstration.
        if let Some(lease) = acquire(&client, &mut rng).await {
            let _ = timeout(busy, lease.lost()).await;
        }
    }
}

async fn acquire(client: &Client, rng: &mut Seeded) -> Option<Lease> {
    let acquired = match rng.below(10) {
        0 | 1 => client.rw(rng.pick(&RW_NAMES)).read().acquire_within(MAX_WAIT).await,
        2 => client.rw(rng.pick(&RW_NAMES)).write().acquire_within(MAX_WAIT).await,
        3 => {
            let (name, slots) = rng.pick(&SEMAPHORES);
            client.semaphore(name, slots).acquire_within(MAX_WAIT).await
        }
        _ => {
            let lock = client.lock(rng.pick(&NAMES));
            let lock = if rng.index(LEASES_PER_HANG) == 0 { lock.renewals(Renewals::Off) } else { lock };
            lock.acquire_within(MAX_WAIT).await
        }
    };
    acquired.ok()
}

/// Injects random faults, each into a random node, and ends each fault before the next one.
async fn inject_faults(nodes: MemoryNodes, mut rng: Seeded) {
    loop {
        sleep(rng.millis(5_000, 15_000)).await;
        let node = rng.index(NODES);
        let outage = rng.millis(2_000, 6_000);
        let fault = rng.pick(&FAULTS);
        // A crash needs no outage: afterwards the node cannot vote during its quarantine, which is long enough.
        if fault != Fault::Crash {
            fault.perform(&nodes, node, true);
            sleep(outage).await;
        }
        fault.perform(&nodes, node, false);
    }
}
