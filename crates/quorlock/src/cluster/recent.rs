//! Remembers leases for a limited time, in bounded memory.

use std::collections::HashMap;

use quorlock_core::name::LeaseId;
use quorlock_core::time::Moment;

use crate::platform::sync::Mutex;

/// The largest number of leases in one generation.
const GENERATION_MAX: usize = 32_768;

/// A set of leases, each remembered until its own deadline.
///
/// There are two generations of leases. The newer generation replaces the older one when every deadline of the older one
/// has passed, or when the newer one is full. The older generation is dropped as a whole, so neither a lookup nor a
/// cleanup has to scan all leases.
#[derive(Debug, Default)]
pub(crate) struct RecentLeases {
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    newer: Generation,
    older: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    /// Until when each lease is remembered.
    deadlines: HashMap<LeaseId, Moment>,
    /// The latest of the deadlines.
    last: Option<Moment>,
}

impl RecentLeases {
    /// Remembers the lease until `until`. Returns whether the lease was remembered before this call.
    pub(crate) fn add(&self, lease: LeaseId, until: Moment, now: Moment) -> bool {
        let mut generations = self.generations.lock();
        let was_known = generations.has(lease, now);
        if generations.newer.deadlines.len() >= GENERATION_MAX || generations.older.last.is_none_or(|last| last <= now)
        {
            generations.older = std::mem::take(&mut generations.newer);
        }
        let newer = &mut generations.newer;
        newer.deadlines.insert(lease, until);
        newer.last = newer.last.max(Some(until));
        was_known
    }

    pub(crate) fn forget(&self, lease: LeaseId) {
        let mut generations = self.generations.lock();
        generations.newer.deadlines.remove(&lease);
        generations.older.deadlines.remove(&lease);
    }

    pub(crate) fn has(&self, lease: LeaseId, now: Moment) -> bool {
        self.generations.lock().has(lease, now)
    }
}

impl Generations {
    fn has(&self, lease: LeaseId, now: Moment) -> bool {
        let deadline = self.newer.deadlines.get(&lease).or_else(|| self.older.deadlines.get(&lease));
        deadline.is_some_and(|until| now < *until)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.newer.deadlines.len() + self.older.deadlines.len()
    }
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
            assert!(leases.generations.lock().len() <= GENERATION_MAX * 2);
        }
        assert!(
            leases.has(LeaseId::from_bits(GENERATION_MAX as u128), now),
            "the older generation is still remembered"
        );
        leases.add(LeaseId::from_bits(u128::MAX), later, now);
        assert!(!leases.has(lease, now));
    }

    #[test]
    fn leases_whose_deadline_has_passed_take_no_memory() {
        let (leases, start) = (RecentLeases::default(), clock::now());
        for number in 0..GENERATION_MAX {
            let now = start + Duration::from_millis(number as u64);
            leases.add(LeaseId::from_bits(number as u128), now + Duration::from_millis(10), now);
            assert!(
                leases.generations.lock().len() <= 30,
                "{} leases after {number} ms",
                leases.generations.lock().len()
            );
        }
    }
}
