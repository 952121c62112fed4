mod attend;
mod breaking;
mod check;
mod handoffs;
mod hints;
mod inspect;
mod models;
mod queue;
mod reentrant;
mod sequences;
mod shared;
mod slots;

use alloc::string::String;
use alloc::vec::Vec;

use super::apply::answer;
use super::*;
use crate::fence::Fence;
use crate::name::{Channel, Holder, LeaseId, OwnerId};
use crate::request::{Parting, Request, Ticket, Waiter};
use crate::terms::{HeldMode, Mode};
use crate::testing::{ms, ttl};
use crate::vote::{QueuePosition, Refusal, Vote};

const EPOCH: Epoch = Epoch(1);
/// The node's time at the start of each test, in milliseconds.
const T: u64 = 100_000;
/// The same time in microseconds, which is also the fence that the node's clock gives.
const CLOCK: u64 = T * 1_000;
const MAX_CLOCK_SKEW: u64 = 10_000_000;
const A: LeaseId = LeaseId::from_bits(0xa);
const B: LeaseId = LeaseId::from_bits(0xb);
const C: LeaseId = LeaseId::from_bits(0xc);
const D: LeaseId = LeaseId::from_bits(0xd);
const OWNER: OwnerId = OwnerId::from_bits(1);
const OTHER_OWNER: OwnerId = OwnerId::from_bits(2);

fn constants() -> Constants {
    Constants { cluster: "c1".into(), nodes: 3, max_ttl_millis: 60_000, max_skew_micros: MAX_CLOCK_SKEW }
}

/// Returns an incarnation that may vote, with this floor.
fn voting(floor: u64) -> Incarnation {
    Incarnation {
        identity: Identity::of_run("run1"),
        epoch: Some(EPOCH),
        floor: Some(Fence::new(floor)),
        quarantine_micros: 66_000_000,
        suspended: false,
        elapsed_micros: 0,
        constants: constants(),
        founders: String::new(),
        restarts: 0,
    }
}

/// One node, with its record of one name.
struct Node {
    life: Incarnation,
    record: Record,
}

impl Node {
    fn new() -> Self {
        Self { life: voting(0), record: Record::default() }
    }

    /// Returns a node on which `A` has an exclusive vote since `T`, for one second, with the fence `CLOCK`.
    fn with_vote() -> Self {
        let mut node = Self::new();
        assert_eq!(node.ask(T, &acquire(A, CLOCK)), granted(CLOCK));
        node
    }

    /// Returns a node with a free vote and this stored fence.
    fn with_fence(fence: u64) -> Self {
        let mut node = Self::with_vote();
        node.ask(T, &release(A));
        node.record.fence.as_mut().unwrap().fence = Fence::new(fence);
        node
    }

    fn ask(&mut self, millis: u64, request: &Request) -> Vote {
        self.answer(millis, request).vote
    }

    fn answer(&mut self, millis: u64, request: &Request) -> Answer {
        apply(&self.life, &mut self.record, request, EPOCH, NodeTime::wall(millis * 1_000), |_| false)
    }

    /// Sends a request that must be granted, and returns the granted fence.
    fn grant(&mut self, millis: u64, request: &Request) -> u64 {
        match self.ask(millis, request) {
            Vote::Grant { fence, .. } => fence.get(),
            other => panic!("{request:?} was answered with {other:?}"),
        }
    }

    /// Returns the attempt of each entry, with the last millisecond of the entry.
    fn entries(&self) -> Vec<(LeaseId, u64)> {
        self.record.entries.iter().map(|entry| (entry.attempt, entry.until)).collect()
    }

    /// Returns the time of each waiter's ticket.
    fn queue(&self) -> Vec<u64> {
        self.record.queue.iter().map(|queued| queued.waiter.ticket.at).collect()
    }

    /// Returns the attempts with a tombstone, each with the last millisecond of the tombstone.
    fn tombstones(&self) -> Vec<(LeaseId, u64)> {
        self.record.tombstones.iter().map(|(attempt, until)| (*attempt, *until)).collect()
    }

    /// Returns the attempt that signed the vote, and the last millisecond of the vote.
    fn vote(&self) -> Option<(LeaseId, u64)> {
        self.record.vote.as_ref().map(|vote| (vote.attempt, vote.until))
    }

