//! The plan of a run: nodes, clients, their tasks, and faults. The seed decides the plan.

mod fault;
mod job;

use std::time::Duration;

use quorlock_core::node::Constants;
use quorlock_core::rng::Seeded;

pub use fault::{Direction, Fault, Recovery};
pub use job::{Cancel, Ending, Goal, Job, Kind, Patience};

const MS: u64 = 1_000_000;

/// The plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the plan.
    pub seed: u64,
    /// Whether a fault breaks an assumption. Leases may then overlap, and only the guarantees about fences hold.
    pub is_beyond_assumptions: bool,
    /// The plan of each node.
    pub nodes: Vec<NodePlan>,
    /// Whether the nodes are new, so that the clients must initialize the cluster first.
    pub is_blank: bool,
    /// The ttl of leases.
    pub ttl: Duration,
    /// The cluster's maximum ttl.
    pub max_ttl: Duration,
    /// The cluster's maximum clock skew.
    pub max_clock_skew: Duration,
    /// How far the cluster allows a node's clock to step back.
    pub max_clock_step_back: Duration,
    /// The clients' node deadline, if it is not the default.
    pub node_deadline: Option<Duration>,
    /// For each name that clients lock, its kind of lock.
    pub names: Vec<Kind>,
    /// The plan of each client.
    pub clients: Vec<ClientPlan>,
    /// If all clients send their first requests at the same time: that time, in nanoseconds.
    pub simultaneous_start_nanos: Option<u64>,
    /// The behaviour of the network.
    pub network: Network,
    /// The faults with their times, in nanoseconds.
    pub faults: Vec<(u64, Fault)>,
    /// The time after which there are no faults, in nanoseconds.
    pub horizon_nanos: u64,
}

/// The plan of a node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// How much faster the node's clock runs than virtual time, in parts per million. The rate changes its sign each
    /// time the clock has gained or lost `max_gain_nanos`.
    pub clock_rate_ppm: i64,
    /// How much the node's clock gains or loses before its rate changes its sign, in nanoseconds.
    pub max_gain_nanos: u64,
    /// How far the node's clock is ahead of the other nodes' clocks at the start, in microseconds.
    pub clock_ahead_micros: i64,
    /// For each name, how far the fence of an earlier lease is ahead of the node's clock, in microseconds.
    pub fences: Vec<Option<i64>>,
}

/// The plan of a client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// How much faster the client's clock runs than virtual time, in parts per million.
    pub clock_rate_ppm: i64,
    /// How long after the start of the run the client connects.
    pub connects_after: Duration,
    /// The tasks, each with its jobs in order.
    pub tasks: Vec<Vec<Job>>,
}

/// The behaviour of clients that send their first requests at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentionStyle {
    /// The clients do their jobs as drawn.
    Mixed,
    /// The clients wait without a limit.
    Patient,
    /// The first client waits without a limit. The other clients try once per job, do not queue, and release at once.
    Hurried,
    /// The clients wait without a limit. Each holder keeps the lock until its lease ends, without renewals.
    Clinging,
}

impl ContentionStyle {
    fn draw(rng: &mut Seeded) -> Self {
        match rng.below(6) {
            0 => Self::Mixed,
            1 | 2 => Self::Patient,
            3 | 4 => Self::Hurried,
            _ => Self::Clinging,
        }
    }

    fn apply_to(self, clients: &mut [ClientPlan]) {
        let tasks = clients.iter_mut().flat_map(|client| &mut client.tasks);
        match self {
            Self::Mixed => {}
            Self::Patient => {
                for first_job in tasks.filter_map(|jobs| jobs.first_mut()) {
                    (first_job.patience, first_job.cancel) = (Patience::Endless, None);
                }
            }
            Self::Hurried => {
                for (at, jobs) in tasks.enumerate() {
                    for job in jobs.iter_mut() {
                        job.patience = if at == 0 { Patience::Endless } else { Patience::Once };
                        job.cancel = None;
                        (job.rest_before, job.work_time) = (Duration::from_millis(1), Duration::ZERO);
                    }
                    let repeated_jobs = jobs.clone();
                    jobs.extend(repeated_jobs);
                }
            }
            Self::Clinging => {
                for job in tasks.flatten() {
                    (job.patience, job.cancel) = (Patience::Endless, None);
                    (job.has_renewals, job.work_time, job.ending) = (false, Duration::ZERO, Ending::UntilLost);
                }
            }
        }
    }
}

