//! Chances that a failing run can be given again.

use std::hash::{BuildHasher, RandomState};

/// Numbers that look random and are the same for the same seed.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

/// The seed in `QUORLOCK_SEED`, else a fresh one. It is printed: a test that fails shows it.
pub fn seed() -> u64 {
    let given = std::env::var("QUORLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("QUORLOCK_SEED={seed}");
    seed
}