    fn fence(&self) -> Option<u64> {
        self.record.fence.as_ref().map(|note| note.fence.get())
    }
}

fn holder(attempt: LeaseId) -> Holder {
    Holder::new("host", 1, if attempt == A { "a" } else { "b" })
}

fn acquire(attempt: LeaseId, proposal: u64) -> Request {
    acquire_as(Mode::EXCLUSIVE, attempt, proposal, None)
}

fn acquire_as(mode: Mode, attempt: LeaseId, proposal: u64, waiter: Option<Waiter>) -> Request {
    let (proposal, holder) = (Fence::new(proposal), holder(attempt).encode().into());
    Request::Acquire { attempt, proposal, ttl: ttl(1_000), holder, mode, waiter }
}

/// Returns an acquire with a queue position. Lower tickets come first.
fn acquire_queued(mode: Mode, attempt: LeaseId, ticket: u64) -> Request {
    acquire_as(mode, attempt, CLOCK, Some(waiter(mode, ticket)))
}

fn waiter(mode: Mode, ticket: u64) -> Waiter {
    Waiter { ticket: Ticket { at: ticket, id: 7 }, channel: Channel(ticket.into()), shared: mode.is_shared() }
}

/// Returns the waiter with this ticket, who wants a lock that is not shared.
fn waiter_with_ticket(ticket: u64) -> Waiter {
    waiter(Mode::EXCLUSIVE, ticket)
}

fn reader(owner: OwnerId) -> Mode {
    Mode::Shared { owner, reenters: true }
}

fn writer(owner: OwnerId) -> Mode {
    Mode::Exclusive { writer: Some(owner) }
}

fn reentrant(owner: OwnerId) -> Mode {
    Mode::Reentrant { owner }
}

fn slot(permits: u32, slot: u32) -> Mode {
    Mode::Slot { permits, slot }
}

fn renew(attempt: LeaseId, fence: u64, repair: bool) -> Request {
    renew_as(Mode::EXCLUSIVE, attempt, fence, repair)
}

fn renew_as(mode: Mode, attempt: LeaseId, fence: u64, repair: bool) -> Request {
    let (fence, holder) = (Fence::new(fence), holder(attempt).encode().into());
    Request::Renew { attempt, fence, ttl: ttl(1_000), repair, holder, mode }
}

fn release(attempt: LeaseId) -> Request {
    Request::Release { attempt, tombstone: None, parting: None }
}

fn release_with_tombstone(attempt: LeaseId, millis: u64) -> Request {
    Request::Release { attempt, tombstone: Some(millis), parting: None }
}

/// Returns a release with which the waiter leaves the queue.
fn leave(attempt: LeaseId, waiter: Waiter) -> Request {
    Request::Release { attempt, tombstone: None, parting: Some(Parting::Leave(waiter)) }
}

/// Returns a release with which the waiter keeps its queue position.
fn yield_vote(attempt: LeaseId, waiter: Waiter) -> Request {
    Request::Release { attempt, tombstone: None, parting: Some(Parting::Yield(waiter)) }
}

fn granted(fence: u64) -> Vote {
    Vote::grant(Fence::new(fence))
}

/// Returns the refusal of a client without a ticket, because another client holds the lock and nobody waits.
fn held_by(holder: Option<Holder>, remaining_ms: u64, fence: u64) -> Vote {
    let (remaining, fence) = (Some(ms(remaining_ms)), Fence::new(fence));
    Vote::Refusal(Refusal::Held { holder, remaining, fence, queue: QueuePosition::default() })
}

#[test]
fn a_grant_stores_the_vote_the_fence_and_the_holder() {
    let node = Node::with_vote();
    assert_eq!(node.vote(), Some((A, T + 1_000)));
    let stored = node.record.fence.unwrap();
    assert_eq!((stored.fence.get(), stored.by, stored.since_micros), (CLOCK, A, CLOCK));
    assert_eq!(Holder::decode(&stored.holder), Some(holder(A)));
    assert_eq!(stored.until, T + 24 * 60 * 60 * 1_000);
}

