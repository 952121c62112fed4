//! Leases of which something is known here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use quorlock_core::name::LeaseId;
use quorlock_core::time::Moment;

use crate::ids::ById;

/// The most leases that are remembered. Of others it is as if nothing was known.
const NOTED_MAX: usize = 65_536;

/// Such leases, each until a moment.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    ends: Mutex<ById<Moment>>,
}

impl Noted {
    /// Remembers it until then, and says whether it was remembered before.
    pub(super) fn add(&self, lease: LeaseId, until: Moment, now: Moment) -> bool {
        let mut ends = self.ends();
        if ends.len() >= NOTED_MAX {
            ends.retain(|_, end| now < *end);
        }
        if ends.len() >= NOTED_MAX {
            return ends.get(&lease).is_some();
        }
        ends.insert(lease, until).is_some_and(|end| now < end)
    }

    pub(super) fn forget(&self, lease: LeaseId) {
        self.ends().remove(&lease);
    }

    pub(super) fn has(&self, lease: LeaseId, now: Moment) -> bool {
        self.ends().get(&lease).is_some_and(|end| now < *end)
    }

    fn ends(&self) -> MutexGuard<'_, ById<Moment>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
