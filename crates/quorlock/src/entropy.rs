//! The only randomness.

use std::cell::RefCell;

use quorlock_core::retry::Dice;

/// Dice thrown by the operating system; in a simulation, by its seed.
///
/// They are for one decision, and not to be kept: what was drawn and not used yet would be the same in two copies of a
/// machine.
#[derive(Default)]
pub(crate) struct SystemDice {
    /// What was drawn in one call, as each is one to the operating system: enough for a ticket and an attempt.
    drawn: [u64; DRAWN],
    unused: usize,
    from_stock: bool,
}

const DRAWN: usize = 3;
const STOCK: usize = 64;

thread_local! {
    /// What was drawn for later, and how much of it is left.
    static STOCKED: RefCell<([u64; STOCK], usize)> = const { RefCell::new(([0; STOCK], 0)) };
}

impl SystemDice {
    /// Dice that were thrown before, many at once: for what a copy of this machine would have a copy of, too. Two leases with
    /// the same id do no harm on nodes that nobody else has.
    pub(crate) fn from_stock() -> Self {
        Self { from_stock: true, ..Self::default() }
    }
}

impl Dice for SystemDice {
    fn bits(&mut self) -> u64 {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::sim::world() {
            return world.bits();
        }
        if self.from_stock {
            return STOCKED.with_borrow_mut(|(stocked, left)| {
                if *left == 0 {
                    *stocked = throw();
                    *left = STOCK;
                }
                *left -= 1;
                std::mem::take(&mut stocked[*left])
            });
        }
        if self.unused == 0 {
            self.drawn = throw();
            self.unused = DRAWN;
        }
        self.unused -= 1;
        self.drawn[self.unused]
    }
}

fn throw<const COUNT: usize>() -> [u64; COUNT] {
    let mut bytes = [[0; 8]; COUNT];
    getrandom::fill(bytes.as_flattened_mut()).expect("the operating system gives random numbers");
    bytes.map(u64::from_ne_bytes)
}

/// 128 fresh random bits.
pub(crate) fn bits() -> u128 {
    SystemDice::default().wide_bits()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn dice_never_show_the_same_twice() {
        let stocked = (0..STOCK * 3).map(|_| SystemDice::from_stock().bits());
        let thrown = (0..DRAWN * 3).map(|_| SystemDice::default().bits());
        let mut kept = SystemDice::default();
        let again = (0..DRAWN * 3).map(|_| kept.bits());
        let all: Vec<u64> = stocked.chain(thrown).chain(again).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(!all.contains(&0));
    }
}
