//! Plans of ordinary operations on nodes, on the processes of `quorlock run`, and on sentinels.

use std::time::Duration;

use fastrand::Rng;

use super::{Fault, FaultKind, Persistence, Plan, Target};
use crate::series::Series;

const NODES: usize = 3;
const MAJORITY: usize = quorlock_core::quorum::Quorum::majority_of(NODES);

/// The lower and the upper bound of a time, in milliseconds.
type Range = (u64, u64);

/// The faults that send signals to the processes of the `quorlock run` that holds the lock. The first range is the time
/// for which a process stays stopped. The second range is the time between the two signals of a fault that has two.
const SIGNALS: [(FaultKind, Range, Range); 5] = [
    (FaultKind::StopWrapper, (6_000, 7_500), (0, 0)),
    (FaultKind::KillWrapper, (0, 0), (0, 0)),
    (FaultKind::StopGuard, (500, 7_500), (0, 0)),
    (FaultKind::KillGuard, (0, 0), (0, 0)),
    (FaultKind::KillGuardThenWrapper, (0, 0), (1_000, 2_000)),
];

impl Plan {
    /// The plan of an episode of this series.
    pub fn of(series: Series, seed: u64, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let faults = match series {
            Series::Within | Series::Beyond => return Self::new(seed, series.assumptions(), length),
            Series::Operations => operations(&mut rng, length),
            Series::Processes => processes(&mut rng),
            Series::Stopped => {
                vec![fault(&mut rng, 1_000, Target::Holder, FaultKind::StopBoth, (6_500, 8_000), (0, 0))]
            }
            Series::Restarts => {
                vec![fault(&mut rng, 2_500, Target::Nodes(MAJORITY), FaultKind::Kill, (1, 300), (0, 0))]
            }
            Series::Sentinel => sentinel(&mut rng),
        };
        // In the series with restarts, all nodes have files. If a majority restarted without files, an operator would have
        // to initialize the cluster again.
        let choices = &Persistence::ALL[usize::from(series == Series::Restarts)..];
        let persistence = (0..NODES).map(|_| choices[rng.usize(..choices.len())]).collect();
        Self { seed, assumptions: series.assumptions(), persistence, faults, length }
    }
}

fn fault(rng: &mut Rng, at_ms: u64, target: Target, kind: FaultKind, length_ms: Range, amount: Range) -> Fault {
    let at = Duration::from_millis(at_ms);
    let length = Duration::from_millis(rng.u64(length_ms.0..=length_ms.1));
    Fault { at, length, target, kind, amount: rng.u64(amount.0..=amount.1) }
}

/// Plans a backup of a majority, then backups and replicas of one node or of a majority.
fn operations(rng: &mut Rng, length: Duration) -> Vec<Fault> {
    let mut faults = vec![fault(rng, 1_500, Target::Nodes(MAJORITY), FaultKind::Backup, (0, 0), (0, 0))];
    let mut at = 3_000;
    while Duration::from_millis(at) < length {
        let target =
            if rng.bool() { Target::Node(rng.usize(..NODES)) } else { Target::Nodes(rng.usize(MAJORITY..=NODES)) };
        let next = if rng.bool() {
            fault(rng, at, target, FaultKind::Backup, (0, 0), (0, 0))
        } else {
            fault(rng, at, target, FaultKind::Replica, (300, 2_000), (0, 0))
        };
        faults.push(next);
        at += next.length.as_millis() as u64 + rng.u64(300..1_800);
    }
    faults
}

/// Plans each fault of `SIGNALS` once, in random order.
fn processes(rng: &mut Rng) -> Vec<Fault> {
    let mut order = SIGNALS;
    rng.shuffle(&mut order);
    let mut at = 1_000;
    let mut plan_next = |(kind, length_ms, amount)| {
        let next = fault(rng, at, Target::Holder, kind, length_ms, amount);
        at += next.length.as_millis() as u64 + next.amount + rng.u64(500..1_500);
        next
    };
    order.map(&mut plan_next).into()
}

/// Plans a restart or a long silence of the sentinel, and then a failover.
fn sentinel(rng: &mut Rng) -> Vec<Fault> {
    let first = if rng.bool() {
        fault(rng, 1_500, Target::Sentinel, FaultKind::RestartSentinel, (0, 0), (0, 0))
    } else {
        fault(rng, 1_500, Target::Sentinel, FaultKind::SilenceSentinel, (14_000, 14_000), (0, 0))
    };
    let at = rng.u64(2_500..4_500);
    vec![first, fault(rng, at, Target::Sentinel, FaultKind::FailOver, (0, 0), (0, 0))]
}
