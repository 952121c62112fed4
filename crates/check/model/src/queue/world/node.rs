//! The nodes: the effect of a request on a record, and hints.

use quorlock_core::fence::Fence;
use quorlock_core::name::Channel;
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeTime, Place, apply};
use quorlock_core::request::{Parting, Request};
use quorlock_core::terms::Mode;
use quorlock_core::vote::{Outcome, Vote};

use super::World;
use super::client::Message;

const EPOCH: Epoch = Epoch(1);
/// The start of the nodes' clocks, in milliseconds.
const CLOCK: u64 = 1_000_000;

/// The state of every node: it has been voting for long.
pub(super) fn life(nodes: usize) -> Incarnation {
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
        NodeTime::wall(CLOCK * 1_000 + self.now.as_nanos() / 1_000)
    }

    pub(super) fn deliver(&mut self, index: usize, node: usize) {
        let now = self.node_time();
        let Some((request, sent)) = self.clients[index].links[node].requests.pop_front() else { return };
        let record = &mut self.records[node];
        if self.flaws.permanent_positions {
            record.queue.iter_mut().for_each(|place| place.until = u64::MAX);
        }
        let line = if self.flaws.ignores_queue && request.may_grant() {
            record.lapse(now);
            if record.vote.is_none() { std::mem::take(&mut record.queue) } else { Vec::new() }
        } else {
            Vec::new()
        };
        let yields = match &request {
            Request::Release { parting: Some(Parting::Yield(waiter)), .. } if self.flaws.accepts_after_yield => {
                Some(waiter.ticket)
            }
            _ => None,
        };
        let is_theirs = |place: &&mut Place| Some(place.waiter.ticket) == yields;
        let request_kept = record.queue.iter_mut().find(is_theirs).and_then(|place| place.request.clone());
        let yields_to_itself =
            self.flaws.notifies_yielder && matches!(request, Request::Release { parting: Some(Parting::Yield(_)), .. });
        // A node notices that a client is gone, but not that its own messages are lost.
        let is_dead = |channel: Channel| self.clients[channel.0 as usize].is_dead;
        let hands_on = |channel| !is_dead(channel) && !self.flaws.without_handoffs && !yields_to_itself;
        let mut answer = apply(&self.life, record, &request, EPOCH, now, hands_on);
        if self.flaws.counts_permits
            && let (Vote::Grant { slot: Some(granted), .. }, Request::Acquire { mode: Mode::Slot { slot, .. }, .. }) =
                (&mut answer.vote, &request)
        {
            granted.index = *slot;
        }
        if let Some(place) = record.queue.iter_mut().find(is_theirs) {
            place.request = request_kept;
        }
        if !line.is_empty() {
            let Request::Acquire { waiter, .. } = &request else {
                unreachable!("only the sender of a request is kept out of the queue")
            };
            record.queue = line;
            record.queue.retain(|place| Some(place.waiter) != *waiter);
        }
        if yields_to_itself {
            self.clients[index].links[node].hints += u32::from(matches!(answer.vote, Vote::Grant { .. }));
        } else if let Some(hint) = answer.hint.filter(|hint| !is_dead(hint.channel) && !self.flaws.hints_lost) {
            let link = &mut self.clients[hint.channel.0 as usize].links[node];
            match answer.handoff {
                Some(handoff) => link.replies.push_back(Message::Handoff(handoff)),
                None => link.hints += 1,
            }
        }
        if request.may_grant() {
            let outcome = Outcome::Voted { vote: answer.vote, sent };
            self.clients[index].links[node].replies.push_back(Message::Vote(request.attempt(), outcome));
        }
    }

    pub(super) fn is_idle_release(&self, index: usize, node: usize) -> bool {
        let record = &self.records[node];
        let Some((Request::Release { attempt, parting, .. }, _)) = self.clients[index].links[node].requests.front()
        else {
            return false;
        };
        let place = |ticket| record.queue.iter().find(|place| place.waiter.ticket == ticket);
        let parts = match parting {
            Some(Parting::Leave(waiter)) => place(waiter.ticket).is_some(),
            Some(Parting::Yield(waiter)) => place(waiter.ticket).is_some_and(|place| place.request.is_some()),
            None => false,
        };
        let is_own = record.vote.as_ref().is_some_and(|vote| vote.attempt == *attempt)
            || record.entries.iter().any(|entry| entry.attempt == *attempt);
        !parts && !is_own
    }
}
