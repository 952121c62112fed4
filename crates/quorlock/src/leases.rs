//! What a client holds, by lease id.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use quorlock_core::name::LeaseId;

use crate::ids::ById;
use crate::keeper::Held;
use crate::sync::Mutex;

/// All leases of a client that are not over; `None` after its end.
pub(crate) struct Leases {
    by_id: Mutex<Option<ById<Weak<Held>>>>,
}

impl Leases {
    pub(crate) fn new() -> Self {
        Self { by_id: Mutex::new(Some(ById::default())) }
    }

    /// Remembers a lease, to be ended when the client closes. `false` when the client is closed already.
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
        in_order(leases.into_iter().flat_map(ById::into_values).filter_map(|held| held.upgrade()))
    }

    /// Some node says that a lock with this key was broken. Whoever holds it asks all of them.
    pub(crate) fn doubt(&self, key: &str) {
        // Not under the mutex: whoever learns that it is lost leaves this list.
        let all = in_order(self.by_id().iter().flat_map(ById::values).filter_map(Weak::upgrade));
        for held in all.into_iter().filter(|held| held.place.key == key) {
            held.doubt();
        }
    }

    fn by_id(&self) -> MutexGuard<'_, Option<ById<Weak<Held>>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Always the same one: a simulation has to be repeatable.
fn in_order(leases: impl Iterator<Item = Arc<Held>>) -> Vec<Arc<Held>> {
    let mut leases: Vec<_> = leases.collect();
    leases.sort_unstable_by_key(|held| held.id());
    leases
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} leases", self.by_id().as_ref().map_or(0, ById::len))
    }
}
