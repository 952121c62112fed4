//! Remembers leases for a limited time, in bounded memory.

use std::collections::HashMap;

use quorlock_core::name::LeaseId;
use quorlock_core::time::Moment;

use crate::platform::sync::Mutex;

/// The size of one generation of remembered leases.
const NOTED_MAX: usize = 32_768;

/// A set of leases, each remembered until its own deadline.
///
/// There are two generations. When the newer one is full, it replaces the older one, which is dropped as a whole, so no
/// lookup or cleanup has to scan all leases.
#[derive(Debug, Default)]
pub(crate) struct RecentLeases {
    ends: Mutex<[HashMap<LeaseId, Moment>; 2]>,
}

impl RecentLeases {
    /// Remembers the lease until `until`. Returns whether it was remembered before.
    pub(crate) fn add(&self, lease: LeaseId, until: Moment, now: Moment) -> bool {
        let mut ends = self.ends.lock();
        let before = is_among(&ends, lease, now);
        if ends[0].len() >= NOTED_MAX {
            ends[1] = std::mem::take(&mut ends[0]);
        }
        ends[0].insert(lease, until);
        before
    }

    pub(crate) fn forget(&self, lease: LeaseId) {
        for generation in &mut *self.ends.lock() {
            generation.remove(&lease);
        }
    }

    pub(crate) fn has(&self, lease: LeaseId, now: Moment) -> bool {
        is_among(&self.ends.lock(), lease, now)
    }
}

fn is_among(ends: &[HashMap<LeaseId, Moment>; 2], lease: LeaseId, now: Moment) -> bool {
    ends.iter().find_map(|generation| generation.get(&lease)).is_some_and(|end| now < *end)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::platform::clock;

    #[test]
    fn a_lease_is_remembered_until_its_moment_and_not_after_many_others() {
        let (noted, now) = (RecentLeases::default(), clock::now());
        let (lease, later) = (LeaseId::from_bits(0), now + Duration::from_secs(1));
        assert!(!noted.add(lease, later, now));
        assert!(noted.add(lease, later, now) && noted.has(lease, now) && !noted.has(lease, later));
        noted.forget(lease);
        assert!(!noted.has(lease, now));
        noted.add(lease, later, now);
        for other in 1..NOTED_MAX * 2 {
            assert!(!noted.add(LeaseId::from_bits(other as u128), later, now));
            assert!(noted.ends.lock().iter().map(HashMap::len).sum::<usize>() <= NOTED_MAX * 2);
        }
        assert!(noted.has(LeaseId::from_bits(NOTED_MAX as u128), now), "as many as that are kept");
        noted.add(LeaseId::from_bits(u128::MAX), later, now);
        assert!(!noted.has(lease, now));
    }
}
