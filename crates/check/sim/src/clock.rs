//! The clock of a node or client, as a function of virtual time. All times are in nanoseconds.

const MILLION: u64 = 1_000_000;

/// A clock that can run fast or slow, stop, or be set.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The virtual time of the last change of the clock.
    changed_at: u64,
    /// The reading of the clock after its last change.
    reading_at_change: u64,
    /// The nanoseconds that the clock counts in a million nanoseconds of virtual time.
    rate: u64,
}

impl Clock {
    /// A clock that starts at `reading` and runs faster than virtual time by `clock_rate_ppm` parts per million.
    pub fn new(reading: u64, clock_rate_ppm: i64) -> Self {
        Self { changed_at: 0, reading_at_change: reading, rate: MILLION.saturating_add_signed(clock_rate_ppm) }
    }

    /// The reading at this virtual time.
    pub fn read(&self, now: u64) -> u64 {
        self.reading_at_change + (now - self.changed_at) * self.rate / MILLION
    }

    /// The virtual time at which the clock reaches `reading`. `None` if the clock stands still before `reading`.
    pub fn time_of(&self, reading: u64) -> Option<u64> {
        if reading <= self.reading_at_change {
            return Some(self.changed_at);
        }
        (self.rate > 0).then(|| self.changed_at + ((reading - self.reading_at_change) * MILLION).div_ceil(self.rate))
    }

    /// Changes the rate: from `now` on, the clock runs faster than virtual time by `clock_rate_ppm` parts per million. At
    /// minus a million, the clock stands still.
    pub fn set_rate(&mut self, now: u64, clock_rate_ppm: i64) {
        *self = Self {
            changed_at: now,
            reading_at_change: self.read(now),
            rate: MILLION.saturating_add_signed(clock_rate_ppm),
        };
    }

    /// Sets the clock ahead or, if `by` is negative, back.
    pub fn jump(&mut self, now: u64, by: i64) {
        *self = Self { changed_at: now, reading_at_change: self.read(now).saturating_add_signed(by), rate: self.rate };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reaches_a_reading_at_the_predicted_time() {
        for clock_rate_ppm in [-99_999, -3, 0, 7, 100_000] {
            let mut clock = Clock::new(5_000, clock_rate_ppm);
            clock.jump(1_000, 70);
            for reading in [4_000, 6_000, 6_071, 1_234_567] {
                let at = clock.time_of(reading).unwrap().max(1_000);
                assert!(clock.read(at) >= reading, "{clock_rate_ppm} {reading}");
                assert!(at == 1_000 || clock.read(at - 1) < reading, "{clock_rate_ppm} {reading}");
            }
        }
    }

    #[test]
    fn a_stopped_clock_reaches_no_later_reading() {
        let mut clock = Clock::new(0, 0);
        clock.set_rate(10, -1_000_000);
        assert_eq!((clock.read(99), clock.time_of(11), clock.time_of(10)), (10, None, Some(10)));
    }
}
