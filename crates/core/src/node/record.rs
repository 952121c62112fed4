//! What a node stores for one name.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::fence::Fence;
use crate::name::{LeaseId, OwnerId};
use crate::node::restart::{Constants, Epoch};
use crate::node::time::NodeTime;
use crate::request::{Request, Ticket, Waiter};
use crate::terms::{HeldMode, Mode};

/// The least time that a node keeps a fence after the last lease of a name. Fences expire so that unused names do not
/// accumulate.
pub const FENCE_RETENTION_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns how long a node keeps a fence: until every node's clock has certainly passed the fence.
pub fn retention_millis(constants: &Constants) -> u64 {
    let four_skews = constants.max_skew_micros.saturating_mul(4) / 1_000;
    (FENCE_RETENTION_MIN.as_millis() as u64).max(constants.max_ttl_millis.saturating_add(four_skews))
}

/// A vote that a node has given and that has not expired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VoteNote {
    /// The attempt that signed the vote: the holder's attempt, or that of the first entry.
    pub attempt: LeaseId,
    /// How the lock is held.
    pub held_mode: HeldMode,
    /// The last millisecond of the vote. If there are entries, the last millisecond of the entry that ends last.
    pub until: u64,
}

/// One holder's entry in a lock that allows several holders or re-entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The attempt that entered.
    pub attempt: LeaseId,
    /// The owner, for modes that have one.
    pub owner: Option<OwnerId>,
    /// The slot, for a semaphore.
    pub slot: Option<u32>,
    /// The fence that this node granted, or the lease's fence if the entry was repaired.
    pub fence: Fence,
    /// The last millisecond of the entry.
    pub until: u64,
}

/// A position in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueuedWaiter {
    /// The waiter.
    pub waiter: Waiter,
    /// The last millisecond of the position, unless the waiter asks again.
    pub until: u64,
    /// The last request of a waiter for an exclusive lock, and its epoch. The node grants this request by
    /// a handoff when the waiter is first and the vote is free.
    pub request: Option<(Epoch, Request)>,
}

/// The highest fence of a name, and the client that received it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FenceNote {
    /// The fence.
    pub fence: Fence,
    /// The attempt that signed the vote with this fence. If another attempt signed the current vote, the holder is
    /// unknown.
    pub by: LeaseId,
    /// The start of the vote, by the node's wall clock.
    pub since_micros: u64,
    /// The ticket of the client that received the fence, if the client had one.
    pub ticket: Option<Ticket>,
    /// The holder, as text for people.
    pub holder: String,
    /// The last millisecond in which the node keeps the fence.
    pub until: u64,
}

/// What a node stores for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The current vote.
    pub vote: Option<VoteNote>,
    /// The current entries; empty if the vote is exclusive. There is no entry without a vote.
    pub entries: Vec<Entry>,
    /// The highest fence.
    pub fence: Option<FenceNote>,
    /// The waiters, lowest ticket first.
    pub queue: Vec<QueuedWaiter>,
    /// Attempts that are over, each with the last millisecond in which the node refuses its requests.
    pub tombstones: BTreeMap<LeaseId, u64>,
    /// Retired owners (all entries of each were released at once), each with the last millisecond in which the node
    /// refuses its requests for this name.
    pub retired: BTreeMap<OwnerId, u64>,
}

impl Record {
    /// Removes votes, fences and queue positions that have expired. As in Redis, a value still exists in the
    /// millisecond in which it expires.
    pub fn remove_expired(&mut self, now: NodeTime) {
        let is_expired = |until: u64| now.life_millis > until;
        self.vote.take_if(|vote| is_expired(vote.until));
        self.entries.retain(|entry| !is_expired(entry.until));
        if self.vote.is_none() {
            // The held mode ended with its vote. The entries must not carry over to the next vote.
            self.entries.clear();
        }
        self.fence.take_if(|fence| is_expired(fence.until));
        self.queue.retain(|queued| !is_expired(queued.until));
    }

    /// Removes expired tombstones. This is separate from [`remove_expired`](Self::remove_expired) because
    /// there may be many tombstones, and a request needs only those of its own attempt and owner.
    pub fn sweep_tombstones(&mut self, now: NodeTime) {
        self.tombstones.retain(|_, until| now.life_millis <= *until);
        self.retired.retain(|_, until| now.life_millis <= *until);
    }

    /// Removes the stored requests of all waiters. The waiters then get hints instead of handoffs.
    pub fn forget_requests(&mut self) {
        self.queue.iter_mut().for_each(|queued| queued.request = None);
    }

    /// Returns whether the record contains nothing but tombstones.
    pub fn is_empty(&self) -> bool {
        self.vote.is_none() && self.fence.is_none() && self.queue.is_empty()
    }

    /// Returns the highest stored fence, or zero.
    pub(super) fn stored_fence(&self) -> Fence {
        self.fence.as_ref().map(|note| note.fence).unwrap_or_default()
    }

    /// Refuses requests of this attempt at least until `until`.
    pub(super) fn add_tombstone(&mut self, attempt: LeaseId, until: u64) {
        let stored_until = self.tombstones.entry(attempt).or_default();
        *stored_until = until.max(*stored_until);
    }

    /// Refuses requests of this owner at least until `until`.
    pub(super) fn retire(&mut self, owner: OwnerId, until: u64) {
        let stored_until = self.retired.entry(owner).or_default();
        *stored_until = until.max(*stored_until);
    }

    /// Returns whether the attempt has a tombstone.
    pub(super) fn has_tombstone(&self, attempt: LeaseId, now: NodeTime) -> bool {
        self.tombstones.get(&attempt).is_some_and(|until| now.life_millis <= *until)
    }

    /// Returns whether the node refuses the owner, because the owner was retired.
    pub(super) fn is_retired(&self, owner: OwnerId, now: NodeTime) -> bool {
        self.retired.get(&owner).is_some_and(|until| now.life_millis <= *until)
    }

    /// Returns whether this node's vote is for the attempt.
    pub(super) fn has_vote(&self, attempt: LeaseId) -> bool {
        self.vote.as_ref().is_some_and(|vote| match vote.held_mode {
            HeldMode::Exclusive => vote.attempt == attempt,
            HeldMode::Reentrant(_) | HeldMode::Shared | HeldMode::Slots(_) => self.entry(attempt).is_some(),
        })
    }

    /// Returns the fence that was granted with the current vote, if the vote has one.
    pub(super) fn fence_of_vote(&self) -> Option<&FenceNote> {
        let vote = self.vote.as_ref()?;
        self.fence.as_ref().filter(|note| note.by == vote.attempt)
    }

    pub(super) fn entry(&self, attempt: LeaseId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.attempt == attempt)
    }

    /// Returns the fence of a reader's existing entries, if the reader may re-enter with that fence.
    pub(super) fn fence_of_reader(&self, mode: Mode) -> Option<Fence> {
        let Mode::Shared { owner, reenters: true } = mode else { return None };
        let is_shared = self.vote.as_ref().is_some_and(|vote| vote.held_mode == HeldMode::Shared);
        let own = self.entries.iter().filter(|entry| is_shared && entry.owner == Some(owner));
        own.map(|entry| entry.fence).max()
    }

    /// Returns the free slots, in search order from `start`.
    pub(super) fn free_slots(&self, permits: u32, start: u32) -> impl Iterator<Item = u32> + '_ {
        let start = start.checked_rem(permits).unwrap_or(0);
        let all = (start..permits).chain(0..start);
        all.filter(|slot| self.entries.iter().all(|entry| entry.slot != Some(*slot)))
    }
}
