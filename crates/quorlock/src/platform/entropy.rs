//! The library's only source of randomness.

use quorlock_core::rng::Rng;

/// Random numbers from the operating system or, in a simulation, from its seed.
///
/// Use a value for a single decision and then drop it: if the virtual machine is cloned in between, both copies return
/// the same buffered numbers.
#[derive(Default)]
pub(crate) struct SystemRng {
    /// Numbers from one system call: enough for a ticket and an attempt.
    drawn: [u64; DRAWN],
    unused: usize,
}

const DRAWN: usize = 3;

impl Rng for SystemRng {
    fn bits(&mut self) -> u64 {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::platform::sim::world() {
            return world.bits();
        }
        if self.unused == 0 {
            let mut bytes = [[0; 8]; DRAWN];
            getrandom::fill(bytes.as_flattened_mut()).expect("the operating system gives random numbers");
            self.drawn = bytes.map(u64::from_ne_bytes);
            self.unused = DRAWN;
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
    fn rng_never_shows_the_same_twice() {
        let thrown = (0..DRAWN * 3).map(|_| SystemRng::default().bits());
        let mut kept = SystemRng::default();
        let again = (0..DRAWN * 3).map(|_| kept.bits());
        let all: Vec<u64> = thrown.chain(again).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(!all.contains(&0));
    }
}
