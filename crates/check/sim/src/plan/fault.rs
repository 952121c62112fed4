//! The faults of a run.

use quorlock_core::rng::Seeded;

use crate::world::client_name;

const MS: u64 = 1_000_000;
/// Combined with the seed of a run, gives the seed of the random generator for pauses.
const PAUSE_SALT: u64 = 0x7061_7573_6573;

/// The direction in which a cut holds messages back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Messages to the node.
    ToNode,
    /// Messages to the client.
    ToClient,
    /// Messages in both directions.
    Both,
}

/// The memory of a node after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The node has lost everything.
    Empty,
    /// The node has its last snapshot.
    Snapshot,
    /// The node has all its data.
    AllData,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Fault {
    /// The network holds back messages between a client and a node.
    Cut { client: usize, node: usize, direction: Direction, duration_nanos: u64 },
    /// The connection between a client and a node breaks.
    Reset { client: usize, node: usize },
    /// A node is killed, and restarts later.
    Crash {
        node: usize,
        recovery: Recovery,
        /// How long the node is down, in nanoseconds.
        duration_nanos: u64,
    },
    /// A node takes a snapshot.
    Save { node: usize },
    /// A node loads its snapshot and keeps its connections, like a server that becomes a replica of a server with older
    /// data.
    RollBack { node: usize },
    /// A node is emptied, and keeps its connections.
    Flush { node: usize },
    /// A node stops for a while.
    FreezeNode { node: usize, duration_nanos: u64 },
    /// A client stops for a while. Its clock keeps running.
    FreezeClient { client: usize, duration_nanos: u64 },
    /// A client's virtual machine is paused. All its clocks except the wall clock stand still.
    PauseClient { client: usize, duration_nanos: u64 },
    /// A client is killed.
    Kill { client: usize },
    /// A client's boot-time clock jumps ahead, as after a suspension.
    ClientClockJump { client: usize, millis: u64 },
    /// The rate of a node's clock changes. The clock now runs faster than virtual time by `clock_rate_ppm` parts per
    /// million.
    NodeClockRate { node: usize, clock_rate_ppm: i64 },
    /// Beyond the assumptions: a node's clock is stepped by `millis`.
    NodeClockStep { node: usize, millis: i64 },
    /// Beyond the assumptions: a client's clock becomes much too slow or stops, or is corrected (`clock_rate_ppm` is
    /// 0).
    ClientClockRate { client: usize, clock_rate_ppm: i64 },
}

