//! The plan of a run, which the seed decides: nodes, clients, their tasks, and faults. Each run has its own mix.

mod fault;
mod want;

use std::time::Duration;

use quorlock_core::node::Constants;
use quorlock_core::rng::Seeded;

pub use fault::{Direction, Fault, Recovery};
pub use want::{Cancel, Ending, Job, Kind, Patience, Want};

const MS: u64 = 1_000_000;

/// The plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the plan.
    pub seed: u64,
    /// Whether a fault breaks an assumption: then leases may overlap, and only fences are guaranteed.
    pub is_beyond: bool,
    /// The plan of each node.
    pub nodes: Vec<NodePlan>,
    /// Whether the nodes are blank and must form a cluster first.
    pub is_blank: bool,
    /// The ttl of leases.
    pub ttl: Duration,
    /// The cluster's maximum ttl.
    pub max_ttl: Duration,
    /// The cluster's maximum clock skew.
    pub max_clock_skew: Duration,
    /// The cluster's maximum step back of a clock.
    pub max_clock_step_back: Duration,
    /// The clients' node deadline, if it is not the default.
    pub node_deadline: Option<Duration>,
    /// The names that clients lock.
    pub names: Vec<Kind>,
    /// The plan of each client.
    pub clients: Vec<ClientPlan>,
    /// The common start time of all clients in nanoseconds, if they begin at the same time.
    pub rush: Option<u64>,
    /// The behaviour of the network.
    pub network: Network,
    /// The faults with their times, in nanoseconds.
    pub faults: Vec<(u64, Fault)>,
    /// The time after which there are no faults.
    pub horizon: u64,
}

/// The plan of a node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// The rate of its clock: fast by this many parts per million, until it has gained `slews` nanoseconds; then it is
    /// slewed back.
    pub ppm: i64,
    /// The limit of the gain.
    pub slews: u64,
    /// How far it is ahead at the start, in microseconds.
    pub ahead: i64,
    /// For each name, the fence of an earlier lease, in microseconds ahead of its clock.
    pub fences: Vec<Option<i64>>,
}

/// The plan of a client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// The rate of its clock: fast by this many parts per million.
    pub ppm: i64,
    /// When it connects, after the start.
    pub starts: Duration,
    /// The tasks, each with its jobs in order.
    pub tasks: Vec<Vec<Job>>,
}

/// The behaviour of clients that begin at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Temper {
    /// No common behaviour.
    Mixed,
    /// They wait without a limit.
    Patient,
    /// All but the first retry all the time without queueing, and release at once.
    Hasty,
    /// Holders keep the lock as long as they can without renewing it; the others wait.
    Clinging,
}

impl Temper {
    fn draw(rng: &mut Seeded) -> Self {
        match rng.below(6) {
            0 => Self::Mixed,
            1 | 2 => Self::Patient,
            3 | 4 => Self::Hasty,
            _ => Self::Clinging,
        }
    }

    fn apply_to(self, clients: &mut [ClientPlan]) {
        let all = clients.iter_mut().flat_map(|client| &mut client.tasks);
        match self {
            Self::Mixed => {}
            Self::Patient => {
                for first in all.filter_map(|jobs| jobs.first_mut()) {
                    (first.patience, first.cancel) = (Patience::Endless, None);
                }
            }
            Self::Hasty => {
                for (at, jobs) in all.enumerate() {
                    for job in jobs.iter_mut() {
                        job.patience = if at == 0 { Patience::Endless } else { Patience::Once };
                        job.cancel = None;
                        (job.rest, job.works) = (Duration::from_millis(1), Duration::ZERO);
                    }
                    let again = jobs.clone();
                    jobs.extend(again);
                }
            }
            Self::Clinging => {
                for job in all.flatten() {
                    (job.patience, job.cancel) = (Patience::Endless, None);
                    (job.renews, job.works, job.ending) = (false, Duration::ZERO, Ending::UntilLost);
                }
            }
        }
    }
}

