//! Leases that no majority was known to have when they were last extended here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use quorlock_core::name::LeaseId;
use quorlock_core::time::{Moment, Ttl};

use crate::ids::ById;

/// The most leases that are remembered. Others are extended as if nothing was known of them.
const DOUBTS_MAX: usize = 65_536;

/// Such leases, each until the votes that the last extension may have kept have lapsed.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    ends: Mutex<ById<Moment>>,
}

impl Doubts {
    pub(super) fn add(&self, lease: LeaseId, ttl: Ttl, now: Moment) {
        let mut ends = self.ends();
        if ends.len() >= DOUBTS_MAX {
            ends.retain(|_, end| now < *end);
        }
        if ends.len() < DOUBTS_MAX {
            ends.insert(lease, now + ttl.duration());
        }
    }

    pub(super) fn dispel(&self, lease: LeaseId) {
        self.ends().remove(&lease);
    }

    pub(super) fn is_doubted(&self, lease: LeaseId, now: Moment) -> bool {
        self.ends().get(&lease).is_some_and(|end| now < *end)
    }

    fn ends(&self) -> MutexGuard<'_, ById<Moment>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
