//! Everyone's own clock, as a function of real time in nanoseconds.

const MILLION: u64 = 1_000_000;

/// A clock that runs fast or slow, stands still, and can be set forward.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Since when it runs like this.
    since: u64,
    /// What it said then.
    said: u64,
    /// How many nanoseconds it counts in a million.
    pace: u64,
}

impl Clock {
    /// A clock that says this at the beginning, and is fast by so many parts per million.
    pub fn new(says: u64, ppm: i64) -> Self {
        Self { since: 0, said: says, pace: MILLION.saturating_add_signed(ppm) }
    }

    /// What it says.
    pub fn read(&self, now: u64) -> u64 {
        self.said + (now - self.since) * self.pace / MILLION
    }

    /// When it will say at least this; `None` while it stands still.
    pub fn when(&self, says: u64) -> Option<u64> {
        if says <= self.said {
            return Some(self.since);
        }
        (self.pace > 0).then(|| self.since + ((says - self.said) * MILLION).div_ceil(self.pace))
    }

    /// From now on it is fast by so many parts per million; a million slow, it stands still.
    pub fn run(&mut self, now: u64, ppm: i64) {
        *self = Self { since: now, said: self.read(now), pace: MILLION.saturating_add_signed(ppm) };
    }

    /// Sets it forward, or back if it can be.
    pub fn jump(&mut self, now: u64, by: i64) {
        *self = Self { since: now, said: self.read(now).saturating_add_signed(by), pace: self.pace };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_says_what_it_was_expected_to_say() {
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
    fn a_clock_that_stands_still_says_nothing_new() {
        let mut clock = Clock::new(0, 0);
        clock.run(10, -1_000_000);
        assert_eq!((clock.read(99), clock.when(11), clock.when(10)), (10, None, Some(10)));
    }
}