/// The behaviour of the network. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Network {
    /// The usual delay to and from each node.
    pub paces: Vec<u64>,
    /// The percentage of slow messages.
    pub slow_percent: u64,
    /// The maximum of their extra delay.
    pub slow_max: u64,
    /// The permille of messages with which the connection breaks.
    pub breaks_permille: u64,
    /// The percentage of hints that are lost.
    pub hints_lost_percent: u64,
    /// The percentage of ended connections whose messages in flight arrive late.
    pub stray_percent: u64,
    /// The maximum of their extra delay.
    pub stray_max: u64,
    /// A message that arrives later than this from an ended connection may outlive the tombstone of its attempt.
    pub tombstones: u64,
}

impl Plan {
    /// The plan of this seed.
    pub fn of(seed: u64) -> Self {
        let rng = &mut Seeded::new(seed);
        let count = rng.pick(&[3, 3, 3, 3, 3, 3, 3, 5, 5, 1]);
        let ttl = rng.pick(&[100, 150, 200, 300, 500, 1_000, 3_000]);
        // Long enough compared with a heartbeat that clocks of different rates do not look skewed.
        let max_ttl = 3_000;
        let (max_clock_skew, max_clock_step_back) = (max_ttl * 2 / 5, max_ttl / 5);
        let horizon = ttl * rng.range(2, 7) * MS;
        let rush = rng.percent(40).then(|| rng.range(0, horizon / 2) + 20 * MS);
        let temper = if rush.is_some() { Temper::draw(rng) } else { Temper::Mixed };
        let is_hasty = temper == Temper::Hasty;
        let mut names: Vec<Kind> = (0..rng.pick(&[1, 1, 1, 2])).map(|_| Kind::draw(rng)).collect();
        if is_hasty {
            names = vec![Kind::Exclusive];
        }
        let node_deadline = rng.percent(40).then(|| rng.millis(5, ttl / 2));
        let (is_beyond, fault_kinds) = fault::draw_kinds(rng, count);
        let (nodes, client_ppm) = nodes(rng, count, &names, max_clock_skew, is_hasty);
        let client_count = if is_hasty { 2 } else { rng.pick(&[1, 2, 2, 2, 3, 3, 3, 4]) };
        let mut clients: Vec<ClientPlan> = (0..client_count)
            .map(|index| ClientPlan {
                ppm: client_ppm(rng),
                starts: if index > 0 && rng.percent(15) { rng.millis(0, horizon / MS) } else { Duration::ZERO },
                tasks: (0..if is_hasty { 1 } else { rng.pick(&[1, 1, 2]) })
                    .map(|_| want::jobs(rng, &names, ttl, is_beyond))
                    .collect(),
            })
            .collect();
        temper.apply_to(&mut clients);
        for (client, jobs) in want::retirement(seed, names.len(), client_count, ttl, horizon) {
            clients[client].tasks.push(jobs);
        }
        let mut faults = fault::draw(rng, &fault_kinds, count, client_count, ttl, max_clock_step_back, horizon);
        faults.extend(fault::draw_pauses(seed, client_count, ttl, horizon));
        if let Some(at) = rush.filter(|_| is_hasty && rng.percent(70)) {
            faults.push((at.saturating_sub(5 * MS), out_of_reach(&nodes, ttl)));
        }
        Self {
            seed,
            is_beyond,
            is_blank: rng.percent(4),
            nodes,
            ttl: Duration::from_millis(ttl),
            max_ttl: Duration::from_millis(max_ttl),
            max_clock_skew: Duration::from_millis(max_clock_skew),
            max_clock_step_back: Duration::from_millis(max_clock_step_back),
            node_deadline,
            names,
            clients,
            rush,
            network: network(rng, count, ttl, node_deadline, is_hasty),
            faults,
            horizon,
        }
    }

    /// The times at which the nodes' clocks are slewed the other way.
    pub(crate) fn slews(&self) -> Vec<(u64, Fault)> {
        let mut slews = Vec::new();
        for (node, NodePlan { ppm, slews: reach, .. }) in
            self.nodes.iter().enumerate().filter(|(_, node)| node.ppm != 0)
        {
            let (mut at, mut ppm) = (0, *ppm);
            while at < self.horizon {
                at += reach * 1_000_000 / ppm.unsigned_abs();
                ppm = -ppm;
                slews.push((at, Fault::NodeClockRate { node, ppm }));
            }
        }
        slews
    }

