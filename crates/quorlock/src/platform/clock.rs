//! The only `now()`, suspend-proof.
//!
//! `std::time::Instant` stands still while a machine is suspended; the nodes' ttls do not. The boot-time clock counts a
//! suspension but is slewed by NTP; the raw clock is not slewed but stands still. [`now`] goes as fast as the faster of
//! the two, so it never says that less time has passed than has.
//!
//! Both stand still while a virtual machine is paused, and after a restore from a snapshot or by CRIU. Only the wall clock
//! is put right afterwards: [`now`] remembers how far it was ahead, for [`wall_at`].

use std::collections::VecDeque;
use std::time::Duration;

use quorlock_core::time::Moment;

use crate::platform::sync::Mutex;

/// The current moment.
pub(crate) fn now() -> Moment {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return Moment::from_nanos(world.now());
    }
    // Before the other clocks: what passes in between must not make the wall clock seem further ahead than it is.
    let wall = wall_nanos();
    let reading = ClockPair::take();
    let mut clock = CLOCK.lock();
    let moment = clock.moment_of(reading);
    clock.note_skew(moment, wall, wall_nanos);
    Moment::from_nanos(moment)
}

/// What the wall clock says, in nanoseconds since the Unix epoch.
pub(crate) fn wall() -> i64 {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return world.wall() as i64;
    }
    wall_nanos()
}

/// What the wall clock said at a moment that [`now`] has returned.
pub(crate) fn wall_at(moment: Moment) -> i64 {
    let moment = moment.as_nanos();
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return world.wall_at(moment) as i64;
    }
    CLOCK.lock().skew_at(moment).saturating_add_unsigned(moment)
}

/// Measures how long something stood, and never says more than that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(ClockPair);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(ClockPair::take())
    }

    /// At least this much has passed, by the slower of the two clocks.
    pub(crate) fn at_least(self) -> Duration {
        let now = ClockPair::take();
        let passed = now.boot.saturating_sub(self.0.boot).min(now.raw.saturating_sub(self.0.raw));
        Duration::from_nanos(passed)
    }

    /// The readings of both clocks when it was started, in nanoseconds.
    pub(crate) fn started(self) -> (u64, u64) {
        (self.0.boot, self.0.raw)
    }

    /// One that was started at these readings by another process with clocks of the same [`identity`]. `None` if a clock
    /// says less now than it did then.
    pub(crate) fn resume(boot: u64, raw: u64) -> Option<Self> {
        let now = ClockPair::take();
        (now.boot >= boot && now.raw >= raw).then_some(Self(ClockPair { boot, raw }))
    }
}

/// Names the clocks of this process: two processes with the same name read the same clocks. `None` where that cannot be
/// told.
pub(crate) fn identity() -> Option<String> {
    #[cfg(feature = "sim")]
    if crate::platform::sim::is_on() {
        return Some("simulated".into());
    }
    #[cfg(target_os = "linux")]
    return crate::platform::boot::clocks().ok();
    #[cfg(not(target_os = "linux"))]
    None
}

static CLOCK: Mutex<Anchored> = Mutex::new(Anchored::new());

/// The anchor is moved after this time, and not more often: each move may add the time between its two readings.
const REANCHOR: Duration = Duration::from_secs(1);
/// Smaller changes of the skew are not remembered: clocks that are read one after the other seem to differ by what passes in
/// between.
const SKEW_GRAIN: u64 = 2_000_000;
/// The most changes of the skew that are remembered. At the rate at which clocks are slewed, that is hours.
const SKEWS_MAX: usize = 4_096;

/// What connects the readings of the system's clocks.
struct Anchored {
    /// A reading, and the moment that it is.
    anchor: Option<(ClockPair, u64)>,
    /// How far the wall clock was ahead of [`now`], in nanoseconds, and since which moment, in the order of the moments.
    skews: VecDeque<(u64, i64)>,
}

impl Anchored {
    const fn new() -> Self {
        Self { anchor: None, skews: VecDeque::new() }
    }

    fn moment_of(&mut self, reading: ClockPair) -> u64 {
        let (since, moment) = *self.anchor.get_or_insert((reading, 0));
        let passed = reading.boot.saturating_sub(since.boot).max(reading.raw.saturating_sub(since.raw));
        let moment = moment.saturating_add(passed);
        if passed > REANCHOR.as_nanos() as u64 {
            self.anchor = Some((reading, moment));
        }
        moment
    }

