//! A node's rules for one name.

use alloc::boxed::Box;

use crate::digest::Digest;
use crate::fence::Fence;
use crate::name::{Channel, LeaseId, OwnerId};
use crate::node::answer::Answer;
use crate::node::breaking;
use crate::node::inspect::{check, held_by, report};
use crate::node::record::{Entry, FenceNote, Record, VoteNote, retention_millis};
use crate::node::restart::{Epoch, Incarnation};
use crate::node::time::NodeTime;
use crate::request::{Parting, Request, Waiter};
use crate::terms::{HeldMode, Mode};
use crate::time::Ttl;
use crate::vote::{FREE_LISTED_MAX, GrantedSlot, Handoff, HeldBy, QueuePosition, Refusal, Vote};

/// Applies a request atomically and returns the node's vote.
///
/// `epoch` names the incarnation (the life of the node's memory) that the client saw in its handshake. The node refuses
/// the request unless `epoch` is its current epoch and the node may vote. Releases and inspections are exempt: they are
/// correct in any epoch.
///
/// If the request frees the vote and the node can notify the first waiter, the node grants the vote to that waiter
/// without another request (a handoff). `can_hear` returns whether a client listens on the waiter's channel.
pub fn apply(
    life: &Incarnation,
    record: &mut Record,
    request: &Request,
    epoch: Epoch,
    now: NodeTime,
    can_hear: impl FnOnce(Channel) -> bool,
) -> Answer {
    let answer = answer(life, record, request, epoch, now);
    let waiter = answer.hint.filter(|waiter| can_hear(waiter.channel));
    let handoff = waiter.and_then(|waiter| hand_on(life, record, waiter, now));
    Answer { handoff, ..answer }
}

/// Applies the last request of the first waiter, as if the request arrived now. Returns `None` if the node does not
/// grant the request; the waiter then gets only the hint.
///
/// Call this function only for a waiter that can be notified: any other waiter would hold a vote without knowing.
fn hand_on(life: &Incarnation, record: &mut Record, waiter: Waiter, now: NodeTime) -> Option<Handoff> {
    let (epoch, request) = record.next_request(waiter)?.clone();
    match answer(life, record, &request, epoch, now).vote {
        Vote::Grant { fence, .. } => Some(Handoff { attempt: Digest::of(request.attempt()), fence }),
        _ => None,
    }
}

/// Applies a request without a handoff.
pub(super) fn answer(
    life: &Incarnation,
    record: &mut Record,
    request: &Request,
    epoch: Epoch,
    now: NodeTime,
) -> Answer {
    record.remove_expired(now);
    let floor = match life.floor {
        Some(floor) if life.epoch == Some(epoch) => floor,
        _ if !request.needs_epoch() => Fence::default(),
        _ => return Refusal::WrongEpoch.into(),
    };
    dispatch(life, floor, record, request, now)
}

fn dispatch(life: &Incarnation, floor: Fence, record: &mut Record, request: &Request, now: NodeTime) -> Answer {
    match request {
        Request::Acquire { attempt, proposal, ttl, holder, mode, waiter } => {
            let bid = Bid { attempt: *attempt, fence: *proposal, ttl: *ttl, holder, mode: *mode, waiter: *waiter };
            acquire(life, floor, record, &bid, request, now)
        }
        Request::Renew { attempt, fence, ttl, repair, holder, mode } => {
            let bid = Bid { attempt: *attempt, fence: *fence, ttl: *ttl, holder, mode: *mode, waiter: None };
            renew(life, record, &bid, *repair, now).into()
        }
        Request::Release { attempt, tombstone, parting } => {
            let answer = release(record, *attempt, *parting, now);
            if let Some(millis) = tombstone {
                record.add_tombstone(*attempt, now.life_millis.saturating_add(*millis));
            }
            answer
        }
        Request::Retire { owner, tombstone } => {
            let answer = retire(record, *owner);
            record.retire(*owner, now.life_millis.saturating_add(*tombstone));
            answer
        }
        Request::Break { target, mode } => breaking::apply(life, record, *target, *mode, now),
        Request::Inspect => Vote::Report(Box::new(report(record, now))).into(),
        Request::Check { attempt, slot } => check(record, *attempt, *slot, now).into(),
        // The commands of the Redlock page answer only yes or no.
        Request::PlainAcquire { .. } if record.vote.is_some() => {
            let (holder, remaining, fence, queue) = (None, None, Fence::default(), QueuePosition::default());
            Refusal::Held { holder, remaining, fence, queue }.into()
        }
        Request::PlainAcquire { attempt, ttl } => store_plain_vote(record, *attempt, *ttl, now).into(),
        Request::PlainExtend { attempt, ttl } if is_exclusive(record, *attempt) => {
            store_plain_vote(record, *attempt, *ttl, now).into()
        }
        Request::PlainRelease { attempt } if is_exclusive(record, *attempt) => {
            record.vote = None;
            Vote::grant(Fence::default()).into()
        }
        Request::PlainExtend { .. } | Request::PlainRelease { .. } => Refusal::Absent.into(),
    }
}

