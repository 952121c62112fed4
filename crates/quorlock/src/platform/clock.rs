//! The library's only clock. It also counts the time in which the machine is suspended.
//!
//! `std::time::Instant` stops while a machine is suspended; the nodes' ttls do not. The boot-time clock runs during a
//! suspension, but NTP slews it. The raw clock is not slewed, but stops during a suspension. [`now`] advances with the
//! faster of the two, so it never reports less time than has passed.
//!
//! Both clocks stop while a virtual machine is paused, and while a machine or a process is restored from a snapshot.
//! Only the wall clock is corrected afterwards. Each call of [`now`] therefore also reads the wall clock, and records a
//! change of the difference between the two. From these records, [`wall_at`] computes what the wall clock showed at an
//! earlier moment.

use std::collections::VecDeque;
use std::time::Duration;

use quorlock_core::time::Moment;

use crate::platform::sync::Mutex;

/// Returns the current moment.
pub(crate) fn now() -> Moment {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return Moment::from_nanos(world.now());
    }
    // Read the wall clock first: a delay between the readings must not make the wall clock seem further ahead than it
    // is.
    let wall = wall_nanos();
    let reading = ClockPair::take();
    let mut clock = CLOCK.lock();
    let moment = clock.moment_of(reading);
    clock.record_skew(moment, wall, wall_nanos);
    Moment::from_nanos(moment)
}

/// Returns the wall clock's time in nanoseconds since the Unix epoch.
pub(crate) fn wall() -> i64 {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return world.wall() as i64;
    }
    wall_nanos()
}

/// Returns the wall clock's time at a moment that [`now`] has returned.
pub(crate) fn wall_at(moment: Moment) -> i64 {
    let moment = moment.as_nanos();
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return world.wall_at(moment) as i64;
    }
    CLOCK.lock().skew_at(moment).saturating_add_unsigned(moment)
}

/// Measures a lower bound of the elapsed time: the shorter of the times by two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(ClockPair);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(ClockPair::take())
    }

    /// Returns the time since the start by the slower of the two clocks. At least this much time has passed.
    pub(crate) fn at_least(self) -> Duration {
        let now = ClockPair::take();
        let passed = now.boot.saturating_sub(self.0.boot).min(now.raw.saturating_sub(self.0.raw));
        Duration::from_nanos(passed)
    }

    /// Returns the readings of both clocks at the start, in nanoseconds.
    pub(crate) fn started(self) -> (u64, u64) {
        (self.0.boot, self.0.raw)
    }

    /// Restores a stopwatch that a process with the same clock [`identity`] started at these readings. Returns `None`
    /// if a clock is now behind its reading.
    pub(crate) fn resume(boot: u64, raw: u64) -> Option<Self> {
        let now = ClockPair::take();
        (now.boot >= boot && now.raw >= raw).then_some(Self(ClockPair { boot, raw }))
    }
}

/// Returns an identifier of this process's clocks: two processes with the same identifier read the same clocks. Returns
/// `None` if the system does not provide one.
pub(crate) fn identity() -> Option<String> {
    #[cfg(feature = "sim")]
    if crate::platform::sim::is_on() {
        return Some("simulated".into());
    }
    #[cfg(target_os = "linux")]
    return crate::platform::boot::clock_identity().ok();
    #[cfg(not(target_os = "linux"))]
    None
}

static CLOCK: Mutex<AnchoredClock> = Mutex::new(AnchoredClock::new());

/// The least time between two moves of the anchor. With each move the moments may advance by the short time between the
/// readings of the two clocks, so the anchor moves rarely.
const ANCHOR_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The smallest change of the skew, in nanoseconds, that is recorded. Two clocks that are read one after the other seem
/// to differ by the time between the readings, so smaller changes mean nothing.
const SKEW_CHANGE_MIN_NANOS: u64 = 2_000_000;
/// The largest number of recorded changes of the skew. While NTP slews a clock, so many changes cover hours.
const SKEWS_MAX: usize = 4_096;

/// Converts readings of the system's clocks to moments.
struct AnchoredClock {
    /// A reading of both clocks, and the moment that it corresponds to.
    anchor: Option<(ClockPair, u64)>,
    /// The changes of the skew, oldest first: the moment of the change, and the skew since then. The skew is the wall
    /// clock minus [`now`], in nanoseconds.
    skews: VecDeque<(u64, i64)>,
}

impl AnchoredClock {
    const fn new() -> Self {
        Self { anchor: None, skews: VecDeque::new() }
    }

    /// Returns the moment of a reading, in nanoseconds.
    fn moment_of(&mut self, reading: ClockPair) -> u64 {
        let (anchor, moment) = *self.anchor.get_or_insert((reading, 0));
        let passed = reading.boot.saturating_sub(anchor.boot).max(reading.raw.saturating_sub(anchor.raw));
        let moment = moment.saturating_add(passed);
        if passed > ANCHOR_INTERVAL_MIN.as_nanos() as u64 {
            self.anchor = Some((reading, moment));
        }
        moment
    }

