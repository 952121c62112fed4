//! Remembers leases for a limited time, in bounded memory.

use std::collections::HashMap;

use quorlock_core::name::LeaseId;
use quorlock_core::time::Moment;

use crate::platform::sync::Mutex;

/// The largest number of leases in one generation.
const GENERATION_MAX: usize = 32_768;

/// A set of leases, each remembered until its own deadline.
///
/// There are two generations of leases. When the newer generation is full, it replaces the older generation, which is
/// dropped as a whole. Neither a lookup nor a cleanup therefore has to scan all leases.
#[derive(Debug, Default)]
pub(crate) struct RecentLeases {
    /// Until when each lease is remembered. The newer generation comes first.
    generations: Mutex<[HashMap<LeaseId, Moment>; 2]>,
}

impl RecentLeases {
    /// Remembers the lease until `until`. Returns whether the lease was remembered before this call.
    pub(crate) fn add(&self, lease: LeaseId, until: Moment, now: Moment) -> bool {
        let mut generations = self.generations.lock();
        let was_known = is_in(&generations, lease, now);
        if generations[0].len() >= GENERATION_MAX {
            generations[1] = std::mem::take(&mut generations[0]);
        }
        generations[0].insert(lease, until);
        was_known
    }

    pub(crate) fn forget(&self, lease: LeaseId) {
        for generation in &mut *self.generations.lock() {
            generation.remove(&lease);
        }
    }

    pub(crate) fn has(&self, lease: LeaseId, now: Moment) -> bool {
        is_in(&self.generations.lock(), lease, now)
    }
}

fn is_in(generations: &[HashMap<LeaseId, Moment>; 2], lease: LeaseId, now: Moment) -> bool {
    generations.iter().find_map(|generation| generation.get(&lease)).is_some_and(|until| now < *until)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::platform::clock;

    #[test]
    fn a_lease_is_forgotten_at_its_moment_or_after_two_full_generations() {
        let (leases, now) = (RecentLeases::default(), clock::now());
        let (lease, later) = (LeaseId::from_bits(0), now + Duration::from_secs(1));
        assert!(!leases.add(lease, later, now));
        assert!(leases.add(lease, later, now) && leases.has(lease, now) && !leases.has(lease, later));
        leases.forget(lease);
        assert!(!leases.has(lease, now));
        leases.add(lease, later, now);
        for other in 1..GENERATION_MAX * 2 {
            assert!(!leases.add(LeaseId::from_bits(other as u128), later, now));
            assert!(leases.generations.lock().iter().map(HashMap::len).sum::<usize>() <= GENERATION_MAX * 2);
        }
        assert!(
            leases.has(LeaseId::from_bits(GENERATION_MAX as u128), now),
            "the older generation is still remembered"
        );
        leases.add(LeaseId::from_bits(u128::MAX), later, now);
        assert!(!leases.has(lease, now));
    }
}