/// The behaviour of the network. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Network {
    /// The usual delay to and from each node.
    pub delays: Vec<u64>,
    /// The percentage of slow messages.
    pub slow_percent: u64,
    /// The maximum extra delay of a slow message.
    pub slow_delay_max: u64,
    /// How many of 1,000 messages break their connection.
    pub breaks_permille: u64,
    /// The percentage of hints that are lost.
    pub hints_lost_percent: u64,
    /// The percentage of ended connections whose messages in flight arrive late.
    pub stray_percent: u64,
    /// The maximum extra delay of these messages.
    pub stray_delay_max: u64,
    /// How long the tombstone of an attempt lasts at least. An older message from an ended connection may find no
    /// tombstone.
    pub tombstone_lifetime: u64,
}

impl Plan {
    /// The plan of this seed.
    pub fn of(seed: u64) -> Self {
        let rng = &mut Seeded::new(seed);
        let node_count = rng.pick(&[3, 3, 3, 3, 3, 3, 3, 5, 5, 1]);
        let ttl_millis = rng.pick(&[100, 150, 200, 300, 500, 1_000, 3_000]);
        // The maximum ttl, and so the maximum skew, is much longer than a heartbeat. Otherwise clients would report
        // clocks with different rates as skewed.
        let max_ttl = 3_000;
        let (max_clock_skew, max_clock_step_back) = (max_ttl * 2 / 5, max_ttl / 5);
        let horizon_nanos = ttl_millis * rng.range(2, 7) * MS;
        let simultaneous_start_nanos = rng.percent(40).then(|| rng.range(0, horizon_nanos / 2) + 20 * MS);
        let contention =
            if simultaneous_start_nanos.is_some() { ContentionStyle::draw(rng) } else { ContentionStyle::Mixed };
        let has_hurried_clients = contention == ContentionStyle::Hurried;
        let mut names: Vec<Kind> = (0..rng.pick(&[1, 1, 1, 2])).map(|_| Kind::draw(rng)).collect();
        if has_hurried_clients {
            names = vec![Kind::Exclusive];
        }
        let node_deadline = rng.percent(40).then(|| rng.millis(5, ttl_millis / 2));
        let (is_beyond_assumptions, fault_kinds) = fault::draw_kinds(rng, node_count);
        let (nodes, client_ppm) = nodes(rng, node_count, &names, max_clock_skew, has_hurried_clients);
        let client_count = if has_hurried_clients { 2 } else { rng.pick(&[1, 2, 2, 2, 3, 3, 3, 4]) };
        let mut clients: Vec<ClientPlan> = (0..client_count)
            .map(|index| ClientPlan {
                clock_rate_ppm: client_ppm(rng),
                connects_after: if index > 0 && rng.percent(15) {
                    rng.millis(0, horizon_nanos / MS)
                } else {
                    Duration::ZERO
                },
                tasks: (0..if has_hurried_clients { 1 } else { rng.pick(&[1, 1, 2]) })
                    .map(|_| job::draw_jobs(rng, &names, ttl_millis, is_beyond_assumptions))
                    .collect(),
            })
            .collect();
        contention.apply_to(&mut clients);
        for (client, jobs) in job::draw_retirement(seed, names.len(), client_count, ttl_millis, horizon_nanos) {
            clients[client].tasks.push(jobs);
        }
        let mut faults =
            fault::draw(rng, &fault_kinds, node_count, client_count, ttl_millis, max_clock_step_back, horizon_nanos);
        faults.extend(fault::draw_pauses(seed, client_count, ttl_millis, horizon_nanos));
        if let Some(at) = simultaneous_start_nanos.filter(|_| has_hurried_clients && rng.percent(70)) {
            faults.push((at.saturating_sub(5 * MS), patient_client_cut(&nodes, ttl_millis)));
        }
        Self {
            seed,
            is_beyond_assumptions,
            is_blank: rng.percent(4),
            nodes,
            ttl: Duration::from_millis(ttl_millis),
            max_ttl: Duration::from_millis(max_ttl),
            max_clock_skew: Duration::from_millis(max_clock_skew),
            max_clock_step_back: Duration::from_millis(max_clock_step_back),
            node_deadline,
            names,
            clients,
            simultaneous_start_nanos,
            network: network(rng, node_count, ttl_millis, node_deadline, has_hurried_clients),
            faults,
            horizon_nanos,
        }
    }

    /// The changes of the nodes' clock rates, each with its time in nanoseconds.
    pub(crate) fn rate_changes(&self) -> Vec<(u64, Fault)> {
        let mut changes = Vec::new();
        for (node, NodePlan { clock_rate_ppm, max_gain_nanos, .. }) in
            self.nodes.iter().enumerate().filter(|(_, node)| node.clock_rate_ppm != 0)
        {
            let (mut at, mut clock_rate_ppm) = (0, *clock_rate_ppm);
            while at < self.horizon_nanos {
                at += max_gain_nanos * 1_000_000 / clock_rate_ppm.unsigned_abs();
                clock_rate_ppm = -clock_rate_ppm;
                changes.push((at, Fault::NodeClockRate { node, clock_rate_ppm }));
            }
        }
        changes
    }

