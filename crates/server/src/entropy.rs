//! The only randomness: for names that nobody else has, never for secrets.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Where this process begins to count.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(first()));

/// 64 bits that this process has not had before, and another hardly will: numbers of requests and of streams only have to
/// differ, and asking the system for each of them takes longer than finding its call.
pub(crate) fn bits() -> u64 {
    scattered(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn first() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.map_or(0, |now| now.as_nanos() as u64)
    })
}

/// The same for no two numbers, and alike for no two neighbours (`SplitMix64`).
fn scattered(number: u64) -> u64 {
    let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_comes_twice() {
        let numbers: HashSet<u64> = (0..10_000).map(|_| bits()).collect();
        assert_eq!(numbers.len(), 10_000);
    }
}
