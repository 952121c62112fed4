//! What one seed decides: who there is, what they want, and what goes wrong. Each run has its own mix.

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
    /// What decided it.
    pub seed: u64,
    /// Whether something goes wrong beyond what is assumed: then leases may overlap, and only fences are promised.
    pub is_beyond: bool,
    /// Each node.
    pub nodes: Vec<NodePlan>,
    /// Whether the nodes are new, and have to become a cluster first.
    pub is_blank: bool,
    /// The lifetime of leases.
    pub ttl: Duration,
    /// The longest that the cluster allows.
    pub max_ttl: Duration,
    /// How far the nodes' clocks may be apart.
    pub max_clock_skew: Duration,
    /// How far they may step back.
    pub max_clock_step_back: Duration,
    /// How long clients wait for a node, if not as long as usual.
    pub node_deadline: Option<Duration>,
    /// What is locked.
    pub names: Vec<Kind>,
    /// Who wants it.
    pub clients: Vec<ClientPlan>,
    /// When everybody begins, if all do at the same time, in nanoseconds.
    pub rush: Option<u64>,
    /// How messages travel.
    pub network: Network,
    /// What goes wrong, and when, in nanoseconds.
    pub faults: Vec<(u64, Fault)>,
    /// When nothing goes wrong any more.
    pub horizon: u64,
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// By how much its clock is fast, in parts per million, until it is this many nanoseconds further; then it is slewed back.
    pub ppm: i64,
    /// See there.
    pub slews: u64,
    /// How far it is ahead at the beginning, in microseconds.
    pub ahead: i64,
    /// For each name, a fence of an earlier lease that it remembers, in microseconds ahead of its clock.
    pub fences: Vec<Option<i64>>,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// By how much its clock is fast, in parts per million.
    pub ppm: i64,
    /// When it connects, after the beginning.
    pub starts: Duration,
    /// What its tasks do, one thing after the other.
    pub tasks: Vec<Vec<Job>>,
}

/// What everybody has in common who begins at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Temper {
    /// Nothing.
    Mixed,
    /// They wait for as long as it takes.
    Patient,
    /// All but the first ask again and again, without a place in the queue, and let go at once.
    Hasty,
    /// Those who get the lock keep it for as long as they can without renewing it; the others wait.
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

    fn of(self, clients: &mut [ClientPlan]) {
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

/// How messages travel. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Network {
    /// The usual time to and from each node.
    pub paces: Vec<u64>,
    /// How many of a hundred messages are slow, and by how much at most.
    pub slow_percent: u64,
    /// See there.
    pub slow_max: u64,
    /// With how many of a thousand messages the connection breaks.
    pub breaks_permille: u64,
    /// How many of a hundred hints get lost.
    pub hints_lost_percent: u64,
    /// On how many of a hundred connections that end, what is under way comes late, and by how much at most.
    pub stray_percent: u64,
    /// See there.
    pub stray_max: u64,
    /// What comes later than this from a connection that ended may outlive the note that its attempt is over.
    pub tombstones: u64,
}

impl Plan {
    /// What this seed decides.
    pub fn of(seed: u64) -> Self {
        let rng = &mut Seeded::new(seed);
        let count = rng.pick(&[3, 3, 3, 3, 3, 3, 3, 5, 5, 1]);
        let ttl = rng.pick(&[100, 150, 200, 300, 500, 1_000, 3_000]);
        // Large enough against a heartbeat for clocks that run at different rates not to look skewed.
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
        let (is_beyond, menu) = fault::menu(rng, count);
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
        temper.of(&mut clients);
        for (client, jobs) in want::retirement(seed, names.len(), client_count, ttl, horizon) {
            clients[client].tasks.push(jobs);
        }
        let mut faults = fault::draw(rng, &menu, count, client_count, ttl, max_clock_step_back, horizon);
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

    /// When each node's clock is slewed the other way.
    pub(crate) fn slews(&self) -> Vec<(u64, Fault)> {
        let mut slews = Vec::new();
        for (node, NodePlan { ppm, slews: reach, .. }) in
            self.nodes.iter().enumerate().filter(|(_, node)| node.ppm != 0)
        {
            let (mut at, mut ppm) = (0, *ppm);
            while at < self.horizon {
                at += reach * 1_000_000 / ppm.unsigned_abs();
                ppm = -ppm;
                slews.push((at, Fault::NodePace { node, ppm }));
            }
        }
        slews
    }

    /// Whether an owner is retired.
    pub fn retires(&self) -> bool {
        let mut jobs = self.clients.iter().flat_map(|client| client.tasks.iter().flatten());
        jobs.any(|job| matches!(job.want, Want::Retire { .. }))
    }

    /// What everyone agrees on.
    pub fn constants(&self) -> Constants {
        Constants {
            cluster: "c".into(),
            nodes: self.nodes.len(),
            max_ttl_millis: self.max_ttl.as_millis() as u64,
            max_skew_micros: self.max_clock_skew.as_micros() as u64,
        }
    }
}

/// The nodes' clocks, and how the clients' are drawn: together within what the drift allows.
fn nodes(
    rng: &mut Seeded,
    count: usize,
    names: &[Kind],
    max_clock_skew: u64,
    is_hasty: bool,
) -> (Vec<NodePlan>, impl Fn(&mut Seeded) -> i64 + use<>) {
    let (are_off, at_limit) = (rng.percent(50), rng.percent(50));
    // (T - d)(1 + node) <= T (1 - client), with d of a tenth.
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

/// The patient one among the hasty does not hear of the highest fence.
fn out_of_reach(nodes: &[NodePlan], ttl: u64) -> Fault {
    let node = (0..nodes.len()).max_by_key(|node| nodes[*node].fences.first().copied().flatten()).unwrap_or(0);
    Fault::Cut { client: 0, node, direction: Direction::Both, lasts: ttl * MS }
}

fn network(rng: &mut Seeded, count: usize, ttl: u64, node_deadline: Option<Duration>, is_hasty: bool) -> Network {
    let slow_max = rng.range(1, ttl / 2) * MS;
    // A round has to fit into the time that a node is waited for, unless something goes wrong.
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
