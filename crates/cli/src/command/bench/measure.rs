//! Measures cycles of acquire and release, and handoffs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorlock::{AcquireError, Client, Lock};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::histogram::Histogram;
use crate::exit::{Failure, Outcome};

/// The warm-up takes a measurement's length divided by this. It fills caches and opens connections, and is not
/// measured.
const WARM_UP_DIVISOR: u32 = 10;
/// The longest wait for a lock. If the nodes answer, no wait takes this long.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How long each holder holds the lock when handoffs are measured.
const HOLD: Duration = Duration::from_millis(1);

/// The measurements with one number of callers. Each caller has its own name.
#[derive(Debug, Default, Serialize)]
pub(super) struct Case {
    pub(super) callers: usize,
    pub(super) cycles: u64,
    pub(super) cycles_per_second: f64,
    /// The durations of the cycles.
    pub(super) cycle: Histogram,
    /// The durations of the acquires.
    pub(super) acquire: Histogram,
    /// The number of acquired leases, including those of the warm-up.
    pub(super) leases: u64,
    /// The number of acquires that took a second round, because the nodes had granted different fences.
    pub(super) second_rounds: u64,
    /// The number of acquires that failed.
    pub(super) failures: u64,
    #[serde(skip)]
    first_failure: Option<AcquireError>,
}

/// Returns how long a measurement of this length takes together with its warm-up.
pub(super) fn with_warm_up(length: Duration) -> Duration {
    length + length / WARM_UP_DIVISOR
}

/// Measures cycles for this long: each caller acquires and releases a lock of its own, again and again.
pub(super) async fn measure_cycles(client: &Client, locks: Vec<Lock>, length: Duration) -> Outcome<Case> {
    let case = Arc::new(Mutex::new(Case { callers: locks.len(), ..Case::default() }));
    let stats_before = client.stats();
    let measured_from = Instant::now() + length / WARM_UP_DIVISOR;
    let mut tasks = JoinSet::new();
    for lock in locks {
        let case = Arc::clone(&case);
        tasks.spawn(async move {
            while Instant::now() < measured_from + length {
                run_cycle(&lock, measured_from, &case).await;
            }
        });
    }
    tasks.join_all().await;
    let seconds = measured_from.elapsed().as_secs_f64();
    let stats = client.stats();
    let mut case = std::mem::take(&mut *case.lock());
    case.cycles = case.cycle.total;
    case.cycles_per_second = (case.cycles as f64 / seconds * 10.0).round() / 10.0;
    case.leases = stats.acquired - stats_before.acquired;
    case.second_rounds = stats.sealed_late - stats_before.sealed_late;
    if case.cycles == 0 { Err(case.first_failure.map_or_else(nothing_acquired, Failure::from)) } else { Ok(case) }
}

/// Runs one cycle, and adds its durations to the case if the cycle started after the warm-up.
async fn run_cycle(lock: &Lock, measured_from: Instant, case: &Mutex<Case>) {
    let started = Instant::now();
    match lock.acquire_within(MAX_WAIT).await {
        Ok(lease) => {
            let acquire = started.elapsed();
            // The duration of a release counts even if too few nodes acknowledged the release by the deadline.
            let _ = lease.release().await;
            let cycle = started.elapsed();
            if started >= measured_from {
                let mut case = case.lock();
                case.acquire.add(acquire);
                case.cycle.add(cycle);
            }
        }
        Err(error) => {
            let mut case = case.lock();
            case.failures += 1;
            case.first_failure.get_or_insert(error);
        }
    }
}

/// Measures handoffs for this long: the times from a release to the next grant. All contenders acquire the same lock,
/// hold it briefly and release it, again and again.
pub(super) async fn measure_handoffs(contenders: Vec<Lock>, length: Duration) -> Outcome<Histogram> {
    let last_release = Arc::new(Mutex::new(None::<Instant>));
    let handoffs = Arc::new(Mutex::new(Histogram::default()));
    let measured_from = Instant::now() + length / WARM_UP_DIVISOR;
    let mut tasks = JoinSet::new();
    for lock in contenders {
        let (last_release, handoffs) = (Arc::clone(&last_release), Arc::clone(&handoffs));
        tasks.spawn(async move {
            while Instant::now() < measured_from + length {
                let lease = lock.acquire_within(MAX_WAIT).await?;
                let released = last_release.lock().take().filter(|released| *released >= measured_from);
                if let Some(released) = released {
                    handoffs.lock().add(released.elapsed());
                }
                sleep(HOLD).await;
                *last_release.lock() = Some(Instant::now());
                let _ = lease.release().await;
            }
            Ok::<(), AcquireError>(())
        });
    }
    for contender in tasks.join_all().await {
        contender?;
    }
    let handoffs = std::mem::take(&mut *handoffs.lock());
    if handoffs.total == 0 { Err(nothing_acquired()) } else { Ok(handoffs) }
}

fn nothing_acquired() -> Failure {
    Failure::internal("no lock was acquired during the measurement: use more --seconds")
}
