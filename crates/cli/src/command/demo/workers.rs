//! Clients of five nodes in this process, and the faults of these nodes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use quorlock::{Client, ClientBuilder, Lease, Lock, MemoryNodes, Progress, Renewals};
use quorlock_core::rng::Seeded;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::checker::Tenure;
use super::plan::Outage;
use super::scene::{Observation, Scene, title};
use super::{MAX_TTL, NAMES, NODES, TTL, WORKERS, builder_with};
use crate::exit::Outcome;

/// The interval at which the validity of leases and the state of nodes are reported.
const REPORT: Duration = Duration::from_millis(50);
/// A worker that has waited for this long tries another name.
const PATIENCE: Duration = Duration::from_secs(6);
/// On average, a worker hangs with one of this many leases.
const HANGS: usize = 40;
/// How far the nodes' clocks may be apart, and how far they may step back.
const CLOCK_SKEW: Duration = Duration::from_secs(1);

/// Starts the workers, the faults and the observer. Returns the workers as the first set, and the faults and the
/// observer as the second set. Dropping the second set ends the faults and the observer.
pub(super) async fn start(
    scene: &Arc<Mutex<Scene>>,
    plan: &[Outage],
    stopped: &watch::Receiver<bool>,
) -> Outcome<(JoinSet<()>, JoinSet<()>)> {
    let nodes = MemoryNodes::new(NODES);
    let observer = builder(&nodes).node_deadline(REPORT).init_cluster().await?;
    let mut seeds = Seeded::new(scene.lock().seed);
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let client = builder(&nodes).label(title(number)).connect_lazy().await?;
        let (scene, stopped) = (Arc::clone(scene), stopped.clone());
        workers.spawn(Worker { number, client, rng: seeds.fork(), scene, stopped }.work());
    }
    let mut others = JoinSet::new();
    others.spawn(observe(observer, Arc::clone(scene)));
    for outage in plan {
        others.spawn(fail(nodes.clone(), *outage, Arc::clone(scene)));
    }
    Ok((workers, others))
}

fn builder(nodes: &MemoryNodes) -> ClientBuilder {
    builder_with(nodes, TTL, MAX_TTL, CLOCK_SKEW)
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
            let rest = self.rng.millis(20, 400);
            let name = self.rng.index(NAMES.len());
            let busy = self.rng.millis(100, 1_000);
            let hangs = self.rng.index(HANGS) == 0;
            if timeout(rest, self.stopped.wait_for(|stop| *stop)).await.is_ok() {
                return;
            }
            let (lock, granted) = self.lock(name, hangs);
            let acquired = tokio::select! {
                biased;
                _ = self.stopped.wait_for(|stop| *stop) => return,
                acquired = lock.acquire_within(PATIENCE) => acquired,
            };
            let (Ok(lease), Some((fence, from))) = (acquired, granted.get()) else {
                self.scene.lock().gave_up(self.number, name);
                continue;
            };
            if hangs {
                self.scene.lock().hangs(self.number, name);
            }
            self.hold(name, lease, *fence, *from, if hangs { PATIENCE } else { busy }).await;
        }
    }

    /// Returns the lock, and a cell for its fence and the time of its grant.
    fn lock(&self, name: usize, hangs: bool) -> (Lock, Arc<OnceLock<(u64, Duration)>>) {
        let granted = Arc::new(OnceLock::new());
        let (known, scene, worker) = (Arc::clone(&granted), Arc::clone(&self.scene), self.number);
        let lock = self.client.lock(NAMES[name]).observe(move |progress| match progress {
            Progress::Waiting(wait) => scene.lock().waits(worker, name, wait.place),
            Progress::Granted { fence } => {
                let fence = fence.map_or(0, quorlock::Fence::get);
                let _ = known.set((fence, scene.lock().granted(worker, name, fence)));
            }
            _ => {}
        });
        // A worker that hangs does not renew, so its lease ends by itself.
        (if hangs { lock.renewals(Renewals::Off) } else { lock }, granted)
    }

    /// Holds the lease until the work is done, the lease is lost or the demonstration ends.
    async fn hold(&mut self, name: usize, lease: Lease, fence: u64, from: Duration, busy: Duration) {
        let done = Instant::now() + busy;
        let lost = lease.lost();
        tokio::pin!(lost);
        let mut valid_until = from;
        while Instant::now() < done {
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
                () = sleep(REPORT) => {}
            }
        }
        let now = self.scene.lock().age();
        let is_lost = lease.validity().is_zero();
        let until = if is_lost { now.min(valid_until) } else { now };
        let tenure = Tenure { name: NAMES[name], worker: self.number, fence, from, until, is_lost };
        self.scene.lock().ended(name, tenure);
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
            for ((_, votes), (_, said)) in nodes.iter_mut().zip(inspection.nodes) {
                let held = said.ok().and_then(|report| report.held);
                votes[name] = held.and_then(|held| held.holder).map(|holder| holder.label);
            }
        }
        scene.lock().observed(nodes);
        sleep(REPORT).await;
    }
}

async fn fail(nodes: MemoryNodes, outage: Outage, scene: Arc<Mutex<Scene>>) {
    let Outage { node, fault, from, until } = outage;
    for (begins, rest) in [(true, from), (false, until.saturating_sub(from))] {
        sleep(rest).await;
        fault.perform(&nodes, node, begins);
        scene.lock().fault(node, fault, begins);
    }
}
