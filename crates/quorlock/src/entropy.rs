//! The only randomness.

use quorlock_core::retry::Dice;

/// Dice thrown by the operating system; in a simulation, by its seed.
#[derive(Debug)]
pub(crate) struct SystemDice;

impl Dice for SystemDice {
    fn bits(&mut self) -> u64 {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::sim::world() {
            return world.bits();
        }
        getrandom::u64().expect("the operating system gives random numbers")
    }

    /// In one call: each of them is one to the operating system.
    fn wide_bits(&mut self) -> u128 {
        #[cfg(feature = "sim")]
        if crate::sim::world().is_some() {
            return u128::from(self.bits()) << 64 | u128::from(self.bits());
        }
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).expect("the operating system gives random numbers");
        u128::from_ne_bytes(bits)
    }
}

/// 128 fresh random bits.
pub(crate) fn bits() -> u128 {
    SystemDice.wide_bits()
}
