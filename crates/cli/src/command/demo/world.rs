//! Real clients over real rules, on five nodes that live in this process, with everything that is done to them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quorlock::{Client, ClientBuilder, Lease, Lock, MemoryNodes, Progress, Renewals, Silence};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::checker::{End, Turn};
use super::dice::Dice;
use super::plan::{Act, Deed};
use super::{MAX_CLOCK_SKEW, MAX_CLOCK_STEP_BACK, MAX_TTL, NAMES, NODES, TTL, WORKERS};
use crate::exit::Failure;

/// How often a holder looks how long its lease still lasts, and the watcher how the nodes stand.
const LOOK: Duration = Duration::from_millis(50);
/// Whoever has waited for this long tries another name.
const PATIENCE: Duration = Duration::from_secs(6);
/// One in so many leases is won by a worker that hangs.
const HANGS: usize = 40;
/// At the end everyone lets go; this is how long that may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What happens, as it happens. Moments are counted from the start; workers, names and nodes from 0.
#[derive(Clone, Debug)]
pub(crate) enum News {
    Waits { worker: usize, name: usize, place: Option<u32> },
    Granted { worker: usize, name: usize, fence: u64, at: Duration },
    Holds { name: usize, left: Duration },
    Hangs { worker: usize, name: usize, at: Duration },
    Ended { worker: usize, name: usize, turn: Turn },
    GaveUp { worker: usize, name: usize },
    Done(Deed),
    Looked(Vec<NodeLook>),
}

/// How a node looks from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeLook {
    /// Why it cannot vote.
    pub(crate) trouble: Option<Silence>,
    /// Whom it has given its vote, name by name; `None` where it says nothing.
    pub(crate) votes: Option<[Option<String>; NAMES.len()]>,
}

/// A running world.
pub(crate) struct World {
    started: Instant,
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
    others: JoinSet<()>,
}

impl World {
    /// Declares the cluster, lets the workers loose and carries out the plan.
    pub(crate) async fn start(seed: u64, plan: Vec<Deed>, tell: &mpsc::UnboundedSender<News>) -> Result<Self, Failure> {
        let nodes = MemoryNodes::new(NODES);
        let watcher = builder(&nodes).label("watcher").node_deadline(LOOK).init_cluster().await?;
        let mut clients = Vec::new();
        for worker in 0..WORKERS {
            clients.push(builder(&nodes).label(title(worker)).connect_lazy().await?);
        }
        let (stop, stopped) = watch::channel(false);
        let started = Instant::now();
        let mut workers = JoinSet::new();
        for (number, client) in clients.into_iter().enumerate() {
            let dice = Dice::new(seed, number as u64 + 1);
            workers.spawn(Worker { number, client, dice, started, tell: tell.clone() }.work(stopped.clone()));
        }
        let mut others = JoinSet::new();
        others.spawn(watch_nodes(watcher, tell.clone()));
        others.spawn(carry_out(nodes, plan, started, tell.clone()));
        Ok(Self { started, stop, workers, others })
    }

    /// How long it has been running.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Everyone lets go.
    pub(crate) async fn end(mut self) {
        self.stop.send_replace(true);
        let everyone = async { while self.workers.join_next().await.is_some() {} };
        // Whoever does not come back in time holds nothing that it has not told of.
        let _ = tokio::time::timeout(FAREWELL, everyone).await;
        self.others.shutdown().await;
    }
}

/// What a worker is called.
pub(crate) fn title(worker: usize) -> String {
    format!("w{}", worker + 1)
}

fn builder(nodes: &MemoryNodes) -> ClientBuilder {
    Client::builder()
        .memory(nodes)
        .ttl(TTL)
        .max_ttl(MAX_TTL)
        .max_clock_skew(MAX_CLOCK_SKEW)
        .max_clock_step_back(MAX_CLOCK_STEP_BACK)
}

/// A process of its own, if it were not for the demonstration.
struct Worker {
    number: usize,
    client: Client,
    dice: Dice,
    started: Instant,
    tell: mpsc::UnboundedSender<News>,
}

