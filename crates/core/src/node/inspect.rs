//! Read-only views of a name's state.

use core::time::Duration;

use crate::digest::Digest;
use crate::name::{Holder, LeaseId};
use crate::node::record::{QueuedWaiter, Record};
use crate::node::time::NodeTime;
use crate::vote::{HeldBy, QUEUE_LISTED_MAX, Refusal, Report, Vote, Waiting};

/// Returns the current holder.
pub(super) fn held_by(record: &Record, now: NodeTime) -> Option<HeldBy> {
    let vote = record.vote.as_ref()?;
    let note = record.fence_of_vote();
    Some(HeldBy {
        holder: note.and_then(|note| Holder::decode(&note.holder)),
        remaining: Some(Duration::from_millis(vote.until - now.life_millis)),
        held_mode: vote.held_mode,
        holds: record.entries.len().max(1) as u32,
        digest: note.is_none().then(|| Digest::of(vote.attempt)),
        broken: Digest::from_broken_signature(vote.attempt).is_some(),
    })
}

/// Returns the state of a name.
pub(super) fn report(record: &Record, now: NodeTime) -> Report {
    Report {
        held: held_by(record, now),
        fence: record.stored_fence(),
        since_micros: record.fence.as_ref().map_or(0, |note| note.since_micros),
        waiting: record.queue.len() as u32,
        queue: record.queue.iter().take(QUEUE_LISTED_MAX).map(waiting).collect(),
    }
}

fn waiting(queued: &QueuedWaiter) -> Waiting {
    Waiting { since_micros: queued.waiter.ticket.at, shared: queued.waiter.shared }
}

/// Returns how long an attempt's vote will last, or the refusal if the attempt has no vote.
pub(super) fn check(record: &Record, attempt: LeaseId, slot: Option<u32>, now: NodeTime) -> Vote {
    if record.has_tombstone(attempt, now) {
        return Vote::Refusal(Refusal::Tombstoned);
    }
    let entry = record.entry(attempt);
    let until = match &record.vote {
        Some(vote) if record.has_vote(attempt) => entry.map_or(vote.until, |entry| entry.until),
        _ => return Vote::Refusal(Refusal::Absent),
    };
    if entry.and_then(|entry| entry.slot) != slot {
        return Vote::Refusal(Refusal::Absent);
    }
    Vote::Standing { remaining: Some(Duration::from_millis(until - now.life_millis)) }
}
