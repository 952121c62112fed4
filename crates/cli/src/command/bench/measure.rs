//! What is measured: cycles of acquire and release, and handoffs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::{AcquireError, Client, Lock};
use serde::{Serialize, Serializer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::spread::Spread;
use crate::command::locked;
use crate::exit::Failure;

/// Connections and caches get used to it for a tenth of the time, off the record.
const WARM_UP: u32 = 10;
/// Longer than anybody has to wait on nodes that are there.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long each holder holds in a handoff.
const HOLD: Duration = Duration::from_millis(1);

/// So many callers, each with a name of its own.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    pub(crate) callers: usize,
    pub(crate) cycles: u64,
    pub(crate) cycles_per_second: f64,
    #[serde(serialize_with = "micros")]
    pub(crate) cycle: Spread,
    #[serde(serialize_with = "micros")]
    pub(crate) acquire: Spread,
    /// All that were won, also while it warmed up.
    pub(crate) leases: u64,
    /// Of those, how many took a second round, because the nodes had granted unequal fences.
    pub(crate) second_rounds: u64,
    /// Acquires that came to nothing.
    pub(crate) failures: u64,
}

/// From the call of release to the next holder's grant.
#[derive(Debug, Serialize)]
pub(crate) struct Handoffs {
    pub(crate) handoffs: u64,
    #[serde(flatten, serialize_with = "micros")]
    pub(crate) handoff: Spread,
}

/// `{"p50_us":212.3,"p99_us":401.7}`; null when nothing was read.
fn micros<S: Serializer>(spread: &Spread, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Quantiles {
        p50_us: Option<f64>,
        p99_us: Option<f64>,
    }
    let tenths = |micros: f64| (micros * 10.0).round() / 10.0;
    let [p50_us, p99_us] = [0.5, 0.99].map(|share| spread.quantile(share).map(tenths));
    Quantiles { p50_us, p99_us }.serialize(serializer)
}

/// When a case begins to count, and when it ends.
#[derive(Clone, Copy)]
struct Span {
    from: Instant,
    until: Instant,
}

impl Span {
    fn new(length: Duration) -> Self {
        let from = Instant::now() + length / WARM_UP;
        Self { from, until: from + length }
    }

    fn is_over(self) -> bool {
        Instant::now() >= self.until
    }
}

/// How long a case of this length takes.
pub(crate) fn whole(length: Duration) -> Duration {
    length + length / WARM_UP
}

/// Takes and gives back for this long, with so many callers at once.
pub(crate) async fn cycles(
    client: &Client,
    lock: impl Fn(usize) -> Lock,
    callers: usize,
    length: Duration,
) -> Result<Case, Failure> {
    let log = Arc::new(Mutex::new(CycleLog::default()));
    let before = client.stats();
    let span = Span::new(length);
    let mut everyone = JoinSet::new();
    for caller in 0..callers {
        let (lock, log) = (lock(caller), Arc::clone(&log));
        everyone.spawn(async move {
            while !span.is_over() {
                cycle(&lock, span, &log).await;
            }
        });
    }
    everyone.join_all().await;
    let seconds = span.from.elapsed().as_secs_f64();
    let after = client.stats();
    let log = std::mem::take(&mut *locked(&log));
    if log.cycle.len() == 0 {
        return Err(log.first_failure.map_or_else(nothing, Failure::from));
    }
    Ok(Case {
        callers,
        cycles: log.cycle.len(),
        cycles_per_second: (log.cycle.len() as f64 / seconds * 10.0).round() / 10.0,
        cycle: log.cycle,
        acquire: log.acquire,
        leases: after.acquired - before.acquired,
        second_rounds: after.sealed_late - before.sealed_late,
        failures: log.failures,
    })
}

#[derive(Default)]
struct CycleLog {
    cycle: Spread,
    acquire: Spread,
    failures: u64,
    first_failure: Option<AcquireError>,
}

async fn cycle(lock: &Lock, span: Span, log: &Mutex<CycleLog>) {
    let asked = Instant::now();
    match lock.acquire_within(PATIENCE).await {
        Ok(lease) => {
            let acquired = asked.elapsed();
            // One that too few nodes have acknowledged by the deadline took its time, too.
            let _ = lease.release().await;
            if asked >= span.from {
                let mut log = locked(log);
                log.acquire.add(acquired);
                log.cycle.add(asked.elapsed());
            }
        }
        Err(error) => {
            let mut log = locked(log);
            log.failures += 1;
            log.first_failure.get_or_insert(error);
        }
    }
}

/// Everyone wants the same name: each takes it, holds it for a while and lets it go.
pub(crate) async fn handoffs(contenders: Vec<Lock>, length: Duration) -> Result<Handoffs, Failure> {
    let log = Arc::new(Mutex::new(HandoffLog::default()));
    let span = Span::new(length);
    let mut everyone = JoinSet::new();
    for lock in contenders {
        let log = Arc::clone(&log);
        everyone.spawn(async move {
            while !span.is_over() {
                let lease = lock.acquire_within(PATIENCE).await?;
                locked(&log).granted(span);
                sleep(HOLD).await;
                locked(&log).released = Some(Instant::now());
                let _ = lease.release().await;
            }
            Ok::<(), AcquireError>(())
        });
    }
    for done in everyone.join_all().await {
        done?;
    }
    let handoff = std::mem::take(&mut locked(&log).handoff);
    if handoff.len() == 0 {
        return Err(nothing());
    }
    Ok(Handoffs { handoffs: handoff.len(), handoff })
}

/// When the lock was let go and when it was had again.
#[derive(Default)]
struct HandoffLog {
    released: Option<Instant>,
    handoff: Spread,
}

impl HandoffLog {
    fn granted(&mut self, span: Span) {
        if let Some(released) = self.released.take().filter(|released| *released >= span.from) {
            self.handoff.add(released.elapsed());
        }
    }
}

fn nothing() -> Failure {
    Failure::internal("nothing could be acquired in the time given: try more --seconds")
}
