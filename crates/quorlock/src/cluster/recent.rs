//! Leases of which something is known here.

use std::sync::MutexGuard;

use quorlock_core::name::LeaseId;
use quorlock_core::time::Moment;

use crate::platform::ids::ById;
use crate::platform::sync::Mutex;

/// The most leases that are remembered, twice: of those before them it is as if nothing was known.
const NOTED_MAX: usize = 32_768;

/// Such leases, each until a moment.
#[derive(Debug, Default)]
pub(crate) struct RecentLeases {
    ends: Mutex<Ends>,
}

/// Whoever comes by when there are too many forgets half of them at once: nobody looks through all of them.
#[derive(Debug, Default)]
struct Ends {
    latest: ById<Moment>,
    earlier: ById<Moment>,
}

impl Ends {
    fn of(&self, lease: LeaseId) -> Option<Moment> {
        self.latest.get(&lease).or_else(|| self.earlier.get(&lease)).copied()
    }
}

impl RecentLeases {
    /// Remembers it until then, and says whether it was remembered before.
    pub(crate) fn add(&self, lease: LeaseId, until: Moment, now: Moment) -> bool {
        let mut ends = self.ends();
        let before = ends.of(lease).is_some_and(|end| now < end);
        if ends.latest.len() >= NOTED_MAX {
            ends.earlier = std::mem::take(&mut ends.latest);
        }
        ends.latest.insert(lease, until);
        before
    }

    pub(crate) fn forget(&self, lease: LeaseId) {
        let mut ends = self.ends();
        ends.latest.remove(&lease);
        ends.earlier.remove(&lease);
    }

    pub(crate) fn has(&self, lease: LeaseId, now: Moment) -> bool {
        self.ends().of(lease).is_some_and(|end| now < end)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock()
    }
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
            let ends = noted.ends();
            assert!(ends.latest.len() + ends.earlier.len() <= NOTED_MAX * 2);
        }
        assert!(noted.has(LeaseId::from_bits(NOTED_MAX as u128), now), "as many as that are kept");
        noted.add(LeaseId::from_bits(u128::MAX), later, now);
        assert!(!noted.has(lease, now));
    }
}
