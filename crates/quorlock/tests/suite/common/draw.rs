//! Random numbers that a seed can reproduce.

use std::hash::{BuildHasher, RandomState};

/// A deterministic random number generator.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: usize) -> usize {
        let mut rng = fastrand::Rng::with_seed(self.0);
        let drawn = rng.usize(..end);
        self.0 = rng.get_seed();
        drawn
    }
}

/// The seed in `QUORLOCK_SEED`, or a random one. Printed, so that a failed test shows it.
pub fn seed() -> u64 {
    let given = std::env::var("QUORLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("QUORLOCK_SEED={seed}");
    seed
}
