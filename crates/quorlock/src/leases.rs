//! What a client holds, by lease id.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use quorlock_core::name::LeaseId;

use crate::keeper::Held;

/// All leases of a client that are not over; `None` after its end.
pub(crate) struct Leases {
    by_id: Mutex<Option<BTreeMap<LeaseId, Weak<Held>>>>,
}

impl Leases {
    pub(crate) fn new() -> Self {
        Self { by_id: Mutex::new(Some(BTreeMap::new())) }
    }

    /// Remembers a lease, to be ended with the client. `false` when the client is closed already.
    pub(crate) fn add(&self, id: LeaseId, held: &Arc<Held>) -> bool {
        let mut leases = self.by_id();
        leases.as_mut().map(|leases| leases.insert(id, Arc::downgrade(held))).is_some()
    }

    pub(crate) fn remove(&self, id: LeaseId) {
        if let Some(leases) = &mut *self.by_id() {
            leases.remove(&id);
        }
    }

    /// Takes all of them out: there will be no more.
    pub(crate) fn close(&self) -> Vec<Arc<Held>> {
        let leases = self.by_id().take();
        leases.into_iter().flat_map(BTreeMap::into_values).filter_map(|held| held.upgrade()).collect()
    }

    /// Some node says that a lock with this key was broken. Whoever holds it asks all of them.
    pub(crate) fn doubt(&self, key: &str) {
        // Not under the mutex: whoever learns that it is lost leaves this list.
        let all: Vec<_> = self.by_id().iter().flat_map(BTreeMap::values).filter_map(Weak::upgrade).collect();
        for held in all.into_iter().filter(|held| held.place.key == key) {
            held.doubt();
        }
    }

    fn by_id(&self) -> MutexGuard<'_, Option<BTreeMap<LeaseId, Weak<Held>>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} leases", self.by_id().as_ref().map_or(0, BTreeMap::len))
    }
}
