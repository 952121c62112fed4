//! Maps by id.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use quorlock_core::name::LeaseId;

/// A map by lease id, in no order.
pub(crate) type ById<V> = HashMap<LeaseId, V, Ids>;

/// Hashes ids. Ours are random bits; those that others name may be chosen to be alike, so the key is this process's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ids;

static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0) | 1);

impl BuildHasher for Ids {
    type Hasher = Sum;

    fn build_hasher(&self) -> Sum {
        Sum(0)
    }
}

/// The hash so far.
#[derive(Debug)]
pub(crate) struct Sum(u64);

impl Hasher for Sum {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u128(u128::from(*byte));
        }
    }

    fn write_u128(&mut self, id: u128) {
        let (high, low) = ((id >> 64) as u64, id as u64);
        let folded = |product: u128| (product >> 64) as u64 ^ product as u64;
        let first = folded(u128::from(low ^ self.0 ^ *KEY) * u128::from(KEY.rotate_left(32) | 1));
        self.0 = folded(u128::from(first ^ high) * u128::from(*KEY));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_that_are_alike_are_told_apart() {
        let alike = (0..64).flat_map(|bit| [1_u128 << bit, 1 << (bit + 64), (1 << bit) * 3, (1 << bit) * 0x1_0001]);
        let ids: BTreeSet<u128> = alike.collect();
        // By the bits that a map looks at first, on either side.
        for bits in [|hash: u64| hash & 0xffff, |hash: u64| hash >> 48] {
            let hashes: BTreeSet<u64> = ids.iter().map(|id| bits(Ids.hash_one(LeaseId::from_bits(*id)))).collect();
            assert!(hashes.len() > ids.len() * 9 / 10, "{} of {}", hashes.len(), ids.len());
        }
    }
}