impl Worker {
    async fn work(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let rest = self.dice.millis(20, 400);
            let name = self.dice.below(NAMES.len());
            let busy = self.dice.millis(100, 1_000);
            let hangs = self.dice.below(HANGS) == 0;
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return,
                () = sleep(rest) => {}
            }
            let (lock, granted) = self.lock(name, hangs);
            let acquired = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return,
                acquired = lock.acquire_within(PATIENCE) => acquired,
            };
            match (acquired, granted.get()) {
                (Ok(lease), Some((fence, from))) if hangs => {
                    self.tell(News::Hangs { worker: self.number, name, at: *from });
                    self.hold(name, lease, *fence, *from, PATIENCE, &mut stopped).await;
                }
                (Ok(lease), Some((fence, from))) => {
                    self.hold(name, lease, *fence, *from, busy, &mut stopped).await;
                }
                _ => self.tell(News::GaveUp { worker: self.number, name }),
            }
        }
    }

    /// The lock, and where its fence and the moment of its decision will be found.
    fn lock(&self, name: usize, hangs: bool) -> (Lock, Arc<OnceLock<(u64, Duration)>>) {
        let granted = Arc::new(OnceLock::new());
        let (known, tell, worker, started) = (Arc::clone(&granted), self.tell.clone(), self.number, self.started);
        let lock = self.client.lock(NAMES[name]).observe(move |progress| {
            let news = match progress {
                Progress::Waiting(wait) => News::Waits { worker, name, place: wait.place },
                Progress::Granted { fence } => {
                    let (at, fence) = (started.elapsed(), fence.map_or(0, quorlock::Fence::get));
                    let _ = known.set((fence, at));
                    News::Granted { worker, name, fence, at }
                }
                _ => return,
            };
            let _ = tell.send(news);
        });
        // One that hangs does not renew either: its lease ends by itself.
        (if hangs { lock.renewals(Renewals::Off) } else { lock }, granted)
    }

    /// Holds the lease until the work is done, the lease is lost or the curtain falls; and says how it ended.
    async fn hold(
        &self,
        name: usize,
        lease: Lease,
        fence: u64,
        from: Duration,
        busy: Duration,
        stopped: &mut watch::Receiver<bool>,
    ) {
        let done = Instant::now() + busy;
        let lost = lease.lost();
        tokio::pin!(lost);
        let mut valid_until = from;
        while Instant::now() < done {
            // The clock first: rather a moment too short than too long.
            let now = self.started.elapsed();
            let left = lease.validity();
            valid_until = valid_until.max(now + left);
            self.tell(News::Holds { name, left });
            tokio::select! {
                biased;
                _ = &mut lost => break,
                _ = stopped.wait_for(|stop| *stop) => break,
                () = sleep(LOOK) => {}
            }
        }
        let now = self.started.elapsed();
        let (until, end) =
            if lease.validity().is_zero() { (now.min(valid_until), End::Lost) } else { (now, End::Released) };
        let holder = title(self.number);
        let turn = Turn { name: NAMES[name].into(), holder, fence, from, until, end };
        self.tell(News::Ended { worker: self.number, name, turn });
        // That it was lost is told already; a release that too few have acknowledged is delivered later.
        let _ = lease.release().await;
    }

    fn tell(&self, news: News) {
        // Nobody listens any more when the curtain has fallen.
        let _ = self.tell.send(news);
    }
}

/// Looks at every node, as a client sees it.
async fn watch_nodes(client: Client, tell: mpsc::UnboundedSender<News>) {
    loop {
        let mut looks: Vec<NodeLook> =
            client.nodes().into_iter().map(|(_, trouble)| NodeLook { trouble, votes: None }).collect();
        let [first, second, third] = NAMES.map(|name| client.inspect(name));
        let inspections: [_; NAMES.len()] = tokio::join!(first, second, third).into();
        for (name, inspection) in inspections.into_iter().enumerate() {
            // Without a majority nothing is known.
            let Ok(inspection) = inspection else { continue };
            for (look, (_, said)) in looks.iter_mut().zip(inspection.nodes) {
                if let Ok(report) = said {
                    let holder = report.held.and_then(|held| held.holder).map(|holder| holder.label);
                    look.votes.get_or_insert_default()[name] = holder;
                }
            }
        }
        if tell.send(News::Looked(looks)).is_err() {
            return;
        }
        sleep(LOOK).await;
    }
}

async fn carry_out(nodes: MemoryNodes, plan: Vec<Deed>, started: Instant, tell: mpsc::UnboundedSender<News>) {
    for deed in plan {
        sleep_until(started + deed.at).await;
        match deed.act {
            Act::Freeze => nodes.freeze(deed.node),
            Act::Thaw => nodes.thaw(deed.node),
            Act::CutOff | Act::Crash => nodes.down(deed.node),
            Act::Reconnect => nodes.up(deed.node),
            Act::RestartEmpty => nodes.restart_empty(deed.node),
        }
        if tell.send(News::Done(deed)).is_err() {
            return;
        }
    }
}
