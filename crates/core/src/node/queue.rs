//! Who waits for a name on one node, and who is to be told when it may be free.

use crate::mode::{Mode, Period};
use crate::node::record::{Place, Record};
use crate::node::restart::Epoch;
use crate::node::time::NodeTime;
use crate::ticket::{ENTRY_LEASE, QueuePosition, Ticket, WAITERS_MAX, Waiter};
use crate::vote::{Refusal, Request};

impl Record {
    /// How many wait with a lower ticket than the asker's, as far as they are in its way; all of them, if it has none.
    pub(super) fn ahead(&self, mode: Mode, ticket: Option<Ticket>) -> usize {
        let lower = |place: &&Place| ticket.is_none_or(|ticket| place.waiter.ticket < ticket);
        let in_the_way = |place: &&Place| !(mode.is_shared() && place.waiter.shared);
        self.queue.iter().filter(lower).filter(in_the_way).count()
    }

    /// Puts a waiter in the queue, or keeps it there for longer, and tells how the queue looks to it.
    pub(super) fn enqueue(
        &mut self,
        mode: Mode,
        waiter: Option<Waiter>,
        now: NodeTime,
    ) -> Result<QueuePosition, Refusal> {
        let Some(waiter) = waiter else {
            return Ok(QueuePosition { place: None, waiting: self.queue.len() as u32, lower: false });
        };
        let is_new = self.queue.iter().all(|place| place.waiter.ticket != waiter.ticket);
        if is_new && self.queue.len() >= WAITERS_MAX as usize {
            return Err(Refusal::QueueFull);
        }
        self.keep_place(waiter, now);
        let before = self.queue.iter().filter(|place| place.waiter.ticket < waiter.ticket).count();
        let lower = self.ahead(mode, Some(waiter.ticket)) > 0 || self.is_voted_lower(waiter.ticket);
        Ok(QueuePosition { place: Some(before as u32 + 1), waiting: self.queue.len() as u32, lower })
    }

    /// Whether the vote that stands may be that of another waiter with a lower ticket, who has yet to win.
    fn is_voted_lower(&self, ticket: Ticket) -> bool {
        self.vote.as_ref().is_some_and(|vote| match vote.period {
            Period::Exclusive => self.fence_of_vote().and_then(|note| note.ticket).is_some_and(|voted| voted < ticket),
            // Of several entries it is not known whose tickets are lower: better to yield once too often.
            Period::Reentrant(_) | Period::Shared | Period::Slots(_) => true,
        })
    }

    /// Keeps a waiter's place for another entry lease.
    pub(super) fn keep_place(&mut self, waiter: Waiter, now: NodeTime) {
        let until = now.life_millis.saturating_add(ENTRY_LEASE.as_millis() as u64);
        match self.queue.binary_search_by_key(&waiter.ticket, |place| place.waiter.ticket) {
            Ok(at) => self.queue[at].until = until,
            Err(at) => self.queue.insert(at, Place { waiter, until, request: None }),
        }
    }

    /// Remembers what a place is for, or that its waiter has to ask anew.
    pub(super) fn keep_request(&mut self, ticket: Ticket, request: Option<(Epoch, Request)>) {
        if let Some(place) = self.queue.iter_mut().find(|place| place.waiter.ticket == ticket) {
            place.request = request;
        }
    }

    /// What the first waiter waits for, if the vote is free.
    pub(super) fn next(&self, waiter: Waiter) -> Option<&(Epoch, Request)> {
        let first = self.queue.first().filter(|place| self.vote.is_none() && place.waiter.ticket == waiter.ticket)?;
        first.request.as_ref()
    }

    /// Gives a place up. Whether it was the first.
    pub(super) fn leave_queue(&mut self, ticket: Ticket) -> bool {
        let was_first = self.queue.first().is_some_and(|place| place.waiter.ticket == ticket);
        self.queue.retain(|place| place.waiter.ticket != ticket);
        was_first
    }

    /// The first waiter, if it could get a vote now.
    pub(super) fn hint(&self) -> Option<Waiter> {
        let first = self.queue.first()?.waiter;
        let is_open = match self.vote.as_ref().map(|vote| vote.period) {
            None => true,
            Some(Period::Shared) => first.shared,
            Some(Period::Slots(permits)) => self.entries.len() < permits as usize,
            Some(Period::Exclusive | Period::Reentrant(_)) => false,
        };
        is_open.then_some(first)
    }
}
