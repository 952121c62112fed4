//! A model of a node: the holders, the waiters, and the expiry of each vote and queue position.

extern crate std;

use std::collections::BTreeMap;

use super::*;

/// The vote of one client that has not expired.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentVote {
    pub(super) until_ms: u64,
    pub(super) slot: Option<u32>,
    pub(super) fence: u64,
}

pub(super) struct Model {
    /// Each client's mode. A client is an index into this list.
    pub(super) modes: Vec<Mode>,
    /// Each client's ticket.
    pub(super) tickets: Vec<u64>,
    /// The current votes, by client.
    pub(super) votes: BTreeMap<usize, CurrentVote>,
    /// The last millisecond in which a broken vote excludes every client.
    pub(super) drains_until_ms: Option<u64>,
    /// Each client's current attempt. A client continues with a new attempt after its old one was broken.
    pub(super) attempts: Vec<u128>,
    /// The waiters, by ticket: the client, and the last millisecond of its queue position.
    pub(super) queue: BTreeMap<u64, (usize, u64)>,
    /// The lease that each fence was granted to: the client, and the number of its lease, from 1.
    pub(super) fences: BTreeMap<u64, (usize, u64)>,
    /// The number of leases that each client has had.
    pub(super) lease_counts: Vec<u64>,
}

/// The kind of a vote, without its details.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum VoteKind {
    Grant,
    Held,
    Behind,
    Permits,
    Upgrade,
    Absent,
    Broken,
    Other,
}

impl VoteKind {
    pub(super) fn of(vote: &Vote) -> Self {
        match vote {
            Vote::Grant { .. } => Self::Grant,
            Vote::Refusal(Refusal::Held { .. }) => Self::Held,
            Vote::Refusal(Refusal::Behind { .. }) => Self::Behind,
            Vote::Refusal(Refusal::Permits { .. }) => Self::Permits,
            Vote::Refusal(Refusal::Upgrade) => Self::Upgrade,
            Vote::Refusal(Refusal::Absent) => Self::Absent,
            Vote::Broken { .. } => Self::Broken,
            Vote::Refusal(Refusal::Other { .. }) => Self::Other,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns whether clients with these modes may hold the lock at the same time. Two slots also need enough permits.
pub(super) fn can_share(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared { .. }, Mode::Shared { .. }) => true,
        (Mode::Reentrant { owner: one }, Mode::Reentrant { owner: other }) => one == other,
        (Mode::Slot { permits: one, .. }, Mode::Slot { permits: other, .. }) => one == other,
        _ => false,
    }
}

impl Model {
    pub(super) fn new(modes: &[Mode], tickets: Vec<u64>) -> Self {
        let (votes, drains_until_ms, queue, fences) = Default::default();
        let attempts = (1..=modes.len() as u128).collect();
        let lease_counts = alloc::vec![0; modes.len()];
        Self { modes: modes.to_vec(), tickets, votes, drains_until_ms, attempts, queue, fences, lease_counts }
    }

    pub(super) fn remove_expired(&mut self, now_ms: u64) {
        self.votes.retain(|_, vote| vote.until_ms >= now_ms);
        self.drains_until_ms.take_if(|until_ms| *until_ms < now_ms);
        self.queue.retain(|_, (_, until_ms)| *until_ms >= now_ms);
    }

    /// Returns the mode and the slot of every current vote, except the client's own.
    pub(super) fn other_votes(&self, client: usize) -> impl Iterator<Item = (Mode, Option<u32>)> + '_ {
        let others = self.votes.iter().filter(move |(other, _)| **other != client);
        others.map(|(other, vote)| (self.modes[*other], vote.slot))
    }

    /// Returns the highest fence of the reader's other entries, if the reader may re-enter with that fence.
    fn fence_of_reader(&self, client: usize) -> Option<u64> {
        let Mode::Shared { owner, reenters: true } = self.modes[client] else { return None };
        let has_same_owner = |mode: Mode| mode.is_shared() && mode.owner() == Some(owner);
        let own = self.votes.iter().filter(|(other, _)| **other != client && has_same_owner(self.modes[**other]));
        own.map(|(_, vote)| vote.fence).max()
    }

    /// Returns the number of free slots for a semaphore, and 1 for other modes. The mode must not conflict with the
    /// current votes.
    pub(super) fn free_permits(&self, mode: Mode) -> usize {
        match mode {
            Mode::Slot { permits, .. } => permits as usize - self.votes.len(),
            _ => 1,
        }
    }

    pub(super) fn predict_acquire(&self, client: usize, in_queue: bool) -> VoteKind {
        let mode = self.modes[client];
        if self.drains_until_ms.is_some() {
            return VoteKind::Held;
        }
        if self.votes.contains_key(&client) {
            return VoteKind::Grant;
        }
        if let Some((other, _)) = self.other_votes(client).find(|(other, _)| !can_share(mode, *other)) {
            let writer = match mode {
                Mode::Exclusive { writer } => writer,
                Mode::Reentrant { owner } => Some(owner),
                Mode::Shared { .. } | Mode::Slot { .. } => None,
            };
            let has_same_owner =
                |(other, _)| matches!((writer, other), (Some(writer), Mode::Shared { owner, .. }) if writer == owner);
            return match (mode, other) {
                (Mode::Slot { .. }, Mode::Slot { .. }) => VoteKind::Permits,
                _ if self.other_votes(client).any(has_same_owner) => VoteKind::Upgrade,
                _ => VoteKind::Held,
            };
        }
        let has_reentrant_entry = matches!(mode, Mode::Reentrant { .. }) && !self.votes.is_empty();
        if has_reentrant_entry || self.fence_of_reader(client).is_some() {
            return VoteKind::Grant;
        }
        let is_earlier = |ticket: &&u64| !in_queue || **ticket < self.tickets[client];
        let blocks = |ticket: &&u64| !(mode.is_shared() && self.modes[self.queue[*ticket].0].is_shared());
        let blocking = self.queue.keys().filter(is_earlier).filter(blocks).count();
        match self.free_permits(mode) {
            0 => VoteKind::Held,
            free if blocking >= free => VoteKind::Behind,
            _ => VoteKind::Grant,
        }
    }

