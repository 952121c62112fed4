//! Plans of ordinary operations on nodes, on the processes of `quorlock run`, and on sentinels.

use std::time::Duration;

use fastrand::Rng;

use super::{Act, Fault, Persistence, Plan, Target};
use crate::series::Series;

const NODES: usize = 3;
const MAJORITY: usize = quorlock_core::terms::Quorum::majority_of(NODES);

/// The lower and the upper bound of a time, in milliseconds.
type Range = (u64, u64);

/// The signals to the holder's processes. Each has the time for which a process stays stopped, and the time until the
/// second signal, if there is one.
const SIGNALS: [(Act, Range, Range); 5] = [
    (Act::StopWrapper, (6_000, 7_500), (0, 0)),
    (Act::KillWrapper, (0, 0), (0, 0)),
    (Act::StopGuard, (500, 7_500), (0, 0)),
    (Act::KillGuard, (0, 0), (0, 0)),
    (Act::KillGuardThenWrapper, (0, 0), (1_000, 2_000)),
];

impl Plan {
    /// The plan of a series of ordinary operations. For [`Series::Within`] and [`Series::Beyond`] use [`Plan::new`].
    pub fn of(series: Series, seed: u64, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let faults = match series {
            Series::Within | Series::Beyond => return Self::new(seed, series.bound(), length),
            Series::Operations => operations(&mut rng, length),
            Series::Processes => processes(&mut rng),
            Series::Stopped => vec![fault(&mut rng, 1_000, Target::Holder, Act::StopBoth, (6_500, 8_000), (0, 0))],
            Series::Restarts => {
                vec![fault(&mut rng, 2_500, Target::Nodes(MAJORITY), Act::Kill, (1, 300), (0, 0))]
            }
            Series::Sentinel => sentinel(&mut rng),
        };
        // If a majority restarts without files, the nodes forget the cluster and an operator has to initialize it
        // again.
        let kinds = &Persistence::ALL[usize::from(series == Series::Restarts)..];
        let persistence = (0..NODES).map(|_| kinds[rng.usize(..kinds.len())]).collect();
        Self { seed, bound: series.bound(), persistence, faults, length }
    }
}

fn fault(rng: &mut Rng, at_ms: u64, target: Target, act: Act, lasts_ms: Range, amount: Range) -> Fault {
    let at = Duration::from_millis(at_ms);
    let length = Duration::from_millis(rng.u64(lasts_ms.0..=lasts_ms.1));
    Fault { at, length, target, act, amount: rng.u64(amount.0..=amount.1) }
}

/// First a backup of a majority, then backups and replicas of one node or of a majority.
fn operations(rng: &mut Rng, length: Duration) -> Vec<Fault> {
    let mut faults = vec![fault(rng, 1_500, Target::Nodes(MAJORITY), Act::Backup, (0, 0), (0, 0))];
    let mut at = 3_000;
    while Duration::from_millis(at) < length {
        let target =
            if rng.bool() { Target::Node(rng.usize(..NODES)) } else { Target::Nodes(rng.usize(MAJORITY..=NODES)) };
        let next = if rng.bool() {
            fault(rng, at, target, Act::Backup, (0, 0), (0, 0))
        } else {
            fault(rng, at, target, Act::Replica, (300, 2_000), (0, 0))
        };
        faults.push(next);
        at += next.length.as_millis() as u64 + rng.u64(300..1_800);
    }
    faults
}

/// Each of the signals once, in random order.
fn processes(rng: &mut Rng) -> Vec<Fault> {
    let mut order = SIGNALS;
    rng.shuffle(&mut order);
    let mut at = 1_000;
    let mut plan = |(act, lasts_ms, amount)| {
        let next = fault(rng, at, Target::Holder, act, lasts_ms, amount);
        at += next.length.as_millis() as u64 + next.amount + rng.u64(500..1_500);
        next
    };
    order.map(&mut plan).into()
}

/// The sentinel restarts, or falls silent for the rest of the episode. Then a failover replaces its master.
fn sentinel(rng: &mut Rng) -> Vec<Fault> {
    let first = if rng.bool() {
        fault(rng, 1_500, Target::Sentinel, Act::RestartSentinel, (0, 0), (0, 0))
    } else {
        fault(rng, 1_500, Target::Sentinel, Act::SilenceSentinel, (14_000, 14_000), (0, 0))
    };
    let at = rng.u64(2_500..4_500);
    vec![first, fault(rng, at, Target::Sentinel, Act::FailOver, (0, 0), (0, 0))]
}
