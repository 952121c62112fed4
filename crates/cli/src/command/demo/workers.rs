//! Clients of five nodes in this process, and the faults of these nodes.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use quorlock::{Client, ClientBuilder, Lease, Lock, MemoryNodes, Progress, Renewals};
use quorlock_core::rng::Seeded;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::checker::Tenure;
use super::plan::{Fault, Outage};
use super::scene::{Observation, Scene, title};
use super::{MAX_TTL, NAMES, NODES, TTL, WORKERS};
use crate::command::locked;
use crate::exit::Failure;

/// The interval at which the validity of leases and the state of nodes are reported.
const REPORT: Duration = Duration::from_millis(50);
/// A worker that has waited for this long tries another name.
const PATIENCE: Duration = Duration::from_secs(6);
/// One of this many leases belongs to a worker that hangs.
const HANGS: usize = 40;
/// How far the nodes' clocks may be apart, and how far they may step back.
const CLOCK_SKEW: Duration = Duration::from_secs(1);

/// Starts the workers, and in the second set the faults and the observer, which end when it is dropped.
pub(super) async fn start(
    scene: &Arc<Mutex<Scene>>,
    plan: &[Outage],
    stopped: &watch::Receiver<bool>,
) -> Result<(JoinSet<()>, JoinSet<()>), Failure> {
    let nodes = MemoryNodes::new(NODES);
    let observer = builder(&nodes).node_deadline(REPORT).init_cluster().await?;
    let mut seeds = Seeded::new(locked(scene).seed);
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
    let builder = Client::builder().memory(nodes).ttl(TTL).max_ttl(MAX_TTL);
    builder.max_clock_skew(CLOCK_SKEW).max_clock_step_back(CLOCK_SKEW)
}

/// A worker, which stands for a separate process.
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
            tokio::select! {
                biased;
                _ = self.stopped.wait_for(|stop| *stop) => return,
                () = sleep(rest) => {}
            }
            let (lock, granted) = self.lock(name, hangs);
            let acquired = tokio::select! {
                biased;
                _ = self.stopped.wait_for(|stop| *stop) => return,
                acquired = lock.acquire_within(PATIENCE) => acquired,
            };
            let (Ok(lease), Some((fence, from))) = (acquired, granted.get()) else {
                locked(&self.scene).gave_up(self.number, name);
                continue;
            };
            if hangs {
                locked(&self.scene).hangs(self.number, name);
            }
            self.hold(name, lease, *fence, *from, if hangs { PATIENCE } else { busy }).await;
        }
    }

    /// Returns the lock, and a cell for its fence and the time of its grant.
    fn lock(&self, name: usize, hangs: bool) -> (Lock, Arc<OnceLock<(u64, Duration)>>) {
        let granted = Arc::new(OnceLock::new());
        let (known, scene, worker) = (Arc::clone(&granted), Arc::clone(&self.scene), self.number);
        let lock = self.client.lock(NAMES[name]).observe(move |progress| match progress {
            Progress::Waiting(wait) => locked(&scene).waits(worker, name, wait.place),
            Progress::Granted { fence } => {
                let fence = fence.map_or(0, quorlock::Fence::get);
                let _ = known.set((fence, locked(&scene).granted(worker, name, fence)));
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
            // Read the clock before the validity, so that the validity is too short rather than too long.
            let now = locked(&self.scene).age();
            let left = lease.validity();
            valid_until = valid_until.max(now + left);
            locked(&self.scene).names[name].left = left;
            tokio::select! {
                biased;
                _ = &mut lost => break,
                _ = self.stopped.wait_for(|stop| *stop) => break,
                () = sleep(REPORT) => {}
            }
        }
        let now = locked(&self.scene).age();
        let is_lost = lease.validity().is_zero();
        let until = if is_lost { now.min(valid_until) } else { now };
        let tenure = Tenure { name: NAMES[name], worker: self.number, fence, from, until, is_lost };
        locked(&self.scene).ended(name, tenure);
        // A loss has been reported. A release that too few nodes acknowledged is delivered later.
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
            // Without a majority, nothing is known.
            let Ok(inspection) = inspection else { continue };
            for ((_, votes), (_, said)) in nodes.iter_mut().zip(inspection.nodes) {
                let held = said.ok().and_then(|report| report.held);
                votes[name] = held.and_then(|held| held.holder).map(|holder| holder.label);
            }
        }
        locked(&scene).observed(nodes);
        sleep(REPORT).await;
    }
}

async fn fail(nodes: MemoryNodes, outage: Outage, scene: Arc<Mutex<Scene>>) {
    sleep(outage.from).await;
    match outage.fault {
        Fault::Freeze => nodes.freeze(outage.node),
        Fault::Cut | Fault::Crash => nodes.down(outage.node),
    }
    locked(&scene).fault_begins(outage);
    sleep(outage.until.saturating_sub(outage.from)).await;
    match outage.fault {
        Fault::Freeze => nodes.thaw(outage.node),
        Fault::Cut => nodes.up(outage.node),
        Fault::Crash => nodes.restart_empty(outage.node),
    }
    locked(&scene).fault_ends(outage);
}
