//! Breaking another client's lease.
//!
//! The attempts of the lease get tombstones, so that the node does not renew, repair or grant any of them again. In
//! drain mode the vote stays until it would have expired, but with a signature that no client has. Therefore neither
//! the old holder nor an owner or reader that joins later can extend the vote.

use alloc::vec::Vec;
use core::time::Duration;

use crate::digest::Digest;
use crate::name::{Holder, LeaseId};
use crate::node::answer::Answer;
use crate::node::record::{Record, VoteNote};
use crate::node::restart::Incarnation;
use crate::node::time::NodeTime;
use crate::request::{BreakMode, Target};
use crate::terms::HeldMode;
use crate::vote::{Refusal, Vote};

/// Breaks the target lease, if the vote still belongs to that lease.
pub(super) fn apply(life: &Incarnation, record: &mut Record, target: Target, mode: BreakMode, now: NodeTime) -> Answer {
    let Some(vote) = record.vote.as_ref() else { return prevent_repair(life, record, target, now) };
    if !is_target(record, vote, target) {
        let note = record.fence_of_vote();
        return Refusal::Other {
            fence: note.map(|note| note.fence),
            digest: Digest::of(vote.attempt),
            holder: note.and_then(|note| Holder::decode(&note.holder)),
        }
        .into();
    }
    let (digest, until) = (Digest::of(vote.attempt), vote.until);
    let attempts = match vote.held_mode {
        HeldMode::Exclusive => Vec::from([vote.attempt]),
        HeldMode::Reentrant(_) | HeldMode::Shared | HeldMode::Slots(_) => {
            record.entries.iter().map(|entry| entry.attempt).collect()
        }
    };
    let had_fence = record.fence_of_vote().is_some();
    if let Some(note) = record.fence.as_mut().filter(|_| had_fence) {
        note.by = digest.broken_signature();
        // Waiters must not yield to a broken lease.
        note.ticket = None;
    }
    record.entries.clear();
    let (remaining, hint) = match mode {
        BreakMode::Drain => {
            record.vote = Some(VoteNote { attempt: digest.broken_signature(), held_mode: HeldMode::Exclusive, until });
            (Duration::from_millis(until - now.life_millis), None)
        }
        BreakMode::Now => {
            record.vote = None;
            (Duration::ZERO, record.hint())
        }
    };
    add_tombstones(life, record, attempts, now);
    Answer { hint, ..Vote::Broken { digest, stood: true, remaining }.into() }
}

/// Returns whether this vote is the target.
fn is_target(record: &Record, vote: &VoteNote, target: Target) -> bool {
    let note = record.fence_of_vote();
    match target {
        Target::Fence(fence) => note.is_some_and(|note| note.fence == fence),
        // A digest identifies the attempt that began a held mode, but not the entries that joined later.
        Target::Digest(digest) => {
            digest == Digest::of(vote.attempt) && (vote.held_mode == HeldMode::Exclusive || note.is_none())
        }
    }
}

/// Handles a break on a node without a vote. If the target was the last lease, prevents its repair on this node.
fn prevent_repair(life: &Incarnation, record: &mut Record, target: Target, now: NodeTime) -> Answer {
    let note = record.fence.as_ref().filter(|note| target == Target::Fence(note.fence));
    let Some(note) = note else { return Refusal::Absent.into() };
    let by = note.by;
    add_tombstones(life, record, [by], now);
    Vote::Broken {
        digest: Digest::of(by),
        stood: Digest::from_broken_signature(by).is_some(),
        remaining: Duration::ZERO,
    }
    .into()
}

/// Adds tombstones that last as long as requests of these attempts may be in flight. Skips attempts that were broken
/// before, because they have tombstones already.
fn add_tombstones(life: &Incarnation, record: &mut Record, attempts: impl IntoIterator<Item = LeaseId>, now: NodeTime) {
    let until = now.life_millis.saturating_add(life.constants.max_ttl_millis);
    for attempt in attempts.into_iter().filter(|attempt| Digest::from_broken_signature(*attempt).is_none()) {
        record.add_tombstone(attempt, until);
    }
}
