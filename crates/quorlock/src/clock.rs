//! The only `now()`, suspend-proof.
//!
//! `std::time::Instant` stands still while a machine is suspended; the nodes' ttls do not. The boot-time clock counts a
//! suspension but is slewed by NTP; the raw clock is not slewed but stands still. [`now`] goes as fast as the faster of
//! the two, so it never says that less time has passed than has.

use std::time::Duration;

use quorlock_core::time::Moment;

/// The current moment.
pub(crate) fn now() -> Moment {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::sim::world() {
        return Moment::from_nanos(world.now());
    }
    let reading = Reading::take();
    let mut anchor = ANCHOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let anchor = anchor.get_or_insert(Anchor { reading, moment: 0 });
    let step = reading.boot.saturating_sub(anchor.reading.boot).max(reading.raw.saturating_sub(anchor.reading.raw));
    let moment = anchor.moment.saturating_add(step);
    // Rarely: each new anchor may add what passed between the two readings of one.
    if step > REANCHOR.as_nanos() as u64 {
        *anchor = Anchor { reading, moment };
    }
    Moment::from_nanos(moment)
}

/// Measures how long something stood, and never says more than that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Reading);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Reading::take())
    }

    /// At least this much has passed, by the slower of the two clocks.
    pub(crate) fn at_least(self) -> Duration {
        let now = Reading::take();
        let passed = now.boot.saturating_sub(self.0.boot).min(now.raw.saturating_sub(self.0.raw));
        Duration::from_nanos(passed)
    }
}

const REANCHOR: Duration = Duration::from_secs(1);

static ANCHOR: std::sync::Mutex<Option<Anchor>> = std::sync::Mutex::new(None);

#[derive(Clone, Copy, Debug)]
struct Anchor {
    reading: Reading,
    moment: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    boot: u64,
    raw: u64,
}

impl Reading {
    fn take() -> Self {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::sim::world() {
            return Self { boot: world.now(), raw: world.raw() };
        }
        Self::of_the_system()
    }

    #[cfg(target_os = "linux")]
    fn of_the_system() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        let nanos = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        Self { boot: nanos(ClockId::Boottime), raw: nanos(ClockId::MonotonicRaw) }
    }

    #[cfg(not(target_os = "linux"))]
    fn of_the_system() -> Self {
        static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let passed = ORIGIN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64;
        Self { boot: passed, raw: passed }
    }
}

/// Milliseconds since the machine started, suspensions included: one clock for all processes of a machine.
#[cfg(target_os = "linux")]
pub(crate) fn boot_millis() -> u64 {
    Reading::take().boot / 1_000_000
}

/// Microseconds since the Unix epoch. Only nodes that live in this process use it, as their own wall clock.
pub(crate) fn wall_micros() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_never_goes_back() {
        let mut last = now();
        for _ in 0..10_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }

    #[test]
    fn a_stopwatch_never_says_more_than_the_clock() {
        let before = now();
        let watch = Stopwatch::start();
        for _ in 0..1_000 {
            let at_least = watch.at_least();
            assert!(at_least <= now().since(before));
        }
    }
}