impl Fault {
    /// The label of this fault in the table of faults in `docs/evidence/sim.md`.
    pub fn page_label(&self) -> &'static str {
        match self {
            Self::Cut { direction: Direction::Both, .. } => "links cut in both directions",
            Self::Cut { .. } => "links cut in one direction",
            Self::Reset { .. } => "connections broken",
            Self::Crash { recovery: Recovery::Empty, .. } => "nodes that crash and restart empty",
            Self::Crash { recovery: Recovery::Snapshot, .. } => "nodes that crash and restart with an old snapshot",
            Self::Crash { recovery: Recovery::AllData, .. } => "nodes that crash and restart with all data",
            Self::Save { .. } => "snapshots",
            Self::RollBack { .. } => "nodes rolled back to an old snapshot, keeping connections",
            Self::Flush { .. } => "nodes emptied",
            Self::FreezeNode { .. } => "nodes stopped for a while",
            Self::FreezeClient { .. } => "clients stopped for a while",
            Self::PauseClient { .. } => "clients with a paused machine",
            Self::Kill { .. } => "clients killed",
            Self::ClientClockJump { .. } => "clients whose clock jumps ahead",
            Self::NodeClockRate { .. } => "nodes whose clock changes its rate",
            Self::NodeClockStep { .. } => "nodes whose clock is stepped",
            Self::ClientClockRate { clock_rate_ppm: 0, .. } => "clients whose clock is corrected",
            Self::ClientClockRate { .. } => "clients whose clock is much too slow or stopped",
        }
    }

    /// The name of the affected client or node, and a description of the fault. `None` if the fault has a line in the
    /// trace of its own, or needs none.
    pub(crate) fn describe(&self) -> Option<(String, String)> {
        let node_name = |node: &usize| format!("n{}", node + 1);
        let millis_text = |nanos: &u64| format!("{:.0} ms", *nanos as f64 / 1e6);
        Some(match self {
            Self::Cut { client, node, direction, duration_nanos } => {
                let state = match direction {
                    Direction::ToNode => "cannot send to",
                    Direction::ToClient => "receives nothing from",
                    Direction::Both => "is cut off from",
                };
                (client_name(*client), format!("{state} {} for {}", node_name(node), millis_text(duration_nanos)))
            }
            Self::Reset { client, node } => {
                (client_name(*client), format!("loses its connection to {}", node_name(node)))
            }
            Self::Crash { node, recovery, duration_nanos } => {
                let memory = match recovery {
                    Recovery::Empty => "empty",
                    Recovery::Snapshot => "with its snapshot",
                    Recovery::AllData => "with all its data",
                };
                (node_name(node), format!("crashes, and restarts {memory} after {}", millis_text(duration_nanos)))
            }
            Self::Save { node } => (node_name(node), "takes a snapshot".into()),
            Self::RollBack { node } => (node_name(node), "is rolled back to its snapshot; its connections stay".into()),
            Self::Flush { node } => (node_name(node), "is emptied; its connections stay".into()),
            Self::FreezeNode { node, duration_nanos } => {
                (node_name(node), format!("stops for {}", millis_text(duration_nanos)))
            }
            Self::FreezeClient { client, duration_nanos } => {
                (client_name(*client), format!("stops for {}", millis_text(duration_nanos)))
            }
            Self::PauseClient { client, duration_nanos } => (
                client_name(*client),
                format!("is paused together with its machine for {}", millis_text(duration_nanos)),
            ),
            Self::ClientClockJump { client, millis } => {
                (client_name(*client), format!("has a clock that jumps ahead by {millis} ms"))
            }
            Self::NodeClockStep { node, millis } => (node_name(node), format!("has its clock stepped by {millis} ms")),
            Self::ClientClockRate { client, clock_rate_ppm } => {
                (client_name(*client), format!("has a clock that runs at {} %", (1_000_000 + clock_rate_ppm) / 10_000))
            }
            Self::Kill { .. } | Self::NodeClockRate { .. } => return None,
        })
    }
}

/// A kind of fault that a plan can draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// Cuts between one client and one node.
    Cuts,
    /// Cuts between one client and all nodes, or between one node and all clients.
    Isolation,
    Resets,
    Crashes,
    Snapshots,
    Flushes,
    FrozenNodes,
    FrozenClients,
    Kills,
    ClientClockJumps,
    NodeClockSteps,
    SlowClientClocks,
}

/// Chooses the kinds of faults of a run. Also returns whether one of these kinds breaks an assumption.
pub(super) fn draw_kinds(rng: &mut Seeded, nodes: usize) -> (bool, Vec<FaultKind>) {
    let kinds_within_assumptions = [
        FaultKind::Cuts,
        FaultKind::Isolation,
        FaultKind::Resets,
        FaultKind::Crashes,
        FaultKind::Snapshots,
        FaultKind::Flushes,
        FaultKind::FrozenNodes,
        FaultKind::FrozenClients,
        FaultKind::Kills,
        FaultKind::ClientClockJumps,
    ];
    let percent = rng.pick(&[10, 25, 45]);
    let mut kinds: Vec<FaultKind> = kinds_within_assumptions.into_iter().filter(|_| rng.percent(percent)).collect();
    if rng.percent(25) {
        kinds.push(FaultKind::SlowClientClocks);
        if nodes > 1 {
            kinds.push(FaultKind::NodeClockSteps);
        }
    }
    let loses_memory =
        |kind: &FaultKind| matches!(kind, FaultKind::Crashes | FaultKind::Snapshots | FaultKind::Flushes);
    let breaks_clocks = |kind: &FaultKind| matches!(kind, FaultKind::SlowClientClocks | FaultKind::NodeClockSteps);
    // A single node skips the quarantine after it has lost its memory, which breaks an assumption.
    let is_beyond_assumptions = kinds.iter().any(|kind| breaks_clocks(kind) || nodes == 1 && loses_memory(kind));
    (is_beyond_assumptions, kinds)
}