    pub(super) fn predict_renewal(&self, client: usize, mode: Mode, repair: bool) -> VoteKind {
        let slot = match mode {
            Mode::Slot { slot, .. } => Some(slot),
            _ => None,
        };
        if self.drains_until_ms.is_some() {
            return VoteKind::Held;
        }
        let has_vote = self.votes.get(&client).is_some_and(|vote| vote.slot == slot);
        let is_possible =
            self.other_votes(client).all(|(other, taken)| can_share(mode, other) && (slot.is_none() || taken != slot));
        match (has_vote, is_possible, repair) {
            (true, ..) | (false, true, true) => VoteKind::Grant,
            (false, false, _) => VoteKind::Held,
            (false, true, false) => VoteKind::Absent,
        }
    }

    pub(super) fn predict_break(&self, stored_fence: Option<u64>, is_wrong_fence: bool) -> VoteKind {
        let is_taken = !self.votes.is_empty() || self.drains_until_ms.is_some();
        match (is_taken, stored_fence.is_some() && !is_wrong_fence) {
            (_, true) => VoteKind::Broken,
            (true, false) => VoteKind::Other,
            (false, false) => VoteKind::Absent,
        }
    }

    /// Removes all votes, and gives a new attempt to each client whose attempt has a tombstone on the node.
    pub(super) fn apply_break(&mut self, mode: BreakMode, has_tombstone: impl Fn(u128) -> bool) {
        let until_ms = self.votes.values().map(|vote| vote.until_ms).max().or(self.drains_until_ms);
        let broken = std::mem::take(&mut self.votes);
        let is_over = |client: &usize| has_tombstone(self.attempts[*client]);
        assert!(broken.keys().all(is_over), "a broken attempt has no tombstone");
        for attempt in self.attempts.iter_mut().filter(|attempt| has_tombstone(**attempt)) {
            *attempt += self.modes.len() as u128;
        }
        self.drains_until_ms = until_ms.filter(|_| mode == BreakMode::Drain);
    }

    /// Records a granted vote. `renewed_fence` is the fence of a renewal; the entry gets that fence if it is new.
    pub(super) fn record_vote(&mut self, client: usize, until_ms: u64, vote: &Vote, renewed_fence: Option<u64>) {
        let Vote::Grant { fence, slot } = vote else { return };
        let fence = renewed_fence.unwrap_or(fence.get());
        let slot = slot.as_ref().map(|GrantedSlot { index, free }| {
            let is_taken = |slot: u32| self.other_votes(client).any(|(_, taken)| taken == Some(slot));
            assert!(!is_taken(*index), "slot {index} was granted twice");
            assert!(!free.contains(index) && !free.iter().any(|slot| is_taken(*slot)), "{free:?} are not all free");
            *index
        });
        assert_eq!(slot.is_some(), matches!(self.modes[client], Mode::Slot { .. }));
        // A vote for another slot replaces the old vote, and keeps neither its expiry nor its fence.
        let old = self.votes.get(&client).filter(|old| old.slot == slot);
        let until_ms = old.map_or(until_ms, |old| old.until_ms.max(until_ms));
        let fence = old.filter(|_| renewed_fence.is_some()).map_or(fence, |old| old.fence);
        self.votes.insert(client, CurrentVote { until_ms, slot, fence });
    }

    /// Checks that a new lease has a higher fence than all earlier leases, and that no other lease gets that fence. A
    /// new entry of a reentrant owner, or of a reader that may re-enter, must get the fence of the existing entries.
    pub(super) fn check_fence(
        &mut self,
        client: usize,
        fence: u64,
        stored_fence: Option<u64>,
        had_vote: bool,
        was_free: bool,
    ) {
        if !had_vote {
            self.lease_counts[client] += 1;
        }
        let is_reentrant = matches!(self.modes[client], Mode::Reentrant { .. });
        if is_reentrant && !was_free {
            assert!(Some(fence) >= stored_fence, "the owner's fence decreased");
            assert!(had_vote || Some(fence) == stored_fence, "the owner's entries have different fences");
            return;
        }
        if let Some(own) = self.fence_of_reader(client).filter(|_| !had_vote) {
            assert_eq!(fence, own, "the reader's entries have different fences");
            return;
        }
        if !had_vote {
            assert!(self.fences.keys().all(|earlier| fence > *earlier), "an earlier fence is at least {fence}");
        }
        let lease = (client, self.lease_counts[client]);
        assert_eq!(*self.fences.entry(fence).or_insert(lease), lease, "another lease has the fence {fence}");
    }
}
