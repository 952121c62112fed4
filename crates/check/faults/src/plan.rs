//! What will be done to whom, and when: decided by the seed before anything begins.

mod act;
mod ordinary;

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;

pub use act::{Act, Bound, Kind, On, kinds};

use crate::task::MAX_TTL;

/// How many client processes there are.
pub const CLIENTS: usize = 6;
/// Clients reach the nodes by two networks, which fail separately.
pub const SIDES: usize = 2;
/// How long a node that lost its memory does not vote: the longest ttl, and a tenth.
pub const QUARANTINE: Duration = MAX_TTL.saturating_add(Duration::from_millis(300));

/// Clients first get used to each other.
const CALM: Duration = Duration::from_millis(700);
/// How long clients may take to find a node again.
const COMEBACK: Duration = Duration::from_millis(500);
/// Nodes that lose their memory one after the other do so with this much between them, to be found again meanwhile.
const ROLLING_MS: std::ops::Range<u64> = 250..400;
/// One fault in so many is a storm.
const STORM_ONE_IN: u32 = 14;
/// The first comes soon after this.
const STORM_BY: Duration = Duration::from_secs(2);
/// So many in an episode at most: nobody votes for a while after each.
const STORMS_MAX: usize = 2;
/// A wall clock is moved again only after this: more than a lease's length, so that a lease sees one step at most.
const STEP_APART: Duration = Duration::from_millis(1_500);

/// Wall clocks are this far from the true time, in milliseconds: no two are further apart than half of the max clock skew, so that
/// none counts as skewed.
const OFFSETS_MS: std::ops::RangeInclusive<i64> = -400..=50;

/// To whom something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "numbers from 0")]
pub enum Target {
    Node(usize),
    Link {
        node: usize,
        side: usize,
    },
    Client(usize),
    /// The first so many nodes, all at once.
    Nodes(usize),
    /// The `quorlock run` that holds the lock when the deed begins.
    Holder,
    Sentinel,
}

/// One entry of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Deed {
    /// When it begins.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Duration,
    /// How long it lasts.
    #[serde(rename = "length_ms", serialize_with = "millis")]
    pub length: Duration,
    /// To whom.
    pub target: Target,
    /// What.
    pub act: Act,
    /// How much of it: milliseconds, or requests.
    pub amount: u64,
}

fn millis<S: serde::Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(at.as_millis() as u64)
}

/// How a server keeps what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "as Redis calls them")]
pub enum Memory {
    None,
    AofEverysec,
    AofAlways,
}

impl Memory {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::AofEverysec, Self::AofAlways];
}

/// `aof-everysec`.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Everything about an episode that is decided beforehand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What it was made of.
    pub seed: u64,
    /// Whether the assumptions hold throughout.
    pub bound: Bound,
    /// One for each node.
    pub memories: Vec<Memory>,
    /// In the order of their beginnings.
    pub deeds: Vec<Deed>,
    /// When the last of it may begin.
    #[serde(skip)]
    pub length: Duration,
}

impl Plan {
    /// The plan of a seed. Each has its own number of nodes and its own mix of faults.
    pub fn new(seed: u64, bound: Bound, length: Duration) -> Self {
        let mut dice = Rng::with_seed(seed);
        let nodes = if dice.bool() { 3 } else { 5 };
        let memory = |dice: &mut Rng| match dice.u32(..4) {
            0 => Memory::AofEverysec,
            1 => Memory::AofAlways,
            _ => Memory::None,
        };
        let memories: Vec<Memory> = (0..nodes).map(|_| memory(&mut dice)).collect();
        let mix = mix(&mut dice, bound);
        let mut planner = Planner {
            dice,
            nodes,
            mix,
            storms: 0,
            memories: memories.clone(),
            busy: Vec::new(),
            away: vec![Duration::ZERO; nodes],
            offsets_ms: vec![0; nodes],
            deeds: Vec::new(),
        };
        let mut at = CALM;
        while at < length {
            at += planner.step(at);
        }
        planner.deeds.sort_by_key(|deed| deed.at);
        Self { seed, bound, memories, deeds: planner.deeds, length }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.memories.len()
    }

    /// How each of the servers keeps what it knows that something is done to.
    pub fn memories_of(&self, deed: &Deed) -> Vec<Memory> {
        match deed.target {
            Target::Node(node) => self.memories[node..=node].into(),
            Target::Nodes(count) => self.memories[..count].into(),
            Target::Link { .. } | Target::Client(_) | Target::Holder | Target::Sentinel => Vec::new(),
        }
    }
}

/// Each kind of fault is in with a chance of three in four: what never happens makes room for what does. Of those that
/// break an assumption, one is chosen and comes as often as all others together.
fn mix(dice: &mut Rng, bound: Bound) -> Vec<Kind> {
    let mut usual: Vec<Kind> = kinds(Bound::Within).filter(|_| dice.u32(..4) > 0).collect();
    if bound == Bound::Beyond {
        let breaking: Vec<Kind> = kinds(Bound::Beyond).collect();
        let Some(chosen) = dice.choice(&breaking) else { return usual };
        // The jumps use up what the clocks may be apart.
        usual.retain(|kind| !kind.act.moves_clock());
        let often = usual.len().max(1);
        usual.extend(std::iter::repeat_n(*chosen, often));
    }
    usual
}

