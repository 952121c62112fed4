//! What goes wrong.

use crate::world::client_name;
use quorlock_core::rng::Seeded;

const MS: u64 = 1_000_000;
/// Tells the generator of pauses from the others of a seed.
const PAUSES: u64 = 0x7061_7573_6573;

/// Which messages are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those to the node.
    Up,
    /// Those from it.
    Down,
    /// Both.
    Both,
}

/// What a node remembers after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing.
    Empty,
    /// What was saved last.
    Snapshot,
    /// Everything.
    Whole,
}

/// Something that goes wrong. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Messages between these two are held up for so long.
    Cut {
        /// Which client.
        client: usize,
        /// Which node.
        node: usize,
        /// Which way.
        direction: Direction,
        /// For how long.
        lasts: u64,
    },
    /// Their connection is broken.
    Reset {
        /// Which client.
        client: usize,
        /// Which node.
        node: usize,
    },
    /// A node is killed, and is back after a while.
    Crash {
        /// Which node.
        node: usize,
        /// With which memory.
        recovery: Recovery,
        /// For how long it is gone.
        lasts: u64,
    },
    /// A node saves its memory.
    Save {
        /// Which node.
        node: usize,
    },
    /// A node takes over its snapshot from a copy of it, and keeps its connections.
    RollBack {
        /// Which node.
        node: usize,
    },
    /// A node is emptied, and keeps its connections.
    Flush {
        /// Which node.
        node: usize,
    },
    /// A node stops for a while.
    FreezeNode {
        /// Which node.
        node: usize,
        /// For how long.
        lasts: u64,
    },
    /// A client stops for a while; its clock goes on.
    FreezeClient {
        /// Which client.
        client: usize,
        /// For how long.
        lasts: u64,
    },
    /// A client's machine is paused, and its clocks with it, but the wall clock goes on: as after a snapshot.
    PauseClient {
        /// Which client.
        client: usize,
        /// For how long.
        lasts: u64,
    },
    /// A client is killed.
    Kill {
        /// Which client.
        client: usize,
    },
    /// A client's suspend-proof clock leaps forward, as after a suspension.
    ClientLeaps {
        /// Which client.
        client: usize,
        /// By how much.
        millis: u64,
    },
    /// A node's clock is fast by so many parts per million from now on.
    NodePace {
        /// Which node.
        node: usize,
        /// By how much.
        ppm: i64,
    },
    /// Beyond what is assumed: a node's clock is set.
    NodeClock {
        /// Which node.
        node: usize,
        /// By how much.
        millis: i64,
    },
    /// Beyond what is assumed: a client's clock is much too slow, or stands still.
    ClientClock {
        /// Which client.
        client: usize,
        /// By how much it is fast, in parts per million.
        ppm: i64,
    },
}