    /// The wall clock said `wall` just before the moment, and `wall_after` tells what it says now.
    fn note_skew(&mut self, moment: u64, wall: i64, wall_after: impl FnOnce() -> i64) {
        let skew = wall.saturating_sub_unsigned(moment);
        let mut moment = moment;
        if let Some((since, last)) = self.skews.back().copied() {
            // Unchanged also if the thread was held up between the two clocks.
            let is_held_up = || skew < last && last <= wall_after().saturating_sub_unsigned(moment);
            if last.abs_diff(skew) < SKEW_GRAIN || is_held_up() {
                return;
            }
            // A thread that has read the clocks later may have been here first.
            moment = moment.max(since);
        }
        self.skews.push_back((moment, skew));
        if self.skews.len() > SKEWS_MAX {
            self.skews.pop_front();
        }
    }

    /// The skew at a moment; the first one that is remembered if the moment is older than that.
    fn skew_at(&self, moment: u64) -> i64 {
        let after = self.skews.partition_point(|(since, _)| *since <= moment);
        self.skews.get(after.saturating_sub(1)).map_or(0, |(_, skew)| *skew)
    }
}

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

/// Nanoseconds since the machine started, suspensions included, as the time namespace of this process shows them.
#[cfg(target_os = "linux")]
pub(crate) fn boot_nanos() -> u64 {
    ClockPair::take().boot
}

/// Microseconds since the Unix epoch. Only nodes that live in this process use it, as their own wall clock.
pub(crate) fn wall_micros() -> u64 {
    wall_nanos().unsigned_abs() / 1_000
}

/// Nanoseconds since the Unix epoch.
fn wall_nanos() -> i64 {
    #[cfg(target_os = "linux")]
    {
        // `SystemTime` would check more than is needed, at every `now`.
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since_epoch.map_or(0, |passed| i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX))
    }
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
    fn the_anchor_is_moved_once_a_second_and_time_goes_on() {
        let second = REANCHOR.as_nanos() as u64;
        let mut clock = Anchored::new();
        let mut last = 0;
        // The raw clock is the slower one, then the faster one.
        for (boot, raw) in
            [(100, 50), (second, 60), (second * 3, second), (second * 3 + 9, second * 5), (second * 4, second * 5 + 1)]
        {
            let reading = ClockPair { boot, raw };
            let moment = clock.moment_of(reading);
            assert!(moment >= last, "{moment} after {last}");
            last = moment;
        }
        // By the boot-time clock, by the raw one, and by the boot-time clock again.
        assert_eq!(last, (second * 3 - 100) + second * 4 + (second - 9));
    }

    #[test]
    fn the_wall_clock_of_a_moment_in_the_past_is_remembered() {
        let second = 1_000_000_000;
        let mut clock = Anchored::new();
        let wall = 1_700_000_000 * second as i64;
        let note = |clock: &mut Anchored, moment: u64, wall: i64| clock.note_skew(moment, wall, || wall);
        note(&mut clock, 0, wall);
        note(&mut clock, 5 * second, wall + 5 * second as i64 + 1_000_000);
        // Held up for a second after the wall clock was read.
        clock.note_skew(6 * second, wall + 5 * second as i64, || wall + 6 * second as i64);
        // Ahead by a minute from here on, then back by an hour.
        note(&mut clock, 7 * second, wall + 67 * second as i64);
        note(&mut clock, 9 * second, wall - 3_600 * second as i64);
        let says = |at: u64| clock.skew_at(at).saturating_add_unsigned(at) - wall;
        assert_eq!(says(0), 0);
        assert_eq!(says(5 * second), 5 * second as i64, "too small a change to be one");
        assert_eq!(says(6 * second), 6 * second as i64, "no change at all");
        assert_eq!(says(7 * second - 1), 7 * second as i64 - 1);
        assert_eq!(says(7 * second), 67 * second as i64);
        assert_eq!(says(8 * second), 68 * second as i64);
        assert_eq!(says(10 * second), -3_599 * second as i64);
        for at in 10..10 + SKEWS_MAX as u64 {
            note(&mut clock, at * second, at as i64);
        }
        assert_eq!(clock.skews.len(), SKEWS_MAX);
        assert_eq!(clock.skew_at(0), 10 - 10 * second as i64, "the oldest that is remembered");
    }

    #[test]
    fn the_wall_clock_of_now_is_the_wall_clock() {
        let before = wall();
        let (moment, after) = (now(), wall());
        let grain = SKEW_GRAIN as i64;
        assert!((before - grain..=after + grain).contains(&wall_at(moment)), "{before} {} {after}", wall_at(moment));
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
