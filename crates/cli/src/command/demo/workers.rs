//! The tasks of the demonstration: workers that hold locks, faults of the nodes, and an observer of the nodes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use quorlock::{Client, ClientBuilder, Lease, Lock, MemoryNodes, Progress, Renewals};
use quorlock_core::rng::Seeded;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::checker::PastLease;
use super::plan::Outage;
use super::scene::{Observation, Scene, worker_title};
use super::{MAX_TTL, NAMES, NODES, TTL, WORKERS, memory_builder};
use crate::exit::Outcome;

/// The interval at which the validity of leases and the state of nodes are reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// The longest wait of a worker for a name. After that, the worker tries another name.
const MAX_WAIT: Duration = Duration::from_secs(6);
/// How long a worker that hangs keeps its lease, unless the lease is lost before that.
const HANG: Duration = Duration::from_secs(6);
/// On average, a worker hangs with one of this many leases.
const LEASES_PER_HANG: usize = 40;
/// How far the nodes' clocks may be apart, and how far they may step back.
const CLOCK_SKEW: Duration = Duration::from_secs(1);

/// Starts the workers, the faults and the observer. Returns the workers in the first set, and the faults and the
/// observer in the second set. Dropping a set ends its tasks.
pub(super) async fn start(
    scene: &Arc<Mutex<Scene>>,
    plan: &[Outage],
    stopped: &watch::Receiver<bool>,
) -> Outcome<(JoinSet<()>, JoinSet<()>)> {
    let nodes = MemoryNodes::new(NODES);
    let observer = builder(&nodes).node_deadline(REPORT_INTERVAL).init_cluster().await?;
    let mut seeds = Seeded::new(scene.lock().seed);
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let client = builder(&nodes).label(worker_title(number)).connect_lazy().await?;
        let (scene, stopped) = (Arc::clone(scene), stopped.clone());
        workers.spawn(Worker { number, client, rng: seeds.fork(), scene, stopped }.work());
    }
    let mut background = JoinSet::new();
    background.spawn(observe(observer, Arc::clone(scene)));
    for outage in plan {
        background.spawn(inject_fault(nodes.clone(), *outage, Arc::clone(scene)));
    }
    Ok((workers, background))
}

fn builder(nodes: &MemoryNodes) -> ClientBuilder {
    memory_builder(nodes, TTL, MAX_TTL, CLOCK_SKEW)
}

/// A worker with its own client, as a separate process would have.
struct Worker {
    number: usize,
    client: Client,
    rng: Seeded,
    scene: Arc<Mutex<Scene>>,
    stopped: watch::Receiver<bool>,
}

impl Worker {
    async fn work(mut self) {
        loop {
            let pause = self.rng.millis(20, 400);
            let name = self.rng.index(NAMES.len());
            let work = self.rng.millis(100, 1_000);
            let hangs = self.rng.index(LEASES_PER_HANG) == 0;
            if timeout(pause, self.stopped.wait_for(|stop| *stop)).await.is_ok() {
                return;
            }
            let (lock, granted) = self.lock(name, hangs);
            let acquired = tokio::select! {
                biased;
                _ = self.stopped.wait_for(|stop| *stop) => return,
                acquired = lock.acquire_within(MAX_WAIT) => acquired,
            };
            let (Ok(lease), Some((fence, granted_at))) = (acquired, granted.get()) else {
                self.scene.lock().record_timeout(self.number, name);
                continue;
            };
            if hangs {
                self.scene.lock().record_hang(self.number, name);
            }
            self.hold(name, lease, *fence, *granted_at, if hangs { HANG } else { work }).await;
        }
    }

    /// Returns the lock, and a cell for its fence and the time of its grant.
    fn lock(&self, name: usize, hangs: bool) -> (Lock, Arc<OnceLock<(u64, Duration)>>) {
        let granted = Arc::new(OnceLock::new());
        let (cell, scene, worker) = (Arc::clone(&granted), Arc::clone(&self.scene), self.number);
        let lock = self.client.lock(NAMES[name]).observe(move |progress| match progress {
            Progress::Waiting(wait) => scene.lock().record_wait(worker, name, wait.position),
            Progress::Granted { fence } => {
                let fence = fence.map_or(0, quorlock::Fence::get);
                let _ = cell.set((fence, scene.lock().record_grant(worker, name, fence)));
            }
            _ => {}
        });
        // A worker that hangs does not renew, so its lease ends by itself.
        (if hangs { lock.renewals(Renewals::Off) } else { lock }, granted)
    }

    /// Holds the lease for this long, unless the lease is lost or the demonstration ends before that.
    async fn hold(&mut self, name: usize, lease: Lease, fence: u64, granted_at: Duration, hold: Duration) {
        let end = Instant::now() + hold;
        let lost = lease.lost();
        tokio::pin!(lost);
        let mut valid_until = granted_at;
        while Instant::now() < end {
            // Read the clock before the validity, so that the computed end of the lease is too early rather than too
            // late.
            let now = self.scene.lock().age();
            let left = lease.validity();
            valid_until = valid_until.max(now + left);
            self.scene.lock().names[name].left = left;
            tokio::select! {
                biased;
                _ = &mut lost => break,
                _ = self.stopped.wait_for(|stop| *stop) => break,
                () = sleep(REPORT_INTERVAL) => {}
            }
        }
        let now = self.scene.lock().age();
        let is_lost = lease.validity().is_zero();
        let until = if is_lost { now.min(valid_until) } else { now };
        let past_lease = PastLease { name: NAMES[name], worker: self.number, fence, from: granted_at, until, is_lost };
        self.scene.lock().record_end(name, past_lease);
        // The result does not matter: a loss is already reported, and the client sends an unacknowledged release again.
        let _ = lease.release().await;
    }
}

/// Reports the state of every node, as a client sees it.
async fn observe(client: Client, scene: Arc<Mutex<Scene>>) {
    loop {
        let troubles = client.nodes().into_iter().map(|(_, trouble)| trouble);
        let mut nodes: Vec<Observation> = troubles.map(|trouble| (trouble, Default::default())).collect();
        let [first, second, third] = NAMES.map(|name| client.inspect(name));
        let inspections: [_; NAMES.len()] = tokio::join!(first, second, third).into();
        for (name, inspection) in inspections.into_iter().enumerate() {
            // Too few nodes answered.
            let Ok(inspection) = inspection else { continue };
            for ((_, votes), (_, report)) in nodes.iter_mut().zip(inspection.nodes) {
                let held = report.ok().and_then(|report| report.held);
                votes[name] = held.and_then(|held| held.holder).map(|holder| holder.label);
            }
        }
        scene.lock().record_observation(nodes);
        sleep(REPORT_INTERVAL).await;
    }
}

/// Begins the fault of an outage, and ends it, at the planned times.
async fn inject_fault(nodes: MemoryNodes, outage: Outage, scene: Arc<Mutex<Scene>>) {
    let Outage { node, fault, from, until } = outage;
    for (begins, pause) in [(true, from), (false, until.saturating_sub(from))] {
        sleep(pause).await;
        fault.perform(&nodes, node, begins);
        scene.lock().record_fault(node, fault, begins);
    }
}
