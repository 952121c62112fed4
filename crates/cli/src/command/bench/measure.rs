//! Measures cycles of acquire and release, and handoffs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorlock::{AcquireError, Client, Lock};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::spread::Spread;
use crate::exit::{Failure, Outcome};

/// The length of a measurement divided by the length of the warm-up before it. The warm-up is for connections and
/// caches, and is not measured.
const WARM_UP: u32 = 10;
/// The longest wait for a lock. Nodes that answer never need this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long each holder holds in a handoff.
const HOLD: Duration = Duration::from_millis(1);

/// The measurements with one number of callers. Each caller has its own name.
#[derive(Debug, Default, Serialize)]
pub(super) struct Case {
    pub(super) callers: usize,
    pub(super) cycles: u64,
    pub(super) cycles_per_second: f64,
    pub(super) cycle: Spread,
    pub(super) acquire: Spread,
    /// The number of acquired leases, including those of the warm-up.
    pub(super) leases: u64,
    /// The number of acquires that took a second round, because the nodes had granted different fences.
    pub(super) second_rounds: u64,
    /// Acquires that failed.
    pub(super) failures: u64,
    #[serde(skip)]
    first_failure: Option<AcquireError>,
}

/// Returns how long a case of this length takes with its warm-up.
pub(super) fn with_warm_up(length: Duration) -> Duration {
    length + length / WARM_UP
}

/// Acquires and releases locks for this long. Every lock has its own caller.
pub(super) async fn cycles(client: &Client, locks: Vec<Lock>, length: Duration) -> Outcome<Case> {
    let case = Arc::new(Mutex::new(Case { callers: locks.len(), ..Case::default() }));
    let before = client.stats();
    let from = Instant::now() + length / WARM_UP;
    let mut tasks = JoinSet::new();
    for lock in locks {
        let case = Arc::clone(&case);
        tasks.spawn(async move {
            while Instant::now() < from + length {
                cycle(&lock, from, &case).await;
            }
        });
    }
    tasks.join_all().await;
    let seconds = from.elapsed().as_secs_f64();
    let after = client.stats();
    let mut case = std::mem::take(&mut *case.lock());
    case.cycles = case.cycle.total;
    case.cycles_per_second = (case.cycles as f64 / seconds * 10.0).round() / 10.0;
    case.leases = after.acquired - before.acquired;
    case.second_rounds = after.sealed_late - before.sealed_late;
    if case.cycles == 0 { Err(case.first_failure.map_or_else(nothing, Failure::from)) } else { Ok(case) }
}

async fn cycle(lock: &Lock, from: Instant, case: &Mutex<Case>) {
    let asked = Instant::now();
    match lock.acquire_within(PATIENCE).await {
        Ok(lease) => {
            let acquired = asked.elapsed();
            // The duration of a release counts even if too few nodes acknowledged the release by the deadline.
            let _ = lease.release().await;
            if asked >= from {
                let mut case = case.lock();
                case.acquire.add(acquired);
                case.cycle.add(asked.elapsed());
            }
        }
        Err(error) => {
            let mut case = case.lock();
            case.failures += 1;
            case.first_failure.get_or_insert(error);
        }
    }
}

/// Measures handoffs: the times from a release to the next grant. All contenders acquire the same name, hold it briefly
/// and release it, again and again.
pub(super) async fn handoffs(contenders: Vec<Lock>, length: Duration) -> Outcome<Spread> {
    // The time of the last release, and the handoffs so far.
    let log = Arc::new(Mutex::new((None::<Instant>, Spread::default())));
    let from = Instant::now() + length / WARM_UP;
    let mut tasks = JoinSet::new();
    for lock in contenders {
        let log = Arc::clone(&log);
        tasks.spawn(async move {
            while Instant::now() < from + length {
                let lease = lock.acquire_within(PATIENCE).await?;
                let released = log.lock().0.take().filter(|released| *released >= from);
                if let Some(released) = released {
                    log.lock().1.add(released.elapsed());
                }
                sleep(HOLD).await;
                log.lock().0 = Some(Instant::now());
                let _ = lease.release().await;
            }
            Ok::<(), AcquireError>(())
        });
    }
    for done in tasks.join_all().await {
        done?;
    }
    let handoff = std::mem::take(&mut log.lock().1);
    if handoff.total == 0 { Err(nothing()) } else { Ok(handoff) }
}

fn nothing() -> Failure {
    Failure::internal("nothing could be acquired in the time given: try more --seconds")
}