/// The parts of an acquire or a renewal that decide about its vote.
struct Bid<'a> {
    attempt: LeaseId,
    fence: Fence,
    ttl: Ttl,
    holder: &'a str,
    mode: Mode,
    waiter: Option<Waiter>,
}

/// How the current vote affects a request of another attempt.
enum Admission {
    /// Only the queue can prevent a grant.
    Open,
    /// The owner already has an entry, so the queue does not apply.
    Reentry,
    /// Another client holds the vote.
    Held,
    /// Waiting cannot help: the client must not join the queue.
    Refused(Refusal),
}

fn acquire(
    life: &Incarnation,
    floor: Fence,
    record: &mut Record,
    bid: &Bid<'_>,
    request: &Request,
    now: NodeTime,
) -> Answer {
    if let Some(refusal) = refused_for_good(record, bid, now) {
        return refusal.into();
    }
    let has_vote = record.has_vote(bid.attempt);
    let admission = if has_vote { Admission::Open } else { admit(record, bid.mode) };
    let is_held = matches!(admission, Admission::Held);
    match admission {
        Admission::Refused(refusal) => return refusal.into(),
        Admission::Open if has_vote || !is_behind(record, bid) => {}
        Admission::Reentry => {}
        Admission::Open | Admission::Held => {
            return match enqueue(life, record, bid, request, now) {
                Ok(queue) if is_held => held(record, queue, now).into(),
                Ok(queue) => Refusal::Behind { fence: record.stored_fence(), queue }.into(),
                Err(refusal) => refusal.into(),
            };
        }
    }
    let is_reentry = matches!(admission, Admission::Reentry);
    let stored = record.fence.as_ref().map(|note| note.fence);
    let fence = match stored {
        // All entries of an owner share one fence. Other readers may have received higher fences since.
        Some(stored) if is_reentry => record.fence_of_reader(bid.mode).unwrap_or(stored),
        _ if is_too_far_ahead(life, record, bid.fence, now) => return Refusal::TooFarAhead.into(),
        // No other client can have received a fence since this vote, so a request that is repeated after a lost reply
        // gets the same fence. A seal (a request with a higher fence) raises the fence.
        Some(stored) if has_vote && !bid.mode.allows_several_holders() => bid.fence.max(stored),
        // There is no higher fence.
        Some(Fence::MAX) => return Refusal::TooFarAhead.into(),
        Some(stored) => bid.fence.max(floor).max(stored.next()),
        // Use the clock only if no fence is stored. If the clock were always used, the nodes would grant different
        // fences in every round.
        None => {
            let clock = now.wall_micros.saturating_sub(life.constants.max_skew_micros);
            bid.fence.max(floor).max(Fence::new(clock))
        }
    };
    let vote = grant(life, record, bid, (fence, fence), has_vote || is_reentry, now);
    if let Some(waiter) = bid.waiter {
        record.leave_queue(waiter.ticket);
    }
    // After a new entry, the next waiter may be able to enter too.
    let hint = if has_vote || is_reentry || record.entries.is_empty() { None } else { record.hint() };
    Answer { hint, ..vote.into() }
}