struct Planner {
    dice: Rng,
    nodes: usize,
    mix: Vec<Kind>,
    storms: usize,
    memories: Vec<Memory>,
    /// Who is taken until when.
    busy: Vec<(Target, Duration)>,
    /// Until when each node is of no use.
    away: Vec<Duration>,
    /// Where each node's wall clock is.
    offsets_ms: Vec<i64>,
    deeds: Vec<Deed>,
}

impl Planner {
    /// Plans something for this moment, if it can be, and says how long to wait after that.
    fn step(&mut self, at: Duration) -> Duration {
        let pause = Duration::from_millis(self.dice.u64(60..600));
        // Every episode has one, and soon.
        let is_due = self.storms == 0 && at > STORM_BY;
        let may = self.dice.u32(..STORM_ONE_IN) == 0 && self.storms < STORMS_MAX;
        if is_due || may {
            let all_free = (0..self.nodes).all(|node| self.is_free(Target::Node(node), at));
            if all_free {
                return self.storm(at) + pause;
            }
        }
        let Some(kind) = self.dice.choice(&self.mix.clone()).copied() else { return pause };
        if is_due && matches!(kind.on, On::Node | On::Majority | On::OneOrMajority) {
            return pause;
        }
        let Some(target) = self.target(kind, at) else { return pause };
        let length = Duration::from_millis(self.dice.u64(kind.lasts_ms.0..=kind.lasts_ms.1));
        let amount = self.dice.u64(kind.amount.0..=kind.amount.1);
        if self.may_step(target, kind.act, amount as i64) {
            self.plan(Deed { at, length, target, act: kind.act, amount });
        }
        pause
    }

    fn may_step(&mut self, target: Target, act: Act, amount: i64) -> bool {
        let (Target::Node(node), Act::StepBack | Act::Nudge) = (target, act) else { return true };
        let offset = self.offsets_ms[node] + if act == Act::Nudge { amount } else { -amount };
        let may = OFFSETS_MS.contains(&offset);
        if may {
            self.offsets_ms[node] = offset;
        }
        may
    }

    /// All nodes lose their memory, or come back with what their files have, within the length of a lease: one after the
    /// other, or all at once.
    fn storm(&mut self, at: Duration) -> Duration {
        self.storms += 1;
        let act = match self.dice.u32(..6) {
            0 | 1 => return self.rolling_storm(at),
            2 | 3 => Act::Flush,
            4 => Act::Kill,
            _ => Act::Wipe,
        };
        let length = if act == Act::Flush { Duration::ZERO } else { Duration::from_millis(self.dice.u64(1..300)) };
        self.plan(Deed { at, length, target: Target::Nodes(self.nodes), act, amount: 0 });
        length
    }

    fn rolling_storm(&mut self, at: Duration) -> Duration {
        let mut offset = Duration::ZERO;
        for node in 0..self.nodes {
            let length = Duration::from_millis(self.dice.u64(1..80));
            // What comes back from files may be of yesterday, and is not believed either.
            let act = if self.dice.u32(..3) == 0 { Act::Kill } else { Act::Wipe };
            self.plan(Deed { at: at + offset, length, target: Target::Node(node), act, amount: 0 });
            offset += length + Duration::from_millis(self.dice.u64(ROLLING_MS));
        }
        offset
    }

    fn plan(&mut self, deed: Deed) {
        let end = deed.at + deed.length;
        let nodes = match deed.target {
            Target::Node(node) => node..node + 1,
            Target::Nodes(count) => 0..count,
            Target::Link { .. } | Target::Client(_) | Target::Holder | Target::Sentinel => 0..0,
        };
        let rest = if deed.act.moves_clock() { STEP_APART } else { COMEBACK };
        for node in nodes {
            self.busy.push((Target::Node(node), end + rest));
            self.away[node] = end + if deed.act.costs_memory() { QUARANTINE + COMEBACK } else { COMEBACK };
        }
        self.busy.push((deed.target, end + rest));
        self.deeds.push(deed);
    }

    fn target(&mut self, kind: Kind, at: Duration) -> Option<Target> {
        let node = self.dice.usize(..self.nodes);
        let target = match kind.on {
            On::Node => Target::Node(node),
            On::Link => Target::Link { node, side: self.dice.usize(..SIDES) },
            On::Client => Target::Client(self.dice.usize(..CLIENTS)),
            On::OneOrMajority if self.dice.bool() => Target::Node(node),
            On::Majority | On::OneOrMajority => {
                Target::Nodes(self.dice.usize(quorlock_core::quorum::Quorum::majority_of(self.nodes)..=self.nodes))
            }
        };
        let free = match target {
            Target::Nodes(count) => (0..count).all(|node| self.is_free(Target::Node(node), at)),
            Target::Node(_) if kind.act.stops_node() && !self.can_spare(at) => false,
            // Whoever keeps nothing has no disk.
            Target::Node(node) if kind.act == Act::SlowDisk && self.memories[node] == Memory::None => false,
            _ => self.is_free(target, at),
        };
        free.then_some(target)
    }

    fn is_free(&self, target: Target, at: Duration) -> bool {
        self.busy.iter().all(|(other, until)| *other != target || *until <= at)
    }

    /// Outside of storms, a majority can vote most of the time: locks that are never granted show nothing.
    fn can_spare(&self, at: Duration) -> bool {
        let away = self.away.iter().filter(|until| **until > at).count();
        away < (self.nodes - 1) / 2
    }
}

#[cfg(test)]
mod tests;
