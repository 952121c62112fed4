//! The faults of a run.

use crate::world::client_name;
use quorlock_core::rng::Seeded;

const MS: u64 = 1_000_000;
/// Gives pauses a random generator of their own, which is derived from the seed.
const PAUSE_SALT: u64 = 0x7061_7573_6573;

/// The direction in which messages are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the node.
    Up,
    /// From the node.
    Down,
    /// In both directions.
    Both,
}

/// The memory of a node after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The node has lost everything.
    Empty,
    /// The node has its last snapshot.
    Snapshot,
    /// The node has everything.
    Whole,
}

/// A fault. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Fault {
    /// Messages between a client and a node are held back.
    Cut { client: usize, node: usize, direction: Direction, lasts: u64 },
    /// The connection between a client and a node breaks.
    Reset { client: usize, node: usize },
    /// A node is killed, and restarts after a while.
    Crash {
        node: usize,
        recovery: Recovery,
        /// How long the node is down.
        lasts: u64,
    },
    /// A node takes a snapshot.
    Save { node: usize },
    /// A node loads its snapshot and keeps its connections, like a server that becomes a replica of an old copy.
    RollBack { node: usize },
    /// A node is emptied, and keeps its connections.
    Flush { node: usize },
    /// A node stops for a while.
    FreezeNode { node: usize, lasts: u64 },
    /// A client stops for a while; its clock keeps running.
    FreezeClient { client: usize, lasts: u64 },
    /// A client's machine is paused. Its clocks stand still, except for the wall clock, as during a snapshot of a
    /// virtual machine.
    PauseClient { client: usize, lasts: u64 },
    /// A client is killed.
    Kill { client: usize },
    /// A client's boot-time clock jumps forward, as after a suspension.
    ClientClockJump { client: usize, millis: u64 },
    /// The rate of a node's clock changes: it is now fast by `ppm` parts per million.
    NodeClockRate { node: usize, ppm: i64 },
    /// Beyond the assumptions: a node's clock is stepped by `millis`.
    NodeClockStep { node: usize, millis: i64 },
    /// Beyond the assumptions: a client's clock becomes much too slow or stops, or is corrected (`ppm` is 0).
    ClientClockRate { client: usize, ppm: i64 },
}

impl Fault {
    /// The row of the page's table that counts this fault.
    pub fn page_label(&self) -> &'static str {
        match self {
            Self::Cut { direction: Direction::Both, .. } => "links cut in both directions",
            Self::Cut { .. } => "links cut in one direction",
            Self::Reset { .. } => "connections broken",
            Self::Crash { recovery: Recovery::Empty, .. } => "nodes that crash and restart empty",
            Self::Crash { recovery: Recovery::Snapshot, .. } => "nodes that crash and restart with an old snapshot",
            Self::Crash { recovery: Recovery::Whole, .. } => "nodes that crash and restart with all data",
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
            Self::ClientClockRate { ppm: 0, .. } => "clients whose clock is corrected",
            Self::ClientClockRate { .. } => "clients whose clock is much too slow or stopped",
        }
    }

    /// The name of the affected client or node, and a description. `None` if other lines of the trace describe the
    /// fault.
    pub(crate) fn describe(&self) -> Option<(String, String)> {
        let node_name = |node: &usize| format!("n{}", node + 1);
        let ms = |nanos: &u64| format!("{:.0} ms", *nanos as f64 / 1e6);
        Some(match self {
            Self::Cut { client, node, direction, lasts } => {
                let state = match direction {
                    Direction::Up => "cannot send to",
                    Direction::Down => "receives nothing from",
                    Direction::Both => "is cut off from",
                };
                (client_name(*client), format!("{state} {} for {}", node_name(node), ms(lasts)))
            }
            Self::Reset { client, node } => {
                (client_name(*client), format!("loses its connection to {}", node_name(node)))
            }
            Self::Crash { node, recovery, lasts } => {
                let with = match recovery {
                    Recovery::Empty => "empty",
                    Recovery::Snapshot => "with its snapshot",
                    Recovery::Whole => "with all its memory",
                };
                (node_name(node), format!("crashes, and restarts {with} after {}", ms(lasts)))
            }
            Self::Save { node } => (node_name(node), "takes a snapshot".into()),
            Self::RollBack { node } => (node_name(node), "is rolled back to its snapshot; its connections stay".into()),
            Self::Flush { node } => (node_name(node), "is emptied; its connections stay".into()),
            Self::FreezeNode { node, lasts } => (node_name(node), format!("stops for {}", ms(lasts))),
            Self::FreezeClient { client, lasts } => (client_name(*client), format!("stops for {}", ms(lasts))),
            Self::PauseClient { client, lasts } => {
                (client_name(*client), format!("is paused together with its machine for {}", ms(lasts)))
            }
            Self::ClientClockJump { client, millis } => {
                (client_name(*client), format!("has a clock that jumps ahead by {millis} ms"))
            }
            Self::NodeClockStep { node, millis } => (node_name(node), format!("has its clock stepped by {millis} ms")),
            Self::ClientClockRate { client, ppm } => {
                (client_name(*client), format!("has a clock that runs at {} %", (1_000_000 + ppm) / 10_000))
            }
            Self::Kill { .. } | Self::NodeClockRate { .. } => return None,
        })
    }
}

