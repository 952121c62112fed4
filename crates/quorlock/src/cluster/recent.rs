//! Remembers leases for a limited time, in bounded memory.

use std::collections::{HashMap, VecDeque};

use quorlock_core::name::LeaseId;
use quorlock_core::time::Moment;

use crate::platform::sync::Mutex;

/// The largest number of remembered leases. When it is reached, the oldest is forgotten.
const REMEMBERED_MAX: usize = 65_536;

/// A set of leases, each remembered until its own deadline.
#[derive(Debug, Default)]
pub(crate) struct RecentLeases {
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    /// Until when each lease is remembered.
    deadlines: HashMap<LeaseId, Moment>,
    /// Every addition, oldest first, so that a cleanup does not have to scan all leases.
    additions: VecDeque<(LeaseId, Moment)>,
}

impl RecentLeases {
    /// Remembers the lease until `until`. Returns whether the lease was remembered before this call.
    pub(crate) fn add(&self, lease: LeaseId, until: Moment, now: Moment) -> bool {
        let Remembered { deadlines, additions } = &mut *self.remembered.lock();
        let was_known = deadlines.insert(lease, until).is_some_and(|until| now < until);
        additions.push_back((lease, until));
        while let Some((oldest, until)) = additions.front().copied()
            && (until <= now || additions.len() > REMEMBERED_MAX)
        {
            additions.pop_front();
            // If the lease was added again later, its deadline is another one, and it stays.
            if deadlines.get(&oldest) == Some(&until) {
                deadlines.remove(&oldest);
            }
        }
        was_known
    }

    pub(crate) fn forget(&self, lease: LeaseId) {
        self.remembered.lock().deadlines.remove(&lease);
    }

    pub(crate) fn has(&self, lease: LeaseId, now: Moment) -> bool {
        self.remembered.lock().deadlines.get(&lease).is_some_and(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::platform::clock;

    #[test]
    fn a_lease_is_forgotten_at_its_deadline_or_when_too_many_newer_leases_are_added() {
        let (leases, now) = (RecentLeases::default(), clock::now());
        let (lease, later) = (LeaseId::from_bits(0), now + Duration::from_secs(1));
        assert!(!leases.add(lease, later, now));
        assert!(leases.add(lease, later, now) && leases.has(lease, now) && !leases.has(lease, later));
        leases.forget(lease);
        assert!(!leases.has(lease, now));
        let leases = RecentLeases::default();
        leases.add(lease, later, now);
        for other in 1..REMEMBERED_MAX {
            assert!(!leases.add(LeaseId::from_bits(other as u128), later, now));
        }
        assert!(leases.has(lease, now), "the oldest lease is still remembered");
        leases.add(LeaseId::from_bits(u128::MAX), later, now);
        assert!(!leases.has(lease, now) && leases.has(LeaseId::from_bits(1), now));
        let Remembered { deadlines, additions } = &*leases.remembered.lock();
        assert_eq!([deadlines.len(), additions.len()], [REMEMBERED_MAX; 2]);
    }

    #[test]
    fn a_lease_that_was_added_again_is_remembered_until_its_new_deadline() {
        let (leases, now) = (RecentLeases::default(), clock::now());
        let [lease, other] = [0, 1].map(LeaseId::from_bits);
        let [soon, later] = [1, 2].map(|seconds| now + Duration::from_secs(seconds));
        leases.add(lease, soon, now);
        leases.add(lease, later, now);
        leases.add(other, later, soon);
        assert!(leases.has(lease, soon) && !leases.has(lease, later));
    }

    #[test]
    fn leases_whose_deadline_has_passed_take_no_memory() {
        let (leases, start) = (RecentLeases::default(), clock::now());
        for number in 0..32_768 {
            let now = start + Duration::from_millis(number);
            leases.add(LeaseId::from_bits(number.into()), now + Duration::from_millis(10), now);
            let Remembered { deadlines, additions } = &*leases.remembered.lock();
            assert!(deadlines.len() <= 30 && additions.len() <= 30, "after {number} ms");
        }
    }
}