/// Returns the refusal for an attempt with a tombstone, or for a retired owner.
fn refused_for_good(record: &Record, bid: &Bid<'_>, now: NodeTime) -> Option<Refusal> {
    if record.has_tombstone(bid.attempt, now) {
        return Some(Refusal::Tombstoned);
    }
    let is_retired = bid.mode.owner().is_some_and(|owner| record.is_retired(owner, now));
    is_retired.then_some(Refusal::Retired)
}

/// Puts the client in the queue. The node also stores an exclusive request, to grant the request by a handoff later.
fn enqueue(
    life: &Incarnation,
    record: &mut Record,
    bid: &Bid<'_>,
    request: &Request,
    now: NodeTime,
) -> Result<QueuePosition, Refusal> {
    let queue = record.enqueue(bid.mode, bid.waiter, now)?;
    if let (Some(waiter), Some(epoch)) = (bid.waiter, life.epoch) {
        record.keep_request(waiter.ticket, (bid.mode == Mode::EXCLUSIVE).then(|| (epoch, request.clone())));
    }
    Ok(queue)
}

fn admit(record: &Record, mode: Mode) -> Admission {
    let Some(vote) = &record.vote else { return Admission::Open };
    match (vote.held_mode, mode) {
        (HeldMode::Reentrant(current), Mode::Reentrant { owner }) if current == owner => Admission::Reentry,
        (HeldMode::Shared, Mode::Shared { .. }) if record.fence_of_reader(mode).is_some() => Admission::Reentry,
        (HeldMode::Shared, Mode::Shared { .. }) => Admission::Open,
        (HeldMode::Shared, Mode::Exclusive { writer: Some(owner) } | Mode::Reentrant { owner })
            if record.entries.iter().any(|entry| entry.owner == Some(owner)) =>
        {
            Admission::Refused(Refusal::Upgrade)
        }
        (HeldMode::Slots(stored), Mode::Slot { permits, .. }) if stored != permits => {
            Admission::Refused(Refusal::Permits { stored })
        }
        (HeldMode::Slots(permits), Mode::Slot { .. }) if record.entries.len() < permits as usize => Admission::Open,
        _ => Admission::Held,
    }
}

/// Returns whether earlier waiters need the free vote, or all free slots.
fn is_behind(record: &Record, bid: &Bid<'_>) -> bool {
    let free = match bid.mode {
        Mode::Slot { permits, .. } => (permits as usize).saturating_sub(record.entries.len()),
        Mode::Exclusive { .. } | Mode::Reentrant { .. } | Mode::Shared { .. } => 1,
    };
    record.count_blocking(bid.mode, bid.waiter.map(|waiter| waiter.ticket)) >= free
}

fn renew(life: &Incarnation, record: &mut Record, bid: &Bid<'_>, repair: bool, now: NodeTime) -> Vote {
    if let Some(refusal) = refused_for_good(record, bid, now) {
        return Vote::Refusal(refusal);
    }
    let can_renew = record.has_vote(bid.attempt) && is_in_its_slot(record, bid);
    if !can_renew && !is_repairable(record, bid.mode) {
        let queue = QueuePosition { waiting: record.queue.len() as u32, ..QueuePosition::default() };
        return Vote::Refusal(held(record, queue, now));
    }
    if !can_renew && !repair {
        return Vote::Refusal(Refusal::Absent);
    }
    let keeps_its_fence = can_renew && record.fence.is_some();
    if !keeps_its_fence && is_too_far_ahead(life, record, bid.fence, now) {
        return Vote::Refusal(Refusal::TooFarAhead);
    }
    let fence = match &record.fence {
        // The seal gave a majority the lease's fence, so a renewal need not raise it.
        Some(note) if can_renew => note.fence,
        // Another client may have held the lock since, and no entry may reuse that client's fence.
        Some(note) if is_fence_of_other_client(record, note, bid) && note.fence == Fence::MAX => {
            return Vote::Refusal(Refusal::TooFarAhead);
        }
        Some(note) if is_fence_of_other_client(record, note, bid) => note.fence.next().max(bid.fence),
        Some(note) => note.fence.max(bid.fence),
        None => bid.fence,
    };
    if !can_renew && record.has_vote(bid.attempt) {
        // This node granted the attempt another slot than the majority did. Replace that entry.
        remove_vote(record, bid.attempt);
    }
    let entry_fence = record.entry(bid.attempt).map_or(bid.fence, |entry| entry.fence);
    grant(life, record, bid, (fence, entry_fence), can_renew, now)
}