    /// Whether a client retires an owner.
    pub fn retires(&self) -> bool {
        let mut jobs = self.clients.iter().flat_map(|client| client.tasks.iter().flatten());
        jobs.any(|job| matches!(job.want, Want::Retire { .. }))
    }

    /// The constants of the cluster.
    pub fn constants(&self) -> Constants {
        Constants {
            cluster: "c".into(),
            nodes: self.nodes.len(),
            max_ttl_millis: self.max_ttl.as_millis() as u64,
            max_skew_micros: self.max_clock_skew.as_micros() as u64,
        }
    }
}

/// Chooses the nodes' clocks, and the range of the clients' clocks: together within the allowed drift.
fn nodes(
    rng: &mut Seeded,
    count: usize,
    names: &[Kind],
    max_clock_skew: u64,
    is_hasty: bool,
) -> (Vec<NodePlan>, impl Fn(&mut Seeded) -> i64 + use<>) {
    let (are_off, at_limit) = (rng.percent(50), rng.percent(50));
    // (T - d)(1 + node) <= T (1 - client), where d is 0.1 T.
    let slowest = if are_off { rng.below(90_000) } else { 0 };
    let quickest = if are_off { (1_000_000 - slowest) * 10 / 9 - 1_000_000 } else { 0 };
    let (are_apart, remember) = (rng.percent(50), rng.percent(30) || is_hasty);
    let max_clock_skew = max_clock_skew as i64 * 1_000;
    let nodes = (0..count).map(|_| NodePlan {
        ppm: match if at_limit { 2 } else { rng.below(4) } {
            0 => rng.below(quickest + 1) as i64,
            1 => -(rng.below(quickest + 1) as i64),
            _ => quickest as i64,
        },
        slews: max_clock_skew as u64 * 1_000 / 8,
        ahead: if are_apart { rng.below(max_clock_skew as u64 / 4) as i64 - max_clock_skew / 8 } else { 0 },
        fences: names
            .iter()
            .map(|_| {
                (remember && rng.percent(if is_hasty { 90 } else { 50 }))
                    .then(|| rng.below(max_clock_skew as u64 / 2) as i64)
            })
            .collect(),
    });
    let ppm = move |rng: &mut Seeded| match if at_limit { 1 } else { rng.below(3) } {
        0 => rng.below(if are_off { 90_000 } else { 1 }) as i64,
        _ => -(slowest as i64),
    };
    (nodes.collect(), ppm)
}

/// Separates the patient client among the hasty ones from the node with the highest fence.
fn out_of_reach(nodes: &[NodePlan], ttl: u64) -> Fault {
    let node = (0..nodes.len()).max_by_key(|node| nodes[*node].fences.first().copied().flatten()).unwrap_or(0);
    Fault::Cut { client: 0, node, direction: Direction::Both, lasts: ttl * MS }
}

fn network(rng: &mut Seeded, count: usize, ttl: u64, node_deadline: Option<Duration>, is_hasty: bool) -> Network {
    let slow_max = rng.range(1, ttl / 2) * MS;
    // Without faults, a round must fit into the node deadline.
    let deadline = node_deadline.map_or((ttl * MS / 20).clamp(5 * MS, 200 * MS), |deadline| deadline.as_nanos() as u64);
    let pace = rng.pick(&[deadline / 100, deadline / 30, deadline / 10]);
    Network {
        paces: (0..count).map(|_| rng.range(pace / 2, pace * 2)).collect(),
        slow_percent: rng.pick(&[0, 0, 3, 10, 30]),
        slow_max,
        breaks_permille: if is_hasty { 100 } else { rng.pick(&[0, 0, 0, 0, 10, 100]) },
        hints_lost_percent: rng.pick(&[0, 0, 0, 30, 100]),
        stray_percent: rng.pick(&[0, 30, 70]),
        stray_max: ttl * MS,
        // Two ttls, by the fastest clock that a node may have.
        tombstones: ttl * MS * 9 / 5,
    }
}