#[test]
fn without_a_stored_fence_a_grant_is_at_least_the_floor_and_the_clock_minus_the_skew() {
    assert_eq!(Node::new().ask(T, &acquire(A, 5)), granted(CLOCK - MAX_CLOCK_SKEW));
    let node_with_floor = || Node { life: voting(CLOCK + 3), ..Node::new() };
    assert_eq!(node_with_floor().ask(T, &acquire(A, CLOCK)), granted(CLOCK + 3));
    assert_eq!(node_with_floor().ask(T, &acquire(A, CLOCK + 4)), granted(CLOCK + 4));
}

#[test]
fn after_a_stored_fence_the_node_grants_a_higher_one_and_ignores_its_clock() {
    assert_eq!(Node::with_fence(50).ask(T, &acquire(B, 5)), granted(51));
    assert_eq!(Node::with_fence(50).ask(T, &acquire(B, 51)), granted(51));
    let mut node = Node::with_fence(50);
    assert_eq!(node.ask(T + 3, &acquire(B, 60)), granted(60));
    let stored = node.record.fence.unwrap();
    assert_eq!((stored.by, stored.since_micros, stored.holder), (B, CLOCK + 3_000, holder(B).encode()));
}

#[test]
fn a_grant_is_not_below_the_floor_even_if_the_stored_fence_is() {
    let mut node = Node { life: voting(900), ..Node::with_fence(50) };
    assert_eq!(node.ask(T, &acquire(B, 5)), granted(900));
}

#[test]
fn a_repeated_acquire_never_lowers_the_fence_or_shortens_the_vote() {
    let mut node = Node::with_vote();
    assert_eq!(
        node.ask(T + 1, &acquire(A, CLOCK - 7)),
        granted(CLOCK),
        "an acquire that is repeated after a lost reply gets the same fence"
    );
    assert_eq!(node.ask(T + 2, &acquire(A, CLOCK + 7)), granted(CLOCK + 7), "a seal raises the fence");
    assert_eq!(node.vote(), Some((A, T + 1_002)));
    assert_eq!(node.ask(T - 500, &acquire(A, CLOCK)), granted(CLOCK + 7));
    assert_eq!(node.ask(T - 500, &renew(A, CLOCK, true)), granted(CLOCK + 7));
    assert_eq!(node.vote(), Some((A, T + 1_002)), "the node's clock stepped back");
    assert_eq!(node.record.fence.unwrap().since_micros, CLOCK, "the lock is held since the first grant");
}

#[test]
fn a_refusal_names_the_holder_the_remaining_time_and_the_fence() {
    let mut node = Node::with_vote();
    let before = node.record.clone();
    assert_eq!(node.ask(T + 300, &acquire(B, CLOCK)), held_by(Some(holder(A)), 700, CLOCK));
    assert_eq!(node.ask(T + 300, &renew(B, CLOCK, true)), held_by(Some(holder(A)), 700, CLOCK));
    assert_eq!(node.record, before);
}

#[test]
fn a_refusal_names_no_holder_if_the_vote_has_no_fence_or_the_holder_is_garbage() {
    let mut node = Node::with_fence(50);
    node.record.vote =
        Some(VoteNote { attempt: LeaseId::from_bits(99), held_mode: HeldMode::Exclusive, until: T + 40 });
    assert_eq!(node.ask(T, &acquire(B, 5)), held_by(None, 40, 50), "the stored fence belongs to an older lease");
    let mut node = Node::with_vote();
    node.record.fence.as_mut().unwrap().holder = "garbage".into();
    assert_eq!(node.ask(T, &acquire(B, 5)), held_by(None, 1_000, CLOCK));
}

