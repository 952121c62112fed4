//! Dice of one seed.

use std::time::Duration;

use quorlock_core::retry::Dice;

/// A stream of numbers that its seed decides: `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed that nobody has thought of.
    pub fn fresh() -> u64 {
        use std::hash::BuildHasher;
        // The standard library draws these keys from the operating system; half of the bits are easier to type.
        std::collections::hash_map::RandomState::new().hash_one(0) >> 32
    }

    /// Another stream, which this one decides.
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

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Milliseconds within these bounds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.between(Duration::from_millis(low), Duration::from_millis(high))
    }
}

impl Dice for Seeded {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
