//! Random numbers: the source that the core draws from, and a seeded generator.

use core::time::Duration;

/// The core's only source of randomness.
pub trait Rng {
    /// Returns 64 fresh random bits.
    fn bits(&mut self) -> u64;

    /// Returns 128 fresh random bits.
    fn wide_bits(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }

    /// Returns a uniformly random duration in `low..=high`.
    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_nanos().min(u128::from(u64::MAX - 1)) as u64;
        // The high half of a 128-bit product is uniform enough for jitter. An exactly uniform number would need a loop.
        let offset = ((u128::from(self.bits()) * (u128::from(span) + 1)) >> 64) as u64;
        low + Duration::from_nanos(offset)
    }
}

/// `SplitMix64`. The same seed gives the same numbers in every version, because stored simulation seeds rely on it.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns another generator, seeded from this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }

    /// Returns a number below `end`; zero if `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns an index into a collection of this length.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns `true` with this probability, in percent.
    pub fn percent(&mut self, probability: u64) -> bool {
        self.below(100) < probability
    }

    /// Returns one of the choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Returns a duration between these numbers of milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.between(Duration::from_millis(low), Duration::from_millis(high))
    }
}

impl Rng for Seeded {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_0_gives_the_published_numbers_of_splitmix64() {
        let mut rng = Seeded::new(0);
        let numbers = [rng.bits(), rng.bits(), rng.bits()];
        assert_eq!(numbers, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut rng = Seeded::new(7);
        for _ in 0..1_000 {
            assert!(rng.below(3) < 3);
            assert!((5..=6).contains(&rng.range(5, 6)));
        }
        assert_eq!(rng.below(0), 0);
    }
}