/// A kind of fault that a plan can draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    Cuts,
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

/// Chooses the kinds of faults of a run. Also returns whether one of them breaks an assumption.
pub(super) fn draw_kinds(rng: &mut Seeded, nodes: usize) -> (bool, Vec<FaultKind>) {
    let within = [
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
    let mut kinds: Vec<FaultKind> = within.into_iter().filter(|_| rng.percent(percent)).collect();
    if rng.percent(25) {
        kinds.push(FaultKind::SlowClientClocks);
        if nodes > 1 {
            kinds.push(FaultKind::NodeClockSteps);
        }
    }
    let costs_memory =
        |kind: &FaultKind| matches!(kind, FaultKind::Crashes | FaultKind::Snapshots | FaultKind::Flushes);
    let breaks_clocks = |kind: &FaultKind| matches!(kind, FaultKind::SlowClientClocks | FaultKind::NodeClockSteps);
    // A single node is trusted even after a memory loss.
    let is_beyond = kinds.iter().any(|kind| breaks_clocks(kind) || nodes == 1 && costs_memory(kind));
    (is_beyond, kinds)
}

/// Draws pauses of client machines, in some runs. Pauses have their own random generator, so that adding them does not
/// change the rest of a plan.
pub(super) fn draw_pauses(seed: u64, clients: usize, ttl: u64, horizon: u64) -> Vec<(u64, Fault)> {
    let rng = &mut Seeded::new(seed ^ PAUSE_SALT);
    let count = if rng.percent(12) { rng.range(1, 3) } else { 0 };
    let pause = |_| {
        let (at, client) = (rng.below(horizon), rng.index(clients));
        (at, Fault::PauseClient { client, lasts: rng.range(1, ttl * 3) * MS })
    };
    (0..count).map(pause).collect()
}

/// Draws faults of these kinds, and their times in nanoseconds.
pub(super) fn draw(
    rng: &mut Seeded,
    kinds: &[FaultKind],
    nodes: usize,
    clients: usize,
    ttl: u64,
    max_clock_step_back: u64,
    horizon: u64,
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    if kinds.is_empty() {
        return faults;
    }
    for _ in 0..rng.range(1, 6) {
        let at = rng.below(horizon);
        let lasts = rng.range(1, ttl * 2) * MS;
        let (client, node) = (rng.index(clients), rng.index(nodes));
        let direction = rng.pick(&[Direction::Up, Direction::Down, Direction::Both]);
        let mut add = |at, fault| faults.push((at, fault));
        match rng.pick(kinds) {
            FaultKind::Cuts => add(at, Fault::Cut { client, node, direction, lasts }),
            FaultKind::Isolation if rng.percent(50) => {
                (0..nodes).for_each(|node| add(at, Fault::Cut { client, node, direction, lasts }));
            }
            FaultKind::Isolation => {
                (0..clients).for_each(|client| add(at, Fault::Cut { client, node, direction, lasts }));
            }
            FaultKind::Resets => add(at, Fault::Reset { client, node }),
            FaultKind::Crashes => {
                let recovery = rng.pick(&[Recovery::Empty, Recovery::Empty, Recovery::Whole]);
                add(at, Fault::Crash { node, recovery, lasts: lasts / 4 });
            }
            FaultKind::Snapshots => {
                add(at, Fault::Save { node });
                let later = at + rng.below(ttl * MS * 2);
                add(
                    later,
                    // Derived from `lasts` instead of drawn, so that the other draws of a seed stay the same.
                    match lasts / MS % 3 {
                        0 => Fault::RollBack { node },
                        _ => Fault::Crash { node, recovery: Recovery::Snapshot, lasts: lasts / 4 },
                    },
                );
            }
            FaultKind::Flushes => add(at, Fault::Flush { node }),
            FaultKind::FrozenNodes => add(at, Fault::FreezeNode { node, lasts }),
            FaultKind::FrozenClients => add(at, Fault::FreezeClient { client, lasts }),
            FaultKind::Kills => add(at, Fault::Kill { client }),
            FaultKind::ClientClockJumps => add(at, Fault::ClientClockJump { client, millis: rng.range(1, ttl) }),
            FaultKind::NodeClockSteps => {
                // The clock steps ahead, and later back by the same amount: never further back than allowed.
                let millis = rng.range(1, max_clock_step_back) as i64;
                let node = node.min(nodes - 1);
                if !faults
                    .iter()
                    .any(|(_, fault)| matches!(fault, Fault::NodeClockStep { node: other, .. } if *other == node))
                {
                    faults.push((at, Fault::NodeClockStep { node, millis }));
                    faults.push((at + lasts, Fault::NodeClockStep { node, millis: -millis }));
                }
            }
            FaultKind::SlowClientClocks => {
                add(at, Fault::ClientClockRate { client, ppm: rng.pick(&[-1_000_000, -800_000, -400_000]) });
                add(at + lasts, Fault::ClientClockRate { client, ppm: 0 });
            }
        }
    }
    faults
}
