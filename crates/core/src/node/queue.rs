//! The queue of a name on one node, and which waiter to notify when the lock may be free.

use crate::node::record::{QueuedWaiter, Record};
use crate::node::restart::Epoch;
use crate::node::time::NodeTime;
use crate::request::{ENTRY_LEASE, Request, Ticket, WAITERS_MAX, Waiter};
use crate::terms::{HeldMode, Mode};
use crate::vote::{QueuePosition, Refusal};

impl Record {
    /// Counts the waiters with a lower ticket that block this request. If the request has no ticket, counts all waiters
    /// that block the request.
    pub(super) fn count_blocking(&self, mode: Mode, ticket: Option<Ticket>) -> usize {
        let is_lower = |queued: &&QueuedWaiter| ticket.is_none_or(|ticket| queued.waiter.ticket < ticket);
        let blocks = |queued: &&QueuedWaiter| !(mode.is_shared() && queued.waiter.shared);
        self.queue.iter().filter(is_lower).filter(blocks).count()
    }

    /// Adds a waiter to the queue, or keeps its position for another [`ENTRY_LEASE`]. Returns the position.
    pub(super) fn enqueue(
        &mut self,
        mode: Mode,
        waiter: Option<Waiter>,
        now: NodeTime,
    ) -> Result<QueuePosition, Refusal> {
        let Some(waiter) = waiter else {
            return Ok(QueuePosition { position: None, waiting: self.queue.len() as u32, lower: false });
        };
        let is_new = self.queue.iter().all(|queued| queued.waiter.ticket != waiter.ticket);
        if is_new && self.queue.len() >= WAITERS_MAX as usize {
            return Err(Refusal::QueueFull);
        }
        self.keep_position(waiter, now);
        let earlier = self.queue.iter().filter(|queued| queued.waiter.ticket < waiter.ticket).count();
        let lower = self.count_blocking(mode, Some(waiter.ticket)) > 0 || self.is_vote_for_lower_ticket(waiter.ticket);
        Ok(QueuePosition { position: Some(earlier as u32 + 1), waiting: self.queue.len() as u32, lower })
    }

    /// Returns whether the current vote may belong to a waiter with a lower ticket that has not won yet.
    fn is_vote_for_lower_ticket(&self, ticket: Ticket) -> bool {
        self.vote.as_ref().is_some_and(|vote| match vote.held_mode {
            HeldMode::Exclusive => {
                self.fence_of_vote().and_then(|note| note.ticket).is_some_and(|voted| voted < ticket)
            }
            // The node does not know the tickets of all entries. Assume a lower ticket: an unnecessary yield is safe.
            HeldMode::Reentrant(_) | HeldMode::Shared | HeldMode::Slots(_) => true,
        })
    }

    /// Keeps a waiter's position for another [`ENTRY_LEASE`].
    pub(super) fn keep_position(&mut self, waiter: Waiter, now: NodeTime) {
        let until = now.life_millis.saturating_add(ENTRY_LEASE.as_millis() as u64);
        match self.queue.binary_search_by_key(&waiter.ticket, |queued| queued.waiter.ticket) {
            Ok(at) => self.queue[at].until = until,
            Err(at) => self.queue.insert(at, QueuedWaiter { waiter, until, request: None }),
        }
    }

    /// Stores a waiter's request, so that a handoff can grant it. After `None`, the waiter gets no handoff until the
    /// waiter asks again.
    pub(super) fn keep_request(&mut self, ticket: Ticket, request: Option<(Epoch, Request)>) {
        if let Some(queued) = self.queue.iter_mut().find(|queued| queued.waiter.ticket == ticket) {
            queued.request = request;
        }
    }

    /// Returns the stored request of the waiter, if the waiter is first and the vote is free.
    pub(super) fn next_request(&self, waiter: Waiter) -> Option<&(Epoch, Request)> {
        let first = self.queue.first().filter(|queued| self.vote.is_none() && queued.waiter.ticket == waiter.ticket)?;
        first.request.as_ref()
    }

    /// Removes a waiter from the queue, and returns whether the waiter was first.
    pub(super) fn leave_queue(&mut self, ticket: Ticket) -> bool {
        let was_first = self.queue.first().is_some_and(|queued| queued.waiter.ticket == ticket);
        self.queue.retain(|queued| queued.waiter.ticket != ticket);
        was_first
    }

    /// Returns the waiter to send a hint to: the first waiter, if it could get a vote now.
    pub(super) fn hint(&self) -> Option<Waiter> {
        let first = self.queue.first()?.waiter;
        let is_open = match self.vote.as_ref().map(|vote| vote.held_mode) {
            None => true,
            Some(HeldMode::Shared) => first.shared,
            Some(HeldMode::Slots(permits)) => self.entries.len() < permits as usize,
            Some(HeldMode::Exclusive | HeldMode::Reentrant(_)) => false,
        };
        is_open.then_some(first)
    }
}
