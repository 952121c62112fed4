//! Registry of a client's claims. A claim is the object behind a lease, from the first request to the release. The
//! registry has a list of the live claims, a list of the claims that wait in a queue, and a list of detached leases.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use quorlock_core::name::{LeaseId, OwnerId};
use quorlock_core::request::Ticket;
use quorlock_core::vote::Handoff;

use crate::platform::sync::{AtomicU64, Mutex};

/// The most detached leases that a client repairs at a time. To repair a lease means to request it from the nodes that
/// have not granted it.
pub(crate) const REPAIRS_MAX: usize = 65_536;

/// The events that reach a claim through the registry.
pub(crate) trait ClaimEvents: Send + Sync {
    /// The key of the lock.
    fn key(&self) -> &str;

    /// A node says that the lock may be free now, or has handed over its vote.
    fn hint(self: Arc<Self>, node: usize, handoff: Option<Handoff>);

    /// A node says that the lock was broken. The claim then asks all nodes whether its lease is still held.
    fn doubt(self: Arc<Self>);

    /// The client is closed, or the repair of a detached lease has ended.
    fn close(self: Arc<Self>);
}

/// All claims of a client that are not over.
///
/// The registry unlocks its mutexes before it calls a claim, so a claim may use the registry under the claim's mutex.
#[derive(Default)]
pub(crate) struct Claims {
    /// The claims that may still have votes to release, by number. A closing link waits until there are none.
    live: Mutex<BTreeMap<u64, Weak<dyn ClaimEvents>>>,
    /// The claims that listen for hints, because they wait in a queue.
    waiting: Mutex<BTreeMap<Ticket, Weak<dyn ClaimEvents>>>,
    /// Detached leases that are not on all nodes yet.
    repairs: Mutex<BTreeMap<DetachedKey, Arc<dyn ClaimEvents>>>,
    numbers: AtomicU64,
}

/// A detached lease: its owner, if it has one, and its id.
type DetachedKey = (Option<OwnerId>, LeaseId);

impl Claims {
    /// Returns a number for a new claim.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn add(&self, number: u64, claim: Weak<dyn ClaimEvents>) {
        self.live.lock().insert(number, claim);
    }

    /// Removes a claim that has queued its last release.
    pub(crate) fn remove(&self, number: u64) {
        self.live.lock().remove(&number);
    }

    /// Returns whether no claim has votes left to release.
    pub(crate) fn is_settled(&self) -> bool {
        self.live.lock().is_empty()
    }

    /// Passes hints for this ticket to the claim, until [`remove_waiter`](Self::remove_waiter).
    pub(crate) fn add_waiter(&self, ticket: Ticket, claim: Weak<dyn ClaimEvents>) {
        self.waiting.lock().insert(ticket, claim);
    }

    pub(crate) fn remove_waiter(&self, ticket: Ticket) {
        self.waiting.lock().remove(&ticket);
    }

    /// Passes a node's hint to the claim with this ticket.
    pub(crate) fn hint(&self, node: usize, ticket: Ticket, handoff: Option<Handoff>) {
        let waiter = self.waiting.lock().get(&ticket).and_then(Weak::upgrade);
        if let Some(waiter) = waiter {
            waiter.hint(node, handoff);
        }
    }

    /// Passes a hint of a node to every waiter, because the node is available again, and hints that it sent before may
    /// be lost.
    pub(crate) fn hint_all(&self, node: usize) {
        let waiting: Vec<_> = self.waiting.lock().values().filter_map(Weak::upgrade).collect();
        for waiter in waiting {
            waiter.hint(node, None);
        }
    }

    /// Notifies every claim of this key that the lock was broken.
    pub(crate) fn notify_broken(&self, key: &str) {
        for claim in self.live().into_iter().filter(|claim| claim.key() == key) {
            claim.doubt();
        }
    }

    /// Keeps the claim of a detached lease alive, until [`end_repair`](Self::end_repair). Returns `false` if there are
    /// already [`REPAIRS_MAX`] such claims.
    pub(crate) fn add_repair(&self, owner: Option<OwnerId>, id: LeaseId, claim: Arc<dyn ClaimEvents>) -> bool {
        let mut repairs = self.repairs.lock();
        let has_room = repairs.len() < REPAIRS_MAX;
        if has_room {
            repairs.insert((owner, id), claim);
        }
        has_room
    }

    /// Ends the repair of a lease that is on all nodes, released, or over.
    pub(crate) fn end_repair(&self, owner: Option<OwnerId>, id: LeaseId) {
        let claim = self.repairs.lock().remove(&(owner, id));
        if let Some(claim) = claim {
            claim.close();
        }
    }

    /// Ends the repairs of an owner's leases of one key.
    pub(crate) fn end_repairs_of(&self, owner: OwnerId, key: &str) {
        let ended: Vec<LeaseId> = {
            let repairs = self.repairs.lock();
            let first = (Some(owner), LeaseId::from_bits(0));
            let owned = repairs.range(first..).take_while(|((whose, _), _)| *whose == Some(owner));
            owned.filter(|(_, claim)| claim.key() == key).map(|((_, id), _)| *id).collect()
        };
        for id in ended {
            self.end_repair(Some(owner), id);
        }
    }

    /// Ends every claim and every repair. A claim that is added later must check by itself that the client is closed.
    pub(crate) fn close(&self) {
        let repairs = std::mem::take(&mut *self.repairs.lock());
        for claim in self.live().into_iter().chain(repairs.into_values()) {
            claim.close();
        }
    }

    fn live(&self) -> Vec<Arc<dyn ClaimEvents>> {
        self.live.lock().values().filter_map(Weak::upgrade).collect()
    }
}
