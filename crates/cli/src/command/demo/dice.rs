//! Chance that can be had again: the same seed, the same throws, in every version of quorlock.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The throws of this seed; each stream of it has throws of its own.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed);
        dice.0 = dice.bits() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        dice
    }

    /// A seed that nobody chose, short enough to be typed.
    pub(crate) fn any_seed() -> u64 {
        RandomState::new().build_hasher().finish() % 1_000_000
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    /// A number of milliseconds from the first of these to below the second.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.bits() % (most - least))
    }

    /// Takes one out.
    pub(crate) fn draw<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        if from.is_empty() { None } else { Some(from.swap_remove(self.below(from.len()))) }
    }
}
