//! The faults of a run.

use crate::world::client_name;
use quorlock_core::rng::Seeded;

const MS: u64 = 1_000_000;
/// Separates the generator of pauses from the others of a seed.
const PAUSES: u64 = 0x7061_7573_6573;

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
    /// Nothing.
    Empty,
    /// The last snapshot.
    Snapshot,
    /// Everything.
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
        /// How long it is down.
        lasts: u64,
    },
    /// A node takes a snapshot.
    Save { node: usize },
    /// A node loads its snapshot, as a replica of a copy does, and keeps its connections.
    RollBack { node: usize },
    /// A node is emptied, and keeps its connections.
    Flush { node: usize },
    /// A node stops for a while.
    FreezeNode { node: usize, lasts: u64 },
    /// A client stops for a while; its clock keeps running.
    FreezeClient { client: usize, lasts: u64 },
    /// A client's machine is paused together with its clocks, but the wall clock keeps running, as after a snapshot of
    /// a virtual machine.
    PauseClient { client: usize, lasts: u64 },
    /// A client is killed.
    Kill { client: usize },
    /// A client's boot-time clock jumps forward, as after a suspension.
    ClientLeaps { client: usize, millis: u64 },
    /// A node's clock changes its rate: fast by `ppm` parts per million.
    NodePace { node: usize, ppm: i64 },
    /// Beyond the assumptions: a node's clock is set.
    NodeClock { node: usize, millis: i64 },
    /// Beyond the assumptions: a client's clock is much too slow, or stands still.
    ClientClock { client: usize, ppm: i64 },
}

impl Fault {
    /// The kind of fault, as text for the page.
    pub fn kind(&self) -> &'static str {
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
            Self::ClientLeaps { .. } => "clients whose clock jumps ahead",
            Self::NodePace { .. } => "nodes whose clock changes its rate",
            Self::NodeClock { .. } => "nodes whose clock is set",
            Self::ClientClock { ppm: 0, .. } => "clients whose clock is corrected",
            Self::ClientClock { .. } => "clients whose clock is much too slow or stopped",
        }
    }

    /// The subject and the description of a fault; `None` if other lines of the story describe it.
    pub(crate) fn told(&self) -> Option<(String, String)> {
        let node = |node: &usize| format!("n{}", node + 1);
        let ms = |nanos: &u64| format!("{:.0} ms", *nanos as f64 / 1e6);
        Some(match self {
            Self::Cut { client, node: of, direction, lasts } => {
                let way = match direction {
                    Direction::Up => "cannot send to",
                    Direction::Down => "hears nothing from",
                    Direction::Both => "is cut off from",
                };
                (client_name(*client), format!("{way} {} for {}", node(of), ms(lasts)))
            }
            Self::Reset { client, node: of } => (client_name(*client), format!("loses its connection to {}", node(of))),
            Self::Crash { node: of, recovery, lasts } => {
                let with = match recovery {
                    Recovery::Empty => "empty",
                    Recovery::Snapshot => "with its snapshot",
                    Recovery::Whole => "with all its memory",
                };
                (node(of), format!("crashes, and is back {with} after {}", ms(lasts)))
            }
            Self::Save { node: of } => (node(of), "takes a snapshot".into()),
            Self::RollBack { node: of } => (node(of), "is rolled back to its snapshot; its connections stay".into()),
            Self::Flush { node: of } => (node(of), "is emptied; its connections stay".into()),
            Self::FreezeNode { node: of, lasts } => (node(of), format!("stops for {}", ms(lasts))),
            Self::FreezeClient { client, lasts } => (client_name(*client), format!("stops for {}", ms(lasts))),
            Self::PauseClient { client, lasts } => {
                (client_name(*client), format!("is paused with its machine for {}", ms(lasts)))
            }
            Self::ClientLeaps { client, millis } => (client_name(*client), format!("finds its clock {millis} ms on")),
            Self::NodeClock { node: of, millis } => (node(of), format!("has its clock set by {millis} ms")),
            Self::ClientClock { client, ppm } => {
                (client_name(*client), format!("has a clock that runs at {} %", (1_000_000 + ppm) / 10_000))
            }
            Self::Kill { .. } | Self::NodePace { .. } => return None,
        })
    }
}

/// A kind of fault that a run may have.
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
    Leaps,
    NodeClocks,
    ClientClocks,
}

/// Chooses the kinds of faults of a run. Returns also whether one of them breaks an assumption.
pub(super) fn menu(rng: &mut Seeded, nodes: usize) -> (bool, Vec<FaultKind>) {
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
        FaultKind::Leaps,
    ];
    let share = rng.pick(&[10, 25, 45]);
    let mut menu: Vec<FaultKind> = within.into_iter().filter(|_| rng.percent(share)).collect();
    if rng.percent(25) {
        menu.push(FaultKind::ClientClocks);
        if nodes > 1 {
            menu.push(FaultKind::NodeClocks);
        }
    }
    let forgets = |dish: &FaultKind| matches!(dish, FaultKind::Crashes | FaultKind::Snapshots | FaultKind::Flushes);
    let clocks = |dish: &FaultKind| matches!(dish, FaultKind::ClientClocks | FaultKind::NodeClocks);
    // A single node is trusted even after a memory loss.
    let is_beyond = menu.iter().any(|dish| clocks(dish) || nodes == 1 && forgets(dish));
    (is_beyond, menu)
}

/// Pauses of machines, in some runs. They have their own generator, so that the rest of a plan does not depend on them.
pub(super) fn draw_pauses(seed: u64, clients: usize, ttl: u64, horizon: u64) -> Vec<(u64, Fault)> {
    let rng = &mut Seeded::new(seed ^ PAUSES);
    let count = if rng.percent(12) { rng.range(1, 3) } else { 0 };
    let pause = |_| {
        let (at, client) = (rng.below(horizon), rng.index(clients));
        (at, Fault::PauseClient { client, lasts: rng.range(1, ttl * 3) * MS })
    };
    (0..count).map(pause).collect()
}

/// Draws the faults and their times.
pub(super) fn draw(
    rng: &mut Seeded,
    menu: &[FaultKind],
    nodes: usize,
    clients: usize,
    ttl: u64,
    max_clock_step_back: u64,
    horizon: u64,
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    if menu.is_empty() {
        return faults;
    }
    for _ in 0..rng.range(1, 6) {
        let at = rng.below(horizon);
        let lasts = rng.range(1, ttl * 2) * MS;
        let (client, node) = (rng.index(clients), rng.index(nodes));
        let direction = rng.pick(&[Direction::Up, Direction::Down, Direction::Both]);
        let mut add = |at, fault| faults.push((at, fault));
        match rng.pick(menu) {
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
                    // Uses a number that is drawn in any case.
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
            FaultKind::Leaps => add(at, Fault::ClientLeaps { client, millis: rng.range(1, ttl) }),
            FaultKind::NodeClocks => {
                // Forward and back again, so that no clock steps back further than allowed.
                let millis = rng.range(1, max_clock_step_back) as i64;
                let node = node.min(nodes - 1);
                if !faults.iter().any(|(_, fault)| matches!(fault, Fault::NodeClock { node: of, .. } if *of == node)) {
                    faults.push((at, Fault::NodeClock { node, millis }));
                    faults.push((at + lasts, Fault::NodeClock { node, millis: -millis }));
                }
            }
            FaultKind::ClientClocks => {
                add(at, Fault::ClientClock { client, ppm: rng.pick(&[-1_000_000, -800_000, -400_000]) });
                add(at + lasts, Fault::ClientClock { client, ppm: 0 });
            }
        }
    }
    faults
}
