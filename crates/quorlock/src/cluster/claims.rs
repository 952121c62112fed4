//! Registry of a client's leases: those that it holds, and detached ones that are not on every node yet.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, MutexGuard, Weak};

use quorlock_core::mode::OwnerId;
use quorlock_core::name::LeaseId;

use crate::link::BreakListener;
use crate::platform::sync::Mutex;

/// The most detached leases that are repaired at a time. Others stay on the nodes that have granted them.
pub(crate) const REPAIRS_MAX: usize = 65_536;

/// A lease, as its client's nodes see it.
pub(crate) trait Claim: Send + Sync {
    fn id(&self) -> LeaseId;

    fn owner(&self) -> Option<OwnerId>;

    /// The key of its name.
    fn key(&self) -> &str;

    /// Asks all nodes whether it is still held: one of them says that it was broken.
    fn doubt(self: Arc<Self>);

    /// Ends the lease, because its client is closed.
    fn close(&self);

    /// Sends nothing more for a detached lease.
    fn stop_repair(&self);
}

/// Every lease of a client that is not over.
pub(crate) struct Claims {
    /// `None` after the client was closed, like the repairs.
    held: Mutex<Option<HashMap<LeaseId, Weak<dyn Claim>>>>,
    repairs: Mutex<Option<BTreeMap<RepairKey, Arc<dyn Claim>>>>,
}

/// A detached lease, by its owner if it has one.
type RepairKey = (Option<OwnerId>, LeaseId);

impl Claims {
    pub(crate) fn new() -> Self {
        Self { held: Mutex::new(Some(HashMap::new())), repairs: Mutex::new(Some(BTreeMap::new())) }
    }

    /// Adds a lease that is held. `false` if the client is closed already.
    pub(crate) fn add(&self, claim: Weak<dyn Claim>, id: LeaseId) -> bool {
        self.held().as_mut().map(|held| held.insert(id, claim)).is_some()
    }

    pub(crate) fn remove(&self, id: LeaseId) {
        if let Some(held) = &mut *self.held() {
            held.remove(&id);
        }
    }

    /// Adds a detached lease, until its [repair ends](Self::end_repair). `false` if there are too many, or the client is closed.
    pub(crate) fn repair(&self, claim: Arc<dyn Claim>) -> bool {
        let mut repairs = self.repairs();
        let Some(repairs) = &mut *repairs else { return false };
        let has_room = repairs.len() < REPAIRS_MAX;
        if has_room {
            repairs.insert((claim.owner(), claim.id()), claim);
        }
        has_room
    }

    /// Ends the repair of a lease that is on all nodes, released, or over.
    pub(crate) fn end_repair(&self, owner: Option<OwnerId>, id: LeaseId) {
        // Not dropped under the mutex.
        let claim = self.repairs().as_mut().and_then(|repairs| repairs.remove(&(owner, id)));
        if let Some(claim) = claim {
            claim.stop_repair();
        }
    }

    /// Ends the repairs of an owner's leases of one key.
    pub(crate) fn end_repairs_of(&self, owner: OwnerId, key: &str) {
        let first = (Some(owner), LeaseId::from_bits(0));
        let ended: Vec<RepairKey> = {
            let repairs = self.repairs();
            let owned = repairs.iter().flat_map(|repairs| repairs.range(first..));
            let owned = owned.take_while(|((whose, _), _)| *whose == Some(owner));
            owned.filter(|(_, claim)| claim.key() == key).map(|(repair, _)| *repair).collect()
        };
        for (owner, id) in ended {
            self.end_repair(owner, id);
        }
    }

    /// Ends every lease and every repair. No lease is added any more.
    pub(crate) fn close(&self) {
        let held = self.held().take();
        for claim in in_order(held.into_iter().flat_map(HashMap::into_values).filter_map(|claim| claim.upgrade())) {
            claim.close();
        }
        let repairs = self.repairs().take();
        for claim in repairs.into_iter().flat_map(BTreeMap::into_values) {
            claim.stop_repair();
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<HashMap<LeaseId, Weak<dyn Claim>>>> {
        self.held.lock()
    }

    fn repairs(&self) -> MutexGuard<'_, Option<BTreeMap<RepairKey, Arc<dyn Claim>>>> {
        self.repairs.lock()
    }
}

impl BreakListener for Claims {
    fn broken(&self, key: &str) {
        // Not under the mutex: a lease that learns that it is lost removes itself.
        let held = in_order(self.held().iter().flat_map(HashMap::values).filter_map(Weak::upgrade));
        for claim in held.into_iter().filter(|claim| claim.key() == key) {
            claim.doubt();
        }
    }
}

/// Sorts leases by their ids, because a simulation has to be repeatable.
fn in_order(claims: impl Iterator<Item = Arc<dyn Claim>>) -> Vec<Arc<dyn Claim>> {
    let mut claims: Vec<_> = claims.collect();
    claims.sort_unstable_by_key(|claim| claim.id());
    claims
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held().as_ref().map_or(0, HashMap::len);
        write!(f, "{held} leases, {} repairs", self.repairs().as_ref().map_or(0, BTreeMap::len))
    }
}
