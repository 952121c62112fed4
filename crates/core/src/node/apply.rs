//! A node's rules for one name.

use core::time::Duration;

use crate::fence::Fence;
use crate::name::{Holder, LeaseId};
use crate::node::record::{FenceNote, NodeTime, Record, VoteNote, retention_millis};
use crate::node::{Epoch, Incarnation};
use crate::time::Ttl;
use crate::vote::{Refusal, Request, Vote};

/// Carries out a request, atomically, and votes.
///
/// `epoch` is the life of the node that the client shook hands with: unless it is still this one, and ripe, the node has
/// nothing to say. Releases are exempt, since taking back a vote is right in any life.
pub fn apply(life: &Incarnation, record: &mut Record, request: &Request, epoch: Epoch, now: NodeTime) -> Vote {
    record.lapse(now);
    let floor = match life.floor {
        Some(floor) if life.epoch == Some(epoch) => floor,
        _ if !request.may_grant() => Fence::default(),
        _ => return Vote::Refusal(Refusal::WrongEpoch),
    };
    match request {
        Request::Acquire { attempt, proposal, ttl, holder } => {
            acquire(life, floor, record, &Bid { attempt: *attempt, fence: *proposal, ttl: *ttl, holder }, now)
        }
        Request::Renew { attempt, fence, ttl, repair, holder } => {
            renew(life, record, &Bid { attempt: *attempt, fence: *fence, ttl: *ttl, holder }, *repair, now)
        }
        Request::Release { attempt, tombstone } => {
            let vote = release(record, *attempt);
            if let Some(millis) = tombstone {
                record.tombstone = record.tombstone.max(Some(now.life_millis.saturating_add(*millis)));
            }
            vote
        }
        // The page's commands tell no more than yes or no.
        Request::PlainAcquire { .. } if record.vote.is_some() => {
            Vote::Refusal(Refusal::Held { holder: None, remaining: None, fence: Fence::default() })
        }
        Request::PlainAcquire { attempt, ttl } => {
            stand(record, *attempt, now.life_millis.saturating_add(ttl.as_millis()), Fence::default())
        }
        Request::PlainExtend { attempt, ttl } if is_own(record, *attempt) => {
            stand(record, *attempt, now.life_millis.saturating_add(ttl.as_millis()), Fence::default())
        }
        Request::PlainExtend { .. } => Vote::Refusal(Refusal::Absent),
        Request::PlainRelease { attempt } => release(record, *attempt),
    }
}

struct Bid<'a> {
    attempt: LeaseId,
    fence: Fence,
    ttl: Ttl,
    holder: &'a str,
}

fn acquire(life: &Incarnation, floor: Fence, record: &mut Record, bid: &Bid<'_>, now: NodeTime) -> Vote {
    if let Some(refusal) = obstacle(record, bid.attempt, now) {
        return Vote::Refusal(refusal);
    }
    if is_too_far_ahead(life, record, bid.fence, now) {
        return Vote::Refusal(Refusal::TooFarAhead);
    }
    let sigma = life.constants.sigma_micros;
    let stored = record.fence.as_ref().map(|note| note.fence);
    let fence = match stored {
        Some(stored) if is_own(record, bid.attempt) => bid.fence.max(stored),
        // There is no fence above the last one.
        Some(Fence::MAX) => return Vote::Refusal(Refusal::TooFarAhead),
        Some(stored) => bid.fence.max(floor).max(stored.next()),
        // The clock enters only where nothing is stored: otherwise every round would end unequal.
        None => bid.fence.max(floor).max(Fence::new(now.wall_micros.saturating_sub(sigma))),
    };
    grant(life, record, bid, fence, now)
}

fn renew(life: &Incarnation, record: &mut Record, bid: &Bid<'_>, repair: bool, now: NodeTime) -> Vote {
    if let Some(refusal) = obstacle(record, bid.attempt, now) {
        return Vote::Refusal(refusal);
    }
    let is_own = is_own(record, bid.attempt);
    if !is_own && !repair {
        return Vote::Refusal(Refusal::Absent);
    }
    let keeps_its_fence = is_own && record.fence.is_some();
    if !keeps_its_fence && is_too_far_ahead(life, record, bid.fence, now) {
        return Vote::Refusal(Refusal::TooFarAhead);
    }
    let fence = match &record.fence {
        // The seal has seen to it that a majority carries the lease's fence: a renewal need not raise anything.
        Some(note) if is_own => note.fence,
        Some(note) => note.fence.max(bid.fence),
        None => bid.fence,
    };
    grant(life, record, bid, fence, now)
}

/// What keeps an attempt from getting a vote, whatever it offers.
fn obstacle(record: &Record, attempt: LeaseId, now: NodeTime) -> Option<Refusal> {
    if record.tombstone.is_some() {
        return Some(Refusal::Tombstoned);
    }
    if is_own(record, attempt) { None } else { held(record, now) }
}

fn held(record: &Record, now: NodeTime) -> Option<Refusal> {
    let vote = record.vote.as_ref()?;
    let note = record.fence.as_ref();
    Some(Refusal::Held {
        holder: note.filter(|note| note.by == vote.attempt).and_then(|note| Holder::decode(&note.holder)),
        remaining: Some(Duration::from_millis(vote.until - now.life_millis)),
        fence: note.map(|note| note.fence).unwrap_or_default(),
    })
}

fn is_own(record: &Record, attempt: LeaseId) -> bool {
    record.vote.as_ref().is_some_and(|vote| vote.attempt == attempt)
}

fn is_too_far_ahead(life: &Incarnation, record: &Record, fence: Fence, now: NodeTime) -> bool {
    let clock = Fence::new(now.wall_micros.saturating_add(life.constants.sigma_micros));
    let stored = record.fence.as_ref().map(|note| note.fence.next()).unwrap_or_default();
    fence > clock.max(stored)
}

fn grant(life: &Incarnation, record: &mut Record, bid: &Bid<'_>, fence: Fence, now: NodeTime) -> Vote {
    let before = record.vote.as_ref().filter(|vote| vote.attempt == bid.attempt);
    let until = now.life_millis.saturating_add(bid.ttl.as_millis()).max(before.map_or(0, |vote| vote.until));
    let since = record.fence.as_ref().filter(|note| before.is_some() && note.by == bid.attempt);
    record.fence = Some(FenceNote {
        fence,
        by: bid.attempt,
        since_micros: since.map_or(now.wall_micros, |note| note.since_micros),
        holder: bid.holder.into(),
        until: now.life_millis.saturating_add(retention_millis(&life.constants)),
    });
    stand(record, bid.attempt, until, fence)
}

fn stand(record: &mut Record, attempt: LeaseId, until: u64, fence: Fence) -> Vote {
    record.vote = Some(VoteNote { attempt, until });
    Vote::Grant { fence }
}

fn release(record: &mut Record, attempt: LeaseId) -> Vote {
    if !is_own(record, attempt) {
        return Vote::Refusal(Refusal::Absent);
    }
    record.vote = None;
    Vote::Grant { fence: Fence::default() }
}
