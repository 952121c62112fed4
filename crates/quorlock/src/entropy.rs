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
}

/// 128 fresh random bits.
pub(crate) fn bits() -> u128 {
    u128::from(SystemDice.bits()) << 64 | u128::from(SystemDice.bits())
}