/// Returns whether the highest fence may belong to another client. This matters when the owner of a reentrant lock
/// repairs its vote on a node that no longer has the vote.
fn is_fence_of_other_client(record: &Record, note: &FenceNote, bid: &Bid<'_>) -> bool {
    matches!(bid.mode, Mode::Reentrant { .. }) && record.vote.is_none() && note.by != bid.attempt
}

/// Returns whether this node's vote is for the slot that the request names. Votes for different slots do not form a
/// majority.
fn is_in_its_slot(record: &Record, bid: &Bid<'_>) -> bool {
    match bid.mode {
        Mode::Slot { slot, .. } => record.entry(bid.attempt).is_some_and(|entry| entry.slot == Some(slot)),
        Mode::Exclusive { .. } | Mode::Reentrant { .. } | Mode::Shared { .. } => true,
    }
}

/// Returns whether a lease that was never lost can restore its vote on this node. Waiters do not prevent this.
fn is_repairable(record: &Record, mode: Mode) -> bool {
    match (record.vote.as_ref().map(|vote| vote.held_mode), mode) {
        (None, _) | (Some(HeldMode::Shared), Mode::Shared { .. }) => true,
        (Some(HeldMode::Reentrant(current)), Mode::Reentrant { owner }) => current == owner,
        (Some(HeldMode::Slots(stored)), Mode::Slot { permits, slot }) => {
            stored == permits && record.free_slots(permits, slot).next() == Some(slot)
        }
        _ => false,
    }
}

fn held(record: &Record, queue: QueuePosition, now: NodeTime) -> Refusal {
    let HeldBy { holder, remaining, .. } = held_by(record, now).unwrap_or_default();
    Refusal::Held { holder, remaining, fence: record.stored_fence(), queue }
}

fn is_exclusive(record: &Record, attempt: LeaseId) -> bool {
    record.vote.as_ref().is_some_and(|vote| vote.attempt == attempt && vote.held_mode == HeldMode::Exclusive)
}

fn is_too_far_ahead(life: &Incarnation, record: &Record, fence: Fence, now: NodeTime) -> bool {
    let clock = Fence::new(now.wall_micros.saturating_add(life.constants.max_skew_micros));
    let stored = record.fence.as_ref().map(|note| note.fence.next()).unwrap_or_default();
    fence > clock.max(stored)
}

/// Stores the vote and grants it with `fence`. `entry_fence` is the fence of the entry, for modes that have entries
/// (one per holder). `is_continued` says whether the vote existed before, for this attempt or another entry of its
/// owner.
fn grant(
    life: &Incarnation,
    record: &mut Record,
    bid: &Bid<'_>,
    (fence, entry_fence): (Fence, Fence),
    is_continued: bool,
    now: NodeTime,
) -> Vote {
    let slot = store_vote(record, bid, entry_fence, now);
    let by = record.vote.as_ref().map_or(bid.attempt, |vote| vote.attempt);
    let continued_note = record.fence.as_ref().filter(|note| is_continued && note.by == by);
    record.fence = Some(FenceNote {
        fence: fence.max(record.stored_fence()),
        by,
        since_micros: continued_note.map_or(now.wall_micros, |note| note.since_micros),
        ticket: bid.waiter.map(|waiter| waiter.ticket),
        holder: bid.holder.into(),
        until: now.life_millis.saturating_add(retention_millis(&life.constants)),
    });
    Vote::Grant { fence, slot }
}