#[test]
fn a_tombstone_refuses_its_attempt_until_the_tombstone_expires() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T, &release_with_tombstone(A, 500)), granted(0));
    for request in [acquire(A, CLOCK), renew(A, CLOCK, true), renew(A, CLOCK, false)] {
        assert_eq!(node.ask(T + 500, &request), Vote::Refusal(Refusal::Tombstoned));
    }
    assert_eq!(node.vote(), None);
    assert_eq!(node.ask(T + 501, &acquire(A, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn a_release_leaves_a_tombstone_even_if_there_is_no_vote() {
    let mut node = Node::new();
    assert_eq!(node.ask(T, &release_with_tombstone(A, 500)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &acquire(A, CLOCK)), Vote::Refusal(Refusal::Tombstoned));
}

#[test]
fn a_proposal_is_at_most_the_max_clock_skew_or_one_fence_ahead() {
    let too_far = Vote::Refusal(Refusal::TooFarAhead);
    assert_eq!(Node::new().ask(T, &acquire(A, CLOCK + MAX_CLOCK_SKEW)), granted(CLOCK + MAX_CLOCK_SKEW));
    assert_eq!(Node::new().ask(T, &acquire(A, CLOCK + MAX_CLOCK_SKEW + 1)), too_far);
    let far_fence = CLOCK + 5 * MAX_CLOCK_SKEW;
    assert_eq!(Node::with_fence(far_fence).ask(T, &acquire(B, far_fence + 1)), granted(far_fence + 1));
    assert_eq!(Node::with_fence(far_fence).ask(T, &acquire(B, far_fence + 2)), too_far);
    let mut sealing = Node::with_vote();
    assert_eq!(sealing.ask(T, &acquire(A, far_fence)), too_far);
    assert_eq!((sealing.vote(), sealing.fence()), (Some((A, T + 1_000)), Some(CLOCK)), "nothing changed");
}

#[test]
fn a_node_does_not_vote_in_another_epoch_or_in_quarantine() {
    for life in [
        Incarnation { epoch: Some(Epoch(2)), ..voting(0) },
        Incarnation { epoch: None, ..voting(0) },
        Incarnation { floor: None, ..voting(0) },
    ] {
        let mut node = Node { life, ..Node::with_vote() };
        let before = node.record.clone();
        let plain = [
            Request::PlainAcquire { attempt: A, ttl: ttl(1_000) },
            Request::PlainExtend { attempt: A, ttl: ttl(1_000) },
        ];
        for request in plain.into_iter().chain([acquire(A, CLOCK), renew(A, CLOCK, true)]) {
            assert_eq!(node.ask(T, &request), Vote::Refusal(Refusal::WrongEpoch));
        }
        assert_eq!(node.record, before);
        assert_eq!(node.ask(T, &release_with_tombstone(A, 500)), granted(0), "a release is correct in any epoch");
        assert_eq!((node.vote(), node.record.tombstones.get(&A)), (None, Some(&(T + 500))));
    }
    let mut node = Node { life: Incarnation { floor: None, ..voting(0) }, ..Node::with_vote() };
    assert_eq!(node.ask(T, &Request::PlainRelease { attempt: A }), granted(0));
}

#[test]
fn a_renewal_restarts_the_ttl_and_keeps_the_fence() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T + 300, &renew(A, CLOCK - 9, false)), granted(CLOCK));
    assert_eq!(node.vote(), Some((A, T + 1_300)));
    assert_eq!(node.ask(T + 300, &renew(A, CLOCK + 9, false)), granted(CLOCK));
    assert_eq!(node.fence(), Some(CLOCK));
}

#[test]
fn only_a_repair_restores_an_expired_vote() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T + 1_001, &renew(A, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.vote(), None);
    assert_eq!(node.ask(T + 1_001, &renew(A, CLOCK, true)), granted(CLOCK));
    assert_eq!(node.vote(), Some((A, T + 2_001)));
    assert_eq!(Node::new().ask(T, &renew(A, 70, true)), granted(70), "the fence of the lease, not of the clock");
    assert_eq!(Node::with_fence(80).ask(T, &renew(B, 70, true)), granted(80), "the higher stored fence stays");
    let mut blank = Node::new();
    assert_eq!(blank.ask(T, &renew(A, CLOCK + MAX_CLOCK_SKEW + 1, true)), Vote::Refusal(Refusal::TooFarAhead));
    assert_eq!(blank.record, Record::default());
}

#[test]
fn a_release_removes_only_the_vote_of_its_own_attempt() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T, &release(B)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.vote(), Some((A, T + 1_000)));
    assert_eq!(node.ask(T, &release(A)), granted(0));
    assert_eq!((node.vote(), node.fence()), (None, Some(CLOCK)), "the fence stays stored");
    assert_eq!(node.ask(T, &release(A)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &acquire(B, 1)), granted(CLOCK + 1));
    assert_eq!(node.ask(T, &release(A)), Vote::Refusal(Refusal::Absent), "a stale release does not free the vote of B");
    assert_eq!(node.vote(), Some((B, T + 1_000)));
}