/// In some runs, draws pauses of clients' virtual machines, each with its time in nanoseconds. Pauses have their own
/// random generator, so that the rest of a plan does not depend on them.
pub(super) fn draw_pauses(seed: u64, clients: usize, ttl_millis: u64, horizon_nanos: u64) -> Vec<(u64, Fault)> {
    let rng = &mut Seeded::new(seed ^ PAUSE_SALT);
    let count = if rng.percent(12) { rng.range(1, 3) } else { 0 };
    let pause = |_| {
        let (at, client) = (rng.below(horizon_nanos), rng.index(clients));
        (at, Fault::PauseClient { client, duration_nanos: rng.range(1, ttl_millis * 3) * MS })
    };
    (0..count).map(pause).collect()
}

/// Draws faults of the given kinds, each with its time in nanoseconds.
pub(super) fn draw(
    rng: &mut Seeded,
    kinds: &[FaultKind],
    nodes: usize,
    clients: usize,
    ttl_millis: u64,
    max_clock_step_back_millis: u64,
    horizon_nanos: u64,
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    if kinds.is_empty() {
        return faults;
    }
    for _ in 0..rng.range(1, 6) {
        let at = rng.below(horizon_nanos);
        let duration_nanos = rng.range(1, ttl_millis * 2) * MS;
        let (client, node) = (rng.index(clients), rng.index(nodes));
        let direction = rng.pick(&[Direction::ToNode, Direction::ToClient, Direction::Both]);
        let mut add = |at, fault| faults.push((at, fault));
        match rng.pick(kinds) {
            FaultKind::Cuts => add(at, Fault::Cut { client, node, direction, duration_nanos }),
            FaultKind::Isolation if rng.percent(50) => {
                (0..nodes).for_each(|node| add(at, Fault::Cut { client, node, direction, duration_nanos }));
            }
            FaultKind::Isolation => {
                (0..clients).for_each(|client| add(at, Fault::Cut { client, node, direction, duration_nanos }));
            }
            FaultKind::Resets => add(at, Fault::Reset { client, node }),
            FaultKind::Crashes => {
                let recovery = rng.pick(&[Recovery::Empty, Recovery::Empty, Recovery::AllData]);
                add(at, Fault::Crash { node, recovery, duration_nanos: duration_nanos / 4 });
            }
            FaultKind::Snapshots => {
                add(at, Fault::Save { node });
                let later = at + rng.below(ttl_millis * MS * 2);
                add(
                    later,
                    // The choice is derived from `duration_nanos`. Drawing it would change all later draws of the seed.
                    match duration_nanos / MS % 3 {
                        0 => Fault::RollBack { node },
                        _ => Fault::Crash { node, recovery: Recovery::Snapshot, duration_nanos: duration_nanos / 4 },
                    },
                );
            }
            FaultKind::Flushes => add(at, Fault::Flush { node }),
            FaultKind::FrozenNodes => add(at, Fault::FreezeNode { node, duration_nanos }),
            FaultKind::FrozenClients => add(at, Fault::FreezeClient { client, duration_nanos }),
            FaultKind::Kills => add(at, Fault::Kill { client }),
            FaultKind::ClientClockJumps => add(at, Fault::ClientClockJump { client, millis: rng.range(1, ttl_millis) }),
            FaultKind::NodeClockSteps => {
                // The clock steps ahead, and later back by the same amount, which max_clock_step_back allows.
                let millis = rng.range(1, max_clock_step_back_millis) as i64;
                let node = node.min(nodes - 1);
                if !faults
                    .iter()
                    .any(|(_, fault)| matches!(fault, Fault::NodeClockStep { node: other, .. } if *other == node))
                {
                    faults.push((at, Fault::NodeClockStep { node, millis }));
                    faults.push((at + duration_nanos, Fault::NodeClockStep { node, millis: -millis }));
                }
            }
            FaultKind::SlowClientClocks => {
                add(at, Fault::ClientClockRate { client, clock_rate_ppm: rng.pick(&[-1_000_000, -800_000, -400_000]) });
                add(at + duration_nanos, Fault::ClientClockRate { client, clock_rate_ppm: 0 });
            }
        }
    }
    faults
}
