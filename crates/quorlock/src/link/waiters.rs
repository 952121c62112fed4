//! Who of this client waits in the queue, by ticket: for the hints that come in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, MutexGuard, Weak};

use quorlock_core::ticket::{Handoff, Ticket};

use crate::platform::sync::Mutex;

/// Someone who waits, and asks again when told that it may help.
pub(crate) trait Hinted: Send + Sync {
    /// This node may be free now, or has given its vote already.
    fn hint(self: Arc<Self>, node: usize, handoff: Option<Handoff>);
}

/// All waiters of a client.
#[derive(Default)]
pub(crate) struct Waiters {
    by_ticket: Mutex<BTreeMap<Ticket, Weak<dyn Hinted>>>,
}

impl Waiters {
    pub(crate) fn add(&self, ticket: Ticket, waiter: Weak<dyn Hinted>) {
        self.by_ticket().insert(ticket, waiter);
    }

    pub(crate) fn remove(&self, ticket: Ticket) {
        self.by_ticket().remove(&ticket);
    }

    /// Passes on a node's hint.
    pub(crate) fn hint(&self, node: usize, ticket: Ticket, handoff: Option<Handoff>) {
        // Not under the mutex: whoever asks again may find that it has waited long enough.
        let waiter = self.by_ticket().get(&ticket).and_then(Weak::upgrade);
        if let Some(waiter) = waiter {
            waiter.hint(node, handoff);
        }
    }

    /// A node can be asked again: what it said meanwhile was not heard.
    pub(crate) fn hint_all(&self, node: usize) {
        let all: Vec<_> = self.by_ticket().values().filter_map(Weak::upgrade).collect();
        for waiter in all {
            waiter.hint(node, None);
        }
    }

    fn by_ticket(&self) -> MutexGuard<'_, BTreeMap<Ticket, Weak<dyn Hinted>>> {
        self.by_ticket.lock()
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waiters", self.by_ticket().len())
    }
}
