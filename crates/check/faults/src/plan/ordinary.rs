//! Plans of ordinary operations on nodes, on the processes of `quorlock run`, and on sentinels.

use std::time::Duration;

use fastrand::Rng;

use super::{Act, Deed, Memory, Plan, Target};
use crate::series::Series;

/// The number of nodes.
const NODES: usize = 3;
const MAJORITY: usize = quorlock_core::quorum::Quorum::majority_of(NODES);

/// The least and the most of something, in milliseconds.
type Range = (u64, u64);

/// The signals to the holder of a lock, how long it stays stopped, and the pause between two signals.
const TO_HOLDER: [(Act, Range, Range); 5] = [
    (Act::StopWrapper, (6_000, 7_500), (0, 0)),
    (Act::KillWrapper, (0, 0), (0, 0)),
    (Act::StopGuard, (500, 7_500), (0, 0)),
    (Act::KillGuard, (0, 0), (0, 0)),
    (Act::KillGuardThenWrapper, (0, 0), (1_000, 2_000)),
];

impl Plan {
    /// The plan of a series of ordinary operations. [`Plan::new`] makes those of [`Series::Within`] and
    /// [`Series::Beyond`], whose faults are many.
    pub fn of(series: Series, seed: u64, length: Duration) -> Self {
        let mut dice = Rng::with_seed(seed);
        let deeds = match series {
            Series::Within | Series::Beyond => return Self::new(seed, series.bound(), length),
            Series::Operations => operations(&mut dice, length),
            Series::Processes => processes(&mut dice),
            Series::Stopped => vec![deed(&mut dice, 1_000, Target::Holder, Act::StopBoth, (6_500, 8_000), (0, 0))],
            Series::Restarts => {
                vec![deed(&mut dice, 2_500, Target::Nodes(MAJORITY), Act::Kill, (1, 300), (0, 0))]
            }
            Series::Sentinel => sentinel(&mut dice),
        };
        // A majority that restarts without files has forgotten the cluster, and an operator has to declare it again.
        let kept = &Memory::ALL[usize::from(series == Series::Restarts)..];
        let memories = (0..NODES).map(|_| kept[dice.usize(..kept.len())]).collect();
        Self { seed, bound: series.bound(), memories, deeds, length }
    }
}

fn deed(dice: &mut Rng, at_ms: u64, target: Target, act: Act, lasts_ms: Range, amount: Range) -> Deed {
    let at = Duration::from_millis(at_ms);
    let length = Duration::from_millis(dice.u64(lasts_ms.0..=lasts_ms.1));
    Deed { at, length, target, act, amount: dice.u64(amount.0..=amount.1) }
}

/// A backup of a majority first, then backups and replicas of one node or of a majority.
fn operations(dice: &mut Rng, length: Duration) -> Vec<Deed> {
    let mut deeds = vec![deed(dice, 1_500, Target::Nodes(MAJORITY), Act::Backup, (0, 0), (0, 0))];
    let mut at = 3_000;
    while Duration::from_millis(at) < length {
        let target =
            if dice.bool() { Target::Node(dice.usize(..NODES)) } else { Target::Nodes(dice.usize(MAJORITY..=NODES)) };
        let next = if dice.bool() {
            deed(dice, at, target, Act::Backup, (0, 0), (0, 0))
        } else {
            deed(dice, at, target, Act::Replica, (300, 2_000), (0, 0))
        };
        deeds.push(next);
        at += next.length.as_millis() as u64 + dice.u64(300..1_800);
    }
    deeds
}

/// Everything once, one after the other, in a random order.
fn processes(dice: &mut Rng) -> Vec<Deed> {
    let mut order = TO_HOLDER;
    dice.shuffle(&mut order);
    let mut at = 1_000;
    let mut plan = |(act, lasts_ms, amount)| {
        let next = deed(dice, at, Target::Holder, act, lasts_ms, amount);
        at += next.length.as_millis() as u64 + next.amount + dice.u64(500..1_500);
        next
    };
    order.map(&mut plan).into()
}

/// The sentinel restarts, or falls silent for the rest of the episode; then its master is replaced.
fn sentinel(dice: &mut Rng) -> Vec<Deed> {
    let first = if dice.bool() {
        deed(dice, 1_500, Target::Sentinel, Act::RestartSentinel, (0, 0), (0, 0))
    } else {
        deed(dice, 1_500, Target::Sentinel, Act::SilenceSentinel, (14_000, 14_000), (0, 0))
    };
    let at = dice.u64(2_500..4_500);
    vec![first, deed(dice, at, Target::Sentinel, Act::FailOver, (0, 0), (0, 0))]
}