impl Fault {
    /// What happens, whoever it happens to.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cut { direction: Direction::Both, .. } => "ways that are cut in both directions",
            Self::Cut { .. } => "ways that are cut in one direction",
            Self::Reset { .. } => "connections that are broken",
            Self::Crash { recovery: Recovery::Empty, .. } => "nodes that crash and come back empty",
            Self::Crash { recovery: Recovery::Snapshot, .. } => "nodes that crash and come back with an old snapshot",
            Self::Crash { recovery: Recovery::Whole, .. } => "nodes that crash and come back with everything",
            Self::Save { .. } => "snapshots",
            Self::RollBack { .. } => "nodes that are rolled back to an old snapshot under their connections",
            Self::Flush { .. } => "nodes that are emptied",
            Self::FreezeNode { .. } => "nodes that stop for a while",
            Self::FreezeClient { .. } => "clients that stop for a while",
            Self::PauseClient { .. } => "clients whose machine is paused",
            Self::Kill { .. } => "clients that are killed",
            Self::ClientLeaps { .. } => "clients that find their clock ahead",
            Self::NodePace { .. } => "nodes whose clock changes its pace",
            Self::NodeClock { .. } => "nodes whose clock is set",
            Self::ClientClock { ppm: 0, .. } => "clients whose clock is right again",
            Self::ClientClock { .. } => "clients whose clock is much too slow or stands still",
        }
    }

    /// Who it happens to, and what; `None` where that is told by others.
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
pub(super) enum Dish {
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

/// Which kinds of fault this run has, and whether any is beyond what is assumed.
pub(super) fn menu(rng: &mut Seeded, nodes: usize) -> (bool, Vec<Dish>) {
    let within = [
        Dish::Cuts,
        Dish::Isolation,
        Dish::Resets,
        Dish::Crashes,
        Dish::Snapshots,
        Dish::Flushes,
        Dish::FrozenNodes,
        Dish::FrozenClients,
        Dish::Kills,
        Dish::Leaps,
    ];
    let share = rng.pick(&[10, 25, 45]);
    let mut menu: Vec<Dish> = within.into_iter().filter(|_| rng.percent(share)).collect();
    if rng.percent(25) {
        menu.push(Dish::ClientClocks);
        if nodes > 1 {
            menu.push(Dish::NodeClocks);
        }
    }
    let forgets = |dish: &Dish| matches!(dish, Dish::Crashes | Dish::Snapshots | Dish::Flushes);
    let clocks = |dish: &Dish| matches!(dish, Dish::ClientClocks | Dish::NodeClocks);
    // A single node is trusted, whatever it has forgotten.
    let is_beyond = menu.iter().any(|dish| clocks(dish) || nodes == 1 && forgets(dish));
    (is_beyond, menu)
}

/// Pauses of machines, in some runs. They have a generator of their own: the rest of a plan is as it was without them.
pub(super) fn draw_pauses(seed: u64, clients: usize, ttl: u64, horizon: u64) -> Vec<(u64, Fault)> {
    let rng = &mut Seeded::new(seed ^ PAUSES);
    let count = if rng.percent(12) { rng.range(1, 3) } else { 0 };
    let pause = |_| {
        let (at, client) = (rng.below(horizon), rng.index(clients));
        (at, Fault::PauseClient { client, lasts: rng.range(1, ttl * 3) * MS })
    };
    (0..count).map(pause).collect()
}

/// What goes wrong, and when.
pub(super) fn draw(
    rng: &mut Seeded,
    menu: &[Dish],
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
            Dish::Cuts => add(at, Fault::Cut { client, node, direction, lasts }),
            Dish::Isolation if rng.percent(50) => {
                (0..nodes).for_each(|node| add(at, Fault::Cut { client, node, direction, lasts }));
            }
            Dish::Isolation => {
                (0..clients).for_each(|client| add(at, Fault::Cut { client, node, direction, lasts }));
            }
            Dish::Resets => add(at, Fault::Reset { client, node }),
            Dish::Crashes => {
                let recovery = rng.pick(&[Recovery::Empty, Recovery::Empty, Recovery::Whole]);
                add(at, Fault::Crash { node, recovery, lasts: lasts / 4 });
            }
            Dish::Snapshots => {
                add(at, Fault::Save { node });
                let later = at + rng.below(ttl * MS * 2);
                add(
                    later,
                    // By a number that is drawn anyway.
                    match lasts / MS % 3 {
                        0 => Fault::RollBack { node },
                        _ => Fault::Crash { node, recovery: Recovery::Snapshot, lasts: lasts / 4 },
                    },
                );
            }
            Dish::Flushes => add(at, Fault::Flush { node }),
            Dish::FrozenNodes => add(at, Fault::FreezeNode { node, lasts }),
            Dish::FrozenClients => add(at, Fault::FreezeClient { client, lasts }),
            Dish::Kills => add(at, Fault::Kill { client }),
            Dish::Leaps => add(at, Fault::ClientLeaps { client, millis: rng.range(1, ttl) }),
            Dish::NodeClocks => {
                // Forward and back again: nobody's clock steps back further than is tolerated.
                let millis = rng.range(1, max_clock_step_back) as i64;
                let node = node.min(nodes - 1);
                if !faults.iter().any(|(_, fault)| matches!(fault, Fault::NodeClock { node: of, .. } if *of == node)) {
                    faults.push((at, Fault::NodeClock { node, millis }));
                    faults.push((at + lasts, Fault::NodeClock { node, millis: -millis }));
                }
            }
            Dish::ClientClocks => {
                add(at, Fault::ClientClock { client, ppm: rng.pick(&[-1_000_000, -800_000, -400_000]) });
                add(at + lasts, Fault::ClientClock { client, ppm: 0 });
            }
        }
    }
    faults
}