    /// Whether a client retires an owner.
    pub fn has_retirement(&self) -> bool {
        let mut jobs = self.clients.iter().flat_map(|client| client.tasks.iter().flatten());
        jobs.any(|job| matches!(job.goal, Goal::Retire { .. }))
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

/// Draws the nodes' plans. Also returns a function that draws a client's clock rate. All rates are within the allowed
/// drift.
fn nodes(
    rng: &mut Seeded,
    count: usize,
    names: &[Kind],
    max_clock_skew: u64,
    has_hurried_clients: bool,
) -> (Vec<NodePlan>, impl Fn(&mut Seeded) -> i64 + use<>) {
    let (have_different_rates, are_at_limit) = (rng.percent(50), rng.percent(50));
    // A lease of ttl T, minus the drift of 0.1 T, must end by the client's clock before it ends by the node's clock. If
    // the node's clock is fast by `quickest` and the client's clock slow by `slowest` (as parts of one), this needs
    // 0.9 T (1 + quickest) <= T (1 - slowest).
    let slowest = if have_different_rates { rng.below(90_000) } else { 0 };
    let quickest = if have_different_rates { (1_000_000 - slowest) * 10 / 9 - 1_000_000 } else { 0 };
    let (have_skew, have_fences) = (rng.percent(50), rng.percent(30) || has_hurried_clients);
    let max_clock_skew = max_clock_skew as i64 * 1_000;
    let nodes = (0..count).map(|_| NodePlan {
        clock_rate_ppm: match if are_at_limit { 2 } else { rng.below(4) } {
            0 => rng.below(quickest + 1) as i64,
            1 => -(rng.below(quickest + 1) as i64),
            _ => quickest as i64,
        },
        max_gain_nanos: max_clock_skew as u64 * 1_000 / 8,
        clock_ahead_micros: if have_skew {
            rng.below(max_clock_skew as u64 / 4) as i64 - max_clock_skew / 8
        } else {
            0
        },
        fences: names
            .iter()
            .map(|_| {
                (have_fences && rng.percent(if has_hurried_clients { 90 } else { 50 }))
                    .then(|| rng.below(max_clock_skew as u64 / 2) as i64)
            })
            .collect(),
    });
    let clock_rate_ppm = move |rng: &mut Seeded| match if are_at_limit { 1 } else { rng.below(3) } {
        0 => rng.below(if have_different_rates { 90_000 } else { 1 }) as i64,
        _ => -(slowest as i64),
    };
    (nodes.collect(), clock_rate_ppm)
}

/// A cut between the first client, the only one that waits among hurried clients, and the node with the highest fence.
fn patient_client_cut(nodes: &[NodePlan], ttl_millis: u64) -> Fault {
    let node = (0..nodes.len()).max_by_key(|node| nodes[*node].fences.first().copied().flatten()).unwrap_or(0);
    Fault::Cut { client: 0, node, direction: Direction::Both, duration_nanos: ttl_millis * MS }
}

fn network(
    rng: &mut Seeded,
    count: usize,
    ttl_millis: u64,
    node_deadline: Option<Duration>,
    has_hurried_clients: bool,
) -> Network {
    let slow_delay_max = rng.range(1, ttl_millis / 2) * MS;
    // Without faults, a round must be shorter than the node deadline.
    let deadline =
        node_deadline.map_or((ttl_millis * MS / 20).clamp(5 * MS, 200 * MS), |deadline| deadline.as_nanos() as u64);
    let delay = rng.pick(&[deadline / 100, deadline / 30, deadline / 10]);
    Network {
        delays: (0..count).map(|_| rng.range(delay / 2, delay * 2)).collect(),
        slow_percent: rng.pick(&[0, 0, 3, 10, 30]),
        slow_delay_max,
        breaks_permille: if has_hurried_clients { 100 } else { rng.pick(&[0, 0, 0, 0, 10, 100]) },
        hints_lost_percent: rng.pick(&[0, 0, 0, 30, 100]),
        stray_percent: rng.pick(&[0, 30, 70]),
        stray_delay_max: ttl_millis * MS,
        // A tombstone lasts two ttls, by the node's clock, which may be fast.
        tombstone_lifetime: ttl_millis * MS * 9 / 5,
    }
}