/// Stores the vote and, for modes that have entries, the entry. Never shortens a vote or an entry.
fn store_vote(record: &mut Record, bid: &Bid<'_>, entry_fence: Fence, now: NodeTime) -> Option<GrantedSlot> {
    let mut until = now.life_millis.saturating_add(bid.ttl.as_millis());
    let mut granted_slot = None;
    if !matches!(bid.mode, Mode::Exclusive { .. }) {
        let previous = record.entry(bid.attempt).cloned();
        if let Mode::Slot { permits, slot } = bid.mode {
            let own = previous.as_ref().and_then(|entry| entry.slot);
            let mut free = record.free_slots(permits, slot);
            let index = own.or_else(|| free.next()).unwrap_or(0);
            granted_slot = Some(GrantedSlot { index, free: free.take(FREE_LISTED_MAX).collect() });
        }
        record.entries.retain(|entry| entry.attempt != bid.attempt);
        record.entries.push(Entry {
            attempt: bid.attempt,
            owner: bid.mode.owner(),
            slot: granted_slot.as_ref().map(|slot| slot.index),
            fence: entry_fence,
            until: previous.map_or(until, |entry| entry.until.max(until)),
        });
    }
    let current = record.vote.as_ref();
    until = record.entries.iter().map(|entry| entry.until).fold(until, u64::max);
    record.vote = Some(VoteNote {
        attempt: current.map_or(bid.attempt, |vote| vote.attempt),
        held_mode: current.map_or(HeldMode::of(bid.mode), |vote| vote.held_mode),
        until: current.map_or(until, |vote| vote.until.max(until)),
    });
    granted_slot
}

fn store_plain_vote(record: &mut Record, attempt: LeaseId, ttl: Ttl, now: NodeTime) -> Vote {
    let until = now.life_millis.saturating_add(ttl.as_millis());
    record.vote = Some(VoteNote { attempt, held_mode: HeldMode::Exclusive, until });
    Vote::grant(Fence::default())
}

/// Releases a vote. The client leaves the queue or keeps its position, as `parting` says.
fn release(record: &mut Record, attempt: LeaseId, parting: Option<Parting>, now: NodeTime) -> Answer {
    let had_vote = record.has_vote(attempt);
    if had_vote {
        remove_vote(record, attempt);
    }
    if let Some(Parting::Yield(waiter)) = parting {
        // When the waiter asks again, it is another attempt.
        record.keep_request(waiter.ticket, None);
    }
    let hint = match parting {
        Some(Parting::Yield(waiter)) if had_vote => {
            record.keep_position(waiter, now);
            // Waiters with a higher ticket could not get the vote, and the waiter that yields must not wake itself.
            record.hint().filter(|hint| hint.ticket < waiter.ticket)
        }
        Some(Parting::Leave(waiter)) => {
            let was_first = record.leave_queue(waiter.ticket);
            if had_vote || was_first { record.hint() } else { None }
        }
        None if had_vote => record.hint(),
        Some(Parting::Yield(_)) | None => None,
    };
    let vote = if had_vote { Vote::grant(Fence::default()) } else { Vote::Refusal(Refusal::Absent) };
    Answer { hint, ..vote.into() }
}

/// Releases all entries of an owner. The node refuses the owner's waiting attempts at their next request.
fn retire(record: &mut Record, owner: OwnerId) -> Answer {
    if record.entries.iter().all(|entry| entry.owner != Some(owner)) {
        return Refusal::Absent.into();
    }
    record.entries.retain(|entry| entry.owner != Some(owner));
    update_vote_end(record);
    Answer { hint: record.hint(), ..Vote::grant(Fence::default()).into() }
}

/// Removes the attempt's entry, or the vote of an attempt without an entry.
fn remove_vote(record: &mut Record, attempt: LeaseId) {
    record.entries.retain(|entry| entry.attempt != attempt);
    update_vote_end(record);
}

/// Makes the vote end with its last entry, or removes the vote if no entry is left.
fn update_vote_end(record: &mut Record) {
    match (record.entries.iter().map(|entry| entry.until).max(), &mut record.vote) {
        (Some(until), Some(vote)) => vote.until = until,
        _ => record.vote = None,
    }
}
