//! Random numbers that a seed reproduces.

use std::hash::{BuildHasher, RandomState};

/// A random number generator whose state is its next seed.
pub struct Random(pub u64);

impl Random {
    /// Draws a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let mut rng = fastrand::Rng::with_seed(self.0);
        let number = rng.usize(..end);
        self.0 = rng.get_seed();
        number
    }
}

/// Returns the seed in `QUORLOCK_SEED`, or a random seed. Prints the seed, so that the output of a failed test shows
/// it.
pub fn seed() -> u64 {
    let requested = std::env::var("QUORLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = requested.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("QUORLOCK_SEED={seed}");
    seed
}