#[test]
fn plain_requests_behave_like_the_commands_of_the_redlock_page() {
    let acquire_plain = |attempt| Request::PlainAcquire { attempt, ttl: ttl(1_000) };
    let extend = |attempt| Request::PlainExtend { attempt, ttl: ttl(1_000) };
    let release_plain = |attempt| Request::PlainRelease { attempt };
    let absent = Vote::Refusal(Refusal::Absent);
    let (fence, queue) = (Fence::default(), QueuePosition::default());
    let held = Vote::Refusal(Refusal::Held { holder: None, remaining: None, fence, queue });
    let mut node = Node::with_fence(50);
    assert_eq!(node.ask(T, &extend(B)), absent, "an extension creates no vote");
    assert_eq!(node.ask(T, &acquire_plain(B)), granted(0));
    assert_eq!(node.ask(T, &acquire_plain(B)), held, "SET NX refuses even the holder");
    assert_eq!(node.ask(T, &acquire_plain(A)), held);
    assert_eq!(node.ask(T, &extend(A)), absent);
    assert_eq!(node.ask(T + 400, &extend(B)), granted(0));
    assert_eq!(node.vote(), Some((B, T + 1_400)));
    assert_eq!(
        node.ask(T + 400, &acquire(A, CLOCK)),
        held_by(None, 1_000, 50),
        "plain and other requests share the vote"
    );
    assert_eq!(node.ask(T + 400, &release_plain(A)), absent);
    assert_eq!(node.ask(T + 400, &release_plain(B)), granted(0));
    assert_eq!(node.ask(T + 400, &release_plain(B)), absent);
    assert_eq!(node.fence(), Some(50), "plain requests change no fence");
    let mut node_with_fence = Node::with_vote();
    assert_eq!(node_with_fence.ask(T, &acquire_plain(B)), held);
}

#[test]
fn a_vote_exists_through_its_last_millisecond() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T + 1_000, &acquire(B, CLOCK)), held_by(Some(holder(A)), 0, CLOCK));
    assert_eq!(node.ask(T + 1_001, &release(A)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T + 1_001, &acquire(B, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn a_fence_is_forgotten_after_its_retention() {
    let retention = 24 * 60 * 60 * 1_000;
    assert_eq!(retention_millis(&constants()), retention);
    let long_ttl = Constants { max_ttl_millis: retention, ..constants() };
    assert_eq!(retention_millis(&long_ttl), retention + 40_000, "the longest ttl plus four times the skew");
    let mut node = Node::with_fence(50);
    assert_eq!(node.ask(T + retention, &acquire(B, 5)), granted(51));
    let mut node = Node::with_fence(50);
    let later = T + retention + 1;
    assert_eq!(
        node.ask(later, &acquire(B, 5)),
        granted(later * 1_000 - MAX_CLOCK_SKEW),
        "the clock has passed the forgotten fence"
    );
}

#[test]
fn votes_expire_by_the_life_clock_and_fences_follow_the_wall_clock() {
    let mut node = Node::new();
    let now = |life_millis, wall_micros| NodeTime { wall_micros, life_millis };
    let mut ask = |attempt, now| answer(&node.life, &mut node.record, &acquire(attempt, 1), EPOCH, now).vote;
    assert_eq!(ask(A, now(10, CLOCK)), granted(CLOCK - MAX_CLOCK_SKEW));
    assert_eq!(
        ask(B, now(1_010, 3 * CLOCK)),
        held_by(Some(holder(A)), 0, CLOCK - MAX_CLOCK_SKEW),
        "the wall clock jumped forward"
    );
    assert_eq!(ask(B, now(1_011, 1)), granted(CLOCK - MAX_CLOCK_SKEW + 1), "the wall clock jumped back");
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T, &release_with_tombstone(A, u64::MAX)), granted(0));
    assert_eq!(node.record.tombstones.get(&A), Some(&u64::MAX));
    let mut node = Node::new();
    node.life.constants.max_ttl_millis = u64::MAX;
    assert_eq!(node.ask(T, &acquire(A, CLOCK)), granted(CLOCK));
}

#[test]
fn the_highest_fence_is_not_granted_twice() {
    let last = Fence::MAX.get();
    let mut node = Node::with_fence(last);
    assert!(matches!(node.ask(T, &acquire(B, last)), Vote::Refusal(_)));
}
