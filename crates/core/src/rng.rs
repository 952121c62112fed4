//! Random numbers: what the core draws from, and a generator that a seed decides.

use core::time::Duration;

/// The only randomness that the core ever sees.
pub trait Rng {
    /// 64 fresh random bits.
    fn bits(&mut self) -> u64;

    /// 128 of them.
    fn wide_bits(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }

    /// A duration drawn evenly from `low..=high`.
    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_nanos().min(u128::from(u64::MAX - 1)) as u64;
        // The high half of a 128-bit product: even enough for jitter, and without a loop.
        let share = ((u128::from(self.bits()) * (u128::from(span) + 1)) >> 64) as u64;
        low + Duration::from_nanos(share)
    }
}

/// `SplitMix64`: the same seed gives the same numbers in every version. Kept seeds of simulations rely on it.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// The numbers of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another generator, which this one decides.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }

    /// A number below this one; zero if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// An index into something this long.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Milliseconds within these bounds.
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
    fn a_seed_gives_the_published_numbers_of_splitmix64() {
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
