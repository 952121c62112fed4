//! What a node stores for one name.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::fence::Fence;
use crate::mode::{Mode, OwnerId, Period};
use crate::name::LeaseId;
use crate::node::restart::{Constants, Epoch};
use crate::node::time::NodeTime;
use crate::ticket::{Ticket, Waiter};
use crate::vote::Request;

/// Fences are kept at least this long after the last lease of a name, so that nothing piles up for ever.
pub const FENCE_RETENTION_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a fence is kept: long enough for the clocks to be past it when it goes.
pub fn retention_millis(constants: &Constants) -> u64 {
    let four_sigma = constants.max_skew_micros.saturating_mul(4) / 1_000;
    (FENCE_RETENTION_MIN.as_millis() as u64).max(constants.max_ttl_millis.saturating_add(four_sigma))
}

/// A vote that stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VoteNote {
    /// Who signed it: the holder, or the first of the entries that the period began with.
    pub attempt: LeaseId,
    /// How it is held.
    pub period: Period,
    /// The last millisecond in which it stands: that of the last entry, if it has entries.
    pub until: u64,
}

/// One entering of a lock that several may hold at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The attempt that entered.
    pub attempt: LeaseId,
    /// Whose it is, where that matters.
    pub owner: Option<OwnerId>,
    /// The slot that it is in, of a semaphore.
    pub slot: Option<u32>,
    /// The fence that it was given here, or that its lease had when it was given again.
    pub fence: Fence,
    /// The last millisecond in which it stands.
    pub until: u64,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Whose.
    pub waiter: Waiter,
    /// The last millisecond in which it is kept, unless the waiter asks again.
    pub until: u64,
    /// The last request of a waiter for an exclusive lock, and the epoch that it was for. The node grants it without
    /// another request when the waiter is first and the vote is free.
    pub request: Option<(Epoch, Request)>,
}

/// The highest fence of a name, and who got it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FenceNote {
    /// The number.
    pub fence: Fence,
    /// Who signed the vote that it was given under. If the standing vote is another's, the holder is unknown.
    pub by: LeaseId,
    /// Since when, by the node's wall clock.
    pub since_micros: u64,
    /// The ticket that it was given to, if there was one.
    pub ticket: Option<Ticket>,
    /// Who, as text for people.
    pub holder: String,
    /// The last millisecond in which it is kept.
    pub until: u64,
}

/// What a node stores for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The vote that stands.
    pub vote: Option<VoteNote>,
    /// Who has entered, unless the vote is exclusive. There is no entry without a vote.
    pub entries: Vec<Entry>,
    /// The highest fence.
    pub fence: Option<FenceNote>,
    /// Who waits, lowest ticket first.
    pub queue: Vec<Place>,
    /// Attempts that are over, each with the last millisecond in which the node refuses its requests. An attempt asks for
    /// one name only.
    pub tombstones: BTreeMap<LeaseId, u64>,
    /// Owners that were retired from this name, each with the last millisecond in which the node refuses its requests.
    pub retired: BTreeMap<OwnerId, u64>,
}

impl Record {
    /// Forgets votes, fences and places that have lapsed. Like Redis, a thing is still there in the millisecond in which
    /// it ends.
    pub fn lapse(&mut self, now: NodeTime) {
        let gone = |until: u64| now.life_millis > until;
        self.vote.take_if(|vote| gone(vote.until));
        self.entries.retain(|entry| !gone(entry.until));
        if self.vote.is_none() {
            // Whatever ended the vote, it ended the period: nobody comes back with the next one.
            self.entries.clear();
        }
        self.fence.take_if(|fence| gone(fence.until));
        self.queue.retain(|place| !gone(place.until));
    }

    /// Forgets tombstones that have lapsed. There may be many: the rules only look at those of the asker.
    pub fn sweep_tombstones(&mut self, now: NodeTime) {
        self.tombstones.retain(|_, until| now.life_millis <= *until);
        self.retired.retain(|_, until| now.life_millis <= *until);
    }

    /// Forgets what those in the queue wait for: they are given hints, and ask themselves.
    pub fn forget_requests(&mut self) {
        self.queue.iter_mut().for_each(|place| place.request = None);
    }

    /// Whether there is nothing to remember but tombstones.
    pub fn is_empty(&self) -> bool {
        self.vote.is_none() && self.fence.is_none() && self.queue.is_empty()
    }

    /// The highest fence that is stored; zero for none.
    pub(super) fn stored_fence(&self) -> Fence {
        self.fence.as_ref().map(|note| note.fence).unwrap_or_default()
    }

    /// Refuses requests of this attempt until then, at least.
    pub(super) fn bury(&mut self, attempt: LeaseId, until: u64) {
        let known = self.tombstones.entry(attempt).or_default();
        *known = until.max(*known);
    }

    /// Refuses requests of this owner until then, at least.
    pub(super) fn retire(&mut self, owner: OwnerId, until: u64) {
        let known = self.retired.entry(owner).or_default();
        *known = until.max(*known);
    }

    /// Whether an attempt is over.
    pub(super) fn is_over(&self, attempt: LeaseId, now: NodeTime) -> bool {
        self.tombstones.get(&attempt).is_some_and(|until| now.life_millis <= *until)
    }

    /// Whether the node refuses an owner.
    pub(super) fn is_retired(&self, owner: OwnerId, now: NodeTime) -> bool {
        self.retired.get(&owner).is_some_and(|until| now.life_millis <= *until)
    }

    /// Whether this attempt has a vote here.
    pub(super) fn is_own(&self, attempt: LeaseId) -> bool {
        self.vote.as_ref().is_some_and(|vote| match vote.period {
            Period::Exclusive => vote.attempt == attempt,
            Period::Reentrant(_) | Period::Shared | Period::Slots(_) => self.entry(attempt).is_some(),
        })
    }

    /// The fence that was given under the vote that stands, if one was.
    pub(super) fn fence_of_vote(&self) -> Option<&FenceNote> {
        let vote = self.vote.as_ref()?;
        self.fence.as_ref().filter(|note| note.by == vote.attempt)
    }

    pub(super) fn entry(&self, attempt: LeaseId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.attempt == attempt)
    }

    /// The fence of a reader's entries here, if it has any and may read again with it.
    pub(super) fn fence_of_reader(&self, mode: Mode) -> Option<Fence> {
        let Mode::Shared { owner, reenters: true } = mode else { return None };
        let is_shared = self.vote.as_ref().is_some_and(|vote| vote.period == Period::Shared);
        let own = self.entries.iter().filter(|entry| is_shared && entry.owner == Some(owner));
        own.map(|entry| entry.fence).max()
    }

    /// The slots that nobody has, in the order of looking from `start`.
    pub(super) fn free_slots(&self, permits: u32, start: u32) -> impl Iterator<Item = u32> + '_ {
        let start = start.checked_rem(permits).unwrap_or(0);
        let all = (start..permits).chain(0..start);
        all.filter(|slot| self.entries.iter().all(|entry| entry.slot != Some(*slot)))
    }
}
