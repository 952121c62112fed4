//! Staying awake for the next request, where the last ones came at once.
//!
//! A thread that sleeps has to be woken up by what it waits for, and on many machines that takes longer than the whole answer.
//! A caller that locks, releases and locks again asks for the next thing right after an answer: it is worth a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long a thread stays awake behind an answer, if the request came within as much of the answer before it. A caller on the
/// same machine wakes up and asks again within half of that.
const LINGER: Duration = Duration::from_micros(200);

/// How many threads may stay awake at a time.
#[derive(Debug)]
pub(crate) struct Spare(AtomicUsize);

impl Spare {
    /// One less than there are cores: that one is for whoever asks.
    pub(crate) fn beside_one_of(cores: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(cores.saturating_sub(1))))
    }

    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    fn take(self: &Arc<Self>) -> Option<Taken> {
        let one_less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).ok().map(|_| Taken(Arc::clone(self)))
    }
}

/// Leave to stay awake, for as long as it lives.
#[derive(Debug)]
struct Taken(Arc<Spare>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether one thread stays awake. Only tasks of that thread look at it.
pub(crate) struct Linger {
    begun: Instant,
    /// Until when, in nanoseconds since the beginning.
    until: AtomicU64,
    is_awake: AtomicBool,
    wanted: Notify,
    spare: Arc<Spare>,
}

impl Linger {
    pub(crate) fn new(spare: Arc<Spare>) -> Arc<Self> {
        let (begun, until, is_awake) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { begun, until, is_awake, wanted: Notify::new(), spare })
    }

    /// A request has come from a caller of this habit.
    pub(crate) fn heard(&self, habit: &Habit) {
        habit.heard(self.now());
    }

    /// It has been answered.
    pub(crate) fn answered(&self, habit: &Habit) {
        let now = self.now();
        if habit.answered(now) {
            self.until.store(nanos(now + LINGER), Ordering::Relaxed);
            if !self.is_awake.swap(true, Ordering::Relaxed) {
                self.wanted.notify_one();
            }
        }
    }

    /// Keeps the thread awake whenever that is worth it.
    ///
    /// # Cancel safety
    /// Dropping the future lets the thread sleep.
    pub(crate) async fn stay(self: Arc<Self>) {
        loop {
            self.wanted.notified().await;
            if let Some(_taken) = self.spare.take() {
                while nanos(self.now()) <= self.until.load(Ordering::Relaxed) {
                    // The runtime looks for requests between turns, without waiting for any.
                    tokio::task::yield_now().await;
                }
            }
            self.is_awake.store(false, Ordering::Relaxed);
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// How soon the requests of one connection follow its answers. Moments are since some beginning.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// The last answer, in nanoseconds.
    answered: AtomicU64,
    /// The last request followed the answer before it at once.
    is_quick: AtomicBool,
}

impl Habit {
    fn heard(&self, now: Duration) {
        let answered = Duration::from_nanos(self.answered.load(Ordering::Relaxed));
        self.is_quick.store(now.saturating_sub(answered) <= LINGER, Ordering::Relaxed);
    }

    /// Whether the next request is likely to come at once, too.
    fn answered(&self, now: Duration) -> bool {
        self.answered.store(nanos(now), Ordering::Relaxed);
        self.is_quick.load(Ordering::Relaxed)
    }
}

fn nanos(moment: Duration) -> u64 {
    // Enough for five centuries.
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
