//! Random choices that a seed decides: the same in every version of quorlock.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use quorlock_core::rng::{Rng, Seeded};

/// The choices of one stream of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Seeded);

impl Dice {
    /// Each stream of a seed has choices of its own.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(Seeded::new(Seeded::new(seed).bits() ^ stream.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// A random seed, short enough to be typed.
    pub(crate) fn any_seed() -> u64 {
        RandomState::new().build_hasher().finish() % 1_000_000
    }

    /// A number below this one; zero if there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.0.bits() % limit.max(1) as u64) as usize
    }

    /// A number of milliseconds from the first of these to below the second.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.0.bits() % (most - least))
    }

    /// Takes one out.
    pub(crate) fn draw<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        if from.is_empty() { None } else { Some(from.swap_remove(self.below(from.len()))) }
    }
}
