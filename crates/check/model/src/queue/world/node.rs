//! The nodes: they execute requests, and send replies and hints.

use quorlock_core::fence::Fence;
use quorlock_core::name::Channel;
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeTime, QueuedWaiter, apply};
use quorlock_core::quorum::Elector;
use quorlock_core::request::{Parting, Request};
use quorlock_core::terms::Mode;
use quorlock_core::vote::{Outcome, Vote};

use super::World;
use super::client::Message;

const EPOCH: Epoch = Epoch(1);
/// The reading of the nodes' clocks at the start, in milliseconds.
const START_MILLIS: u64 = 1_000_000;

/// The incarnation of every node, which has voted for a long time.
pub(super) fn voting_incarnation(nodes: usize) -> Incarnation {
    let constants = Constants { cluster: "c1".into(), nodes, max_ttl_millis: 60_000, max_skew_micros: 10_000_000 };
    Incarnation {
        identity: Identity::of_run("run1"),
        epoch: Some(EPOCH),
        floor: Some(Fence::default()),
        quarantine_micros: 66_000_000,
        suspended: false,
        elapsed_micros: 0,
        constants,
        founders: String::new(),
        restarts: 0,
    }
}

impl World {
    pub(super) fn node_time(&self) -> NodeTime {
        NodeTime::wall(START_MILLIS * 1_000 + self.now.as_nanos() / 1_000)
    }

    /// Delivers the next request to the node, which sends its reply and perhaps a hint or a handoff.
    pub(super) fn deliver(&mut self, index: usize, node: usize) {
        let now = self.node_time();
        let Some((request, sent)) = self.clients[index].links[node].requests.pop_front() else { return };
        let record = &mut self.records[node];
        if self.flaws.never_expires_positions {
            record.queue.iter_mut().for_each(|queued| queued.until = u64::MAX);
        }
        let removed_queue = if self.flaws.ignores_queue && request.may_grant() {
            record.remove_expired(now);
            if record.vote.is_none() { std::mem::take(&mut record.queue) } else { Vec::new() }
        } else {
            Vec::new()
        };
        let yielding_ticket = match &request {
            Request::Release { parting: Some(Parting::Yield(waiter)), .. } if self.flaws.keeps_yielded_requests => {
                Some(waiter.ticket)
            }
            _ => None,
        };
        let has_yielded = |queued: &&mut QueuedWaiter| Some(queued.waiter.ticket) == yielding_ticket;
        let stored_request = record.queue.iter_mut().find(has_yielded).and_then(|queued| queued.request.clone());
        let notifies_yielder =
            self.flaws.notifies_yielder && matches!(request, Request::Release { parting: Some(Parting::Yield(_)), .. });
        // A node can notice that a client is dead, but not that a message to the client is lost.
        let is_dead = |channel: Channel| self.clients[channel.0 as usize].is_dead;
        let can_hand_on = |channel| !is_dead(channel) && !self.flaws.sends_no_handoffs && !notifies_yielder;
        let mut answer = apply(&self.incarnation, record, &request, EPOCH, now, can_hand_on);
        if self.flaws.counts_permits
            && let (Vote::Grant { slot: Some(granted), .. }, Request::Acquire { mode: Mode::Slot { slot, .. }, .. }) =
                (&mut answer.vote, &request)
        {
            granted.index = *slot;
        }
        if let Some(queued) = record.queue.iter_mut().find(has_yielded) {
            queued.request = stored_request;
        }
        if !removed_queue.is_empty() {
            let Request::Acquire { waiter, .. } = &request else {
                unreachable!("these clients never renew, so only an acquire may be granted")
            };
            record.queue = removed_queue;
            record.queue.retain(|queued| Some(queued.waiter) != *waiter);
        }
        if notifies_yielder {
            self.clients[index].links[node].hints += u32::from(matches!(answer.vote, Vote::Grant { .. }));
        } else if let Some(hint) = answer.hint.filter(|hint| !is_dead(hint.channel) && !self.flaws.loses_hints) {
            let link = &mut self.clients[hint.channel.0 as usize].links[node];
            match answer.handoff {
                Some(handoff) => link.replies.push_back(Message::Handoff(handoff)),
                None => link.hints += 1,
            }
        }
        if request.may_grant() {
            let outcome = Outcome::Voted { vote: answer.vote, elector: Elector::at(node), sent };
            self.clients[index].links[node].replies.push_back(Message::Vote(request.attempt(), outcome));
        }
    }

    /// Whether the next request is a release that changes nothing on this node.
    pub(super) fn is_release_without_effect(&self, index: usize, node: usize) -> bool {
        let record = &self.records[node];
        let Some((Request::Release { attempt, parting, .. }, _)) = self.clients[index].links[node].requests.front()
        else {
            return false;
        };
        let queued = |ticket| record.queue.iter().find(|queued| queued.waiter.ticket == ticket);
        let changes_queue = match parting {
            Some(Parting::Leave(waiter)) => queued(waiter.ticket).is_some(),
            Some(Parting::Yield(waiter)) => queued(waiter.ticket).is_some_and(|queued| queued.request.is_some()),
            None => false,
        };
        let has_vote = record.vote.as_ref().is_some_and(|vote| vote.attempt == *attempt)
            || record.entries.iter().any(|entry| entry.attempt == *attempt);
        !changes_queue && !has_vote
    }
}
