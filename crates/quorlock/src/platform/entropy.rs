//! The library's only source of randomness.

use quorlock_core::rng::Rng;

/// Random numbers from the operating system or, in a simulation, from its seed.
///
/// Use a `SystemRng` for a single decision and then drop it. If a virtual machine is cloned while a `SystemRng` has
/// unused numbers, both copies of the machine get the same numbers.
#[derive(Default)]
pub(crate) struct SystemRng {
    /// The numbers of the last system call.
    drawn: [u64; NUMBERS_PER_CALL],
    /// How many of the drawn numbers are unused.
    unused: usize,
}

/// Enough numbers for a ticket and the id of an attempt.
const NUMBERS_PER_CALL: usize = 3;

impl Rng for SystemRng {
    fn bits(&mut self) -> u64 {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::platform::sim::world() {
            return world.bits();
        }
        if self.unused == 0 {
            let mut bytes = [[0; 8]; NUMBERS_PER_CALL];
            getrandom::fill(bytes.as_flattened_mut()).expect("the operating system gives random numbers");
            self.drawn = bytes.map(u64::from_ne_bytes);
            self.unused = NUMBERS_PER_CALL;
        }
        self.unused -= 1;
        self.drawn[self.unused]
    }
}

/// Returns 128 fresh random bits.
pub(crate) fn bits() -> u128 {
    SystemRng::default().wide_bits()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn random_numbers_do_not_repeat() {
        let from_new_generators = (0..NUMBERS_PER_CALL * 3).map(|_| SystemRng::default().bits());
        let mut generator = SystemRng::default();
        let from_one_generator = (0..NUMBERS_PER_CALL * 3).map(|_| generator.bits());
        let all: Vec<u64> = from_new_generators.chain(from_one_generator).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(!all.contains(&0));
    }
}
