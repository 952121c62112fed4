//! The clock of a node or client, as a function of real time in nanoseconds.

const MILLION: u64 = 1_000_000;

/// A clock that may run fast or slow, stand still, or be set.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The real time of the last change.
    since: u64,
    /// The reading at that time.
    said: u64,
    /// The nanoseconds that it counts in a million.
    pace: u64,
}

impl Clock {
    /// A clock with this first reading, fast by `ppm` parts per million.
    pub fn new(says: u64, ppm: i64) -> Self {
        Self { since: 0, said: says, pace: MILLION.saturating_add_signed(ppm) }
    }

    /// The reading at this real time.
    pub fn read(&self, now: u64) -> u64 {
        self.said + (now - self.since) * self.pace / MILLION
    }

    /// The real time at which it reads at least `says`; `None` while it stands still.
    pub fn when(&self, says: u64) -> Option<u64> {
        if says <= self.said {
            return Some(self.since);
        }
        (self.pace > 0).then(|| self.since + ((says - self.said) * MILLION).div_ceil(self.pace))
    }

    /// Changes the rate: fast by `ppm` parts per million. At minus a million it stands still.
    pub fn run(&mut self, now: u64, ppm: i64) {
        *self = Self { since: now, said: self.read(now), pace: MILLION.saturating_add_signed(ppm) };
    }

    /// Sets it forward or back.
    pub fn jump(&mut self, now: u64, by: i64) {
        *self = Self { since: now, said: self.read(now).saturating_add_signed(by), pace: self.pace };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reaches_a_reading_at_the_predicted_time() {
        for ppm in [-99_999, -3, 0, 7, 100_000] {
            let mut clock = Clock::new(5_000, ppm);
            clock.jump(1_000, 70);
            for says in [4_000, 6_000, 6_071, 1_234_567] {
                let at = clock.when(says).unwrap().max(1_000);
                assert!(clock.read(at) >= says, "{ppm} {says}");
                assert!(at == 1_000 || clock.read(at - 1) < says, "{ppm} {says}");
            }
        }
    }

    #[test]
    fn a_stopped_clock_reaches_no_later_reading() {
        let mut clock = Clock::new(0, 0);
        clock.run(10, -1_000_000);
        assert_eq!((clock.read(99), clock.when(11), clock.when(10)), (10, None, Some(10)));
    }
}