    /// Records the skew. `wall` was read just before `moment`; `wall_after` reads the wall clock again.
    fn record_skew(&mut self, moment: u64, wall: i64, wall_after: impl FnOnce() -> i64) {
        let skew = wall.saturating_sub_unsigned(moment);
        let mut moment = moment;
        if let Some((since, last)) = self.skews.back().copied() {
            // A thread that was delayed between the readings of `wall` and `moment` sees a smaller skew. The skew has
            // not changed if the wall clock has caught up now.
            let was_delayed = || skew < last && last <= wall_after().saturating_sub_unsigned(moment);
            if last.abs_diff(skew) < SKEW_CHANGE_MIN_NANOS || was_delayed() {
                return;
            }
            // A thread with later readings may have locked the clock first. Keep the records sorted.
            moment = moment.max(since);
        }
        self.skews.push_back((moment, skew));
        if self.skews.len() > SKEWS_MAX {
            self.skews.pop_front();
        }
    }

    /// Returns the skew at a moment, or the oldest recorded skew if the moment is earlier.
    fn skew_at(&self, moment: u64) -> i64 {
        let after = self.skews.partition_point(|(since, _)| *since <= moment);
        self.skews.get(after.saturating_sub(1)).map_or(0, |(_, skew)| *skew)
    }
}

/// A reading of the boot-time clock and of the raw clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct ClockPair {
    boot: u64,
    raw: u64,
}

impl ClockPair {
    fn take() -> Self {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::platform::sim::world() {
            return Self { boot: world.now(), raw: world.raw() };
        }
        Self::take_from_system()
    }

    #[cfg(target_os = "linux")]
    fn take_from_system() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        let nanos = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        Self { boot: nanos(ClockId::Boottime), raw: nanos(ClockId::MonotonicRaw) }
    }

    #[cfg(not(target_os = "linux"))]
    fn take_from_system() -> Self {
        static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let passed = ORIGIN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64;
        Self { boot: passed, raw: passed }
    }
}

/// Returns the nanoseconds since boot, including suspensions, by the boot-time clock of this process's time namespace.
#[cfg(target_os = "linux")]
pub(crate) fn boot_nanos() -> u64 {
    ClockPair::take().boot
}

/// Returns microseconds since the Unix epoch: the wall clock of nodes that run in this process.
pub(crate) fn wall_micros() -> u64 {
    wall_nanos().unsigned_abs() / 1_000
}

/// Returns nanoseconds since the Unix epoch, read through the C library, so that tests can replace the clock.
fn wall_nanos() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |passed| i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX))
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
    fn time_does_not_go_back_when_the_anchor_moves() {
        let second = ANCHOR_INTERVAL_MIN.as_nanos() as u64;
        let mut clock = AnchoredClock::new();
        let mut last = 0;
        // The raw clock is first slower and then faster than the boot-time clock.
        for (boot, raw) in
            [(100, 50), (second, 60), (second * 3, second), (second * 3 + 9, second * 5), (second * 4, second * 5 + 1)]
        {
            let reading = ClockPair { boot, raw };
            let moment = clock.moment_of(reading);
            assert!(moment >= last, "{moment} after {last}");
            last = moment;
        }
        // The boot-time clock advanced the moment, then the raw clock, and then the boot-time clock again.
        assert_eq!(last, (second * 3 - 100) + second * 4 + (second - 9));
    }

    #[test]
    fn wall_at_knows_what_the_wall_clock_showed_in_the_past() {
        let second = 1_000_000_000;
        let mut clock = AnchoredClock::new();
        let wall = 1_700_000_000 * second as i64;
        let record = |clock: &mut AnchoredClock, moment: u64, wall: i64| clock.record_skew(moment, wall, || wall);
        record(&mut clock, 0, wall);
        record(&mut clock, 5 * second, wall + 5 * second as i64 + 1_000_000);
        // The thread is delayed for a second after it read the wall clock.
        clock.record_skew(6 * second, wall + 5 * second as i64, || wall + 6 * second as i64);
        // The wall clock jumps ahead by a minute, then back by an hour.
        record(&mut clock, 7 * second, wall + 67 * second as i64);
        record(&mut clock, 9 * second, wall - 3_600 * second as i64);
        let wall_passed = |at: u64| clock.skew_at(at).saturating_add_unsigned(at) - wall;
        assert_eq!(wall_passed(0), 0);
        assert_eq!(wall_passed(5 * second), 5 * second as i64, "a change that is too small is not recorded");
        assert_eq!(wall_passed(6 * second), 6 * second as i64, "a delay of the thread is not a change");
        assert_eq!(wall_passed(7 * second - 1), 7 * second as i64 - 1);
        assert_eq!(wall_passed(7 * second), 67 * second as i64);
        assert_eq!(wall_passed(8 * second), 68 * second as i64);
        assert_eq!(wall_passed(10 * second), -3_599 * second as i64);
        for at in 10..10 + SKEWS_MAX as u64 {
            record(&mut clock, at * second, at as i64);
        }
        assert_eq!(clock.skews.len(), SKEWS_MAX);
        assert_eq!(clock.skew_at(0), 10 - 10 * second as i64, "the oldest recorded skew");
    }

    #[test]
    fn wall_at_agrees_with_the_wall_clock_for_the_current_moment() {
        let before = wall();
        let (moment, after) = (now(), wall());
        let tolerance = SKEW_CHANGE_MIN_NANOS as i64;
        assert!(
            (before - tolerance..=after + tolerance).contains(&wall_at(moment)),
            "{before} {} {after}",
            wall_at(moment)
        );
    }

    #[test]
    fn a_stopwatch_never_measures_more_than_the_clock() {
        let before = now();
        let watch = Stopwatch::start();
        for _ in 0..1_000 {
            let at_least = watch.at_least();
            assert!(at_least <= now().since(before));
        }
    }
}
