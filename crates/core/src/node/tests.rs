mod attend;
mod breaking;
mod check;
mod handing_on;
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
use crate::request::{Request, Ticket, Waiter};
use crate::terms::{Mode, Period};
use crate::testing::{ms, ttl};
use crate::vote::{QueuePosition, Refusal, Vote};

const EPOCH: Epoch = Epoch(1);
/// In milliseconds, the node's time at which the tests begin.
const T: u64 = 100_000;
/// The same in microseconds, and so a fence.
const CLOCK: u64 = T * 1_000;
const MAX_CLOCK_SKEW: u64 = 10_000_000;
const A: LeaseId = LeaseId::from_bits(0xa);
const B: LeaseId = LeaseId::from_bits(0xb);
const C: LeaseId = LeaseId::from_bits(0xc);
const D: LeaseId = LeaseId::from_bits(0xd);
const OWNER: OwnerId = OwnerId::from_bits(1);
const STRANGER: OwnerId = OwnerId::from_bits(2);

fn constants() -> Constants {
    Constants { cluster: "c1".into(), nodes: 3, max_ttl_millis: 60_000, max_skew_micros: MAX_CLOCK_SKEW }
}

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

/// A node as one name sees it.
struct Node {
    life: Incarnation,
    record: Record,
}

impl Node {
    fn new() -> Self {
        Self { life: voting(0), record: Record::default() }
    }

    /// A node on which `A` has a vote for a second, with the clock as its fence.
    fn voted() -> Self {
        let mut node = Self::new();
        assert_eq!(node.ask(T, &acquire(A, CLOCK)), granted(CLOCK));
        node
    }

    /// A node whose last lease had this fence.
    fn freed(fence: u64) -> Self {
        let mut node = Self::voted();
        node.ask(T, &release(A));
        node.record.fence.as_mut().unwrap().fence = Fence::new(fence);
        node
    }

    fn ask(&mut self, millis: u64, request: &Request) -> Vote {
        self.answer(millis, request).vote
    }

    /// The vote, and the hint for the first waiter.
    fn answer(&mut self, millis: u64, request: &Request) -> Answer {
        apply(&self.life, &mut self.record, request, EPOCH, NodeTime::wall(millis * 1_000), |_| false)
    }

    /// Grants this with any fence.
    fn grants(&mut self, millis: u64, request: &Request) -> u64 {
        match self.ask(millis, request) {
            Vote::Grant { fence, .. } => fence.get(),
            other => panic!("{request:?} was answered with {other:?}"),
        }
    }

    /// Who has entered, and through which millisecond.
    fn entries(&self) -> Vec<(LeaseId, u64)> {
        self.record.entries.iter().map(|entry| (entry.attempt, entry.until)).collect()
    }

    /// Who waits, by the time of the ticket.
    fn queue(&self) -> Vec<u64> {
        self.record.queue.iter().map(|place| place.waiter.ticket.at).collect()
    }

    /// Which attempts are over, and through which millisecond.
    fn tombstones(&self) -> Vec<(LeaseId, u64)> {
        self.record.tombstones.iter().map(|(attempt, until)| (*attempt, *until)).collect()
    }

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

/// Asks for it with a place in the queue: lower tickets come first.
fn waits(mode: Mode, attempt: LeaseId, ticket: u64) -> Request {
    acquire_as(mode, attempt, CLOCK, Some(waiter(mode, ticket)))
}

fn waiter(mode: Mode, at: u64) -> Waiter {
    Waiter { ticket: Ticket { at, id: 7 }, channel: Channel(at.into()), shared: mode.is_shared() }
}

fn hint(at: u64) -> Waiter {
    waiter(Mode::EXCLUSIVE, at)
}

fn reads(owner: OwnerId) -> Mode {
    Mode::Shared { owner, reenters: true }
}

fn writes(owner: OwnerId) -> Mode {
    Mode::Exclusive { writer: Some(owner) }
}

fn enters(owner: OwnerId) -> Mode {
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

fn bury(attempt: LeaseId, millis: u64) -> Request {
    Request::Release { attempt, tombstone: Some(millis), parting: None }
}

fn granted(fence: u64) -> Vote {
    Vote::grant(Fence::new(fence))
}

fn held_by(holder: Option<Holder>, remaining: u64, fence: u64) -> Vote {
    let (remaining, fence) = (Some(ms(remaining)), Fence::new(fence));
    Vote::Refusal(Refusal::Held { holder, remaining, fence, queue: QueuePosition::default() })
}

#[test]
fn a_grant_is_noted_with_fence_holder_and_ends() {
    let node = Node::voted();
    assert_eq!(node.vote(), Some((A, T + 1_000)));
    let kept = node.record.fence.unwrap();
    assert_eq!((kept.fence.get(), kept.by, kept.since_micros), (CLOCK, A, CLOCK));
    assert_eq!(Holder::decode(&kept.holder), Some(holder(A)));
    assert_eq!(kept.until, T + 24 * 60 * 60 * 1_000);
}

#[test]
fn where_nothing_is_stored_clock_and_floor_count() {
    assert_eq!(Node::new().ask(T, &acquire(A, 5)), granted(CLOCK - MAX_CLOCK_SKEW));
    let floored = || Node { life: voting(CLOCK + 3), ..Node::new() };
    assert_eq!(floored().ask(T, &acquire(A, CLOCK)), granted(CLOCK + 3));
    assert_eq!(floored().ask(T, &acquire(A, CLOCK + 4)), granted(CLOCK + 4));
}

#[test]
fn where_a_fence_is_stored_the_next_one_follows_and_the_clock_is_left_out() {
    assert_eq!(Node::freed(50).ask(T, &acquire(B, 5)), granted(51));
    assert_eq!(Node::freed(50).ask(T, &acquire(B, 51)), granted(51));
    let mut node = Node::freed(50);
    assert_eq!(node.ask(T + 3, &acquire(B, 60)), granted(60));
    let kept = node.record.fence.unwrap();
    assert_eq!((kept.by, kept.since_micros, kept.holder), (B, CLOCK + 3_000, holder(B).encode()), "another lease");
}

#[test]
fn the_floor_lifts_a_stale_fence() {
    let mut node = Node { life: voting(900), ..Node::freed(50) };
    assert_eq!(node.ask(T, &acquire(B, 5)), granted(900));
}

#[test]
fn a_repeat_keeps_or_raises_the_fence_and_never_shortens_the_vote() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T + 1, &acquire(A, CLOCK - 7)), granted(CLOCK), "lost replies do not spend fences");
    assert_eq!(node.ask(T + 2, &acquire(A, CLOCK + 7)), granted(CLOCK + 7), "the seal");
    assert_eq!(node.vote(), Some((A, T + 1_002)));
    assert_eq!(node.ask(T - 500, &acquire(A, CLOCK)), granted(CLOCK + 7));
    assert_eq!(node.ask(T - 500, &renew(A, CLOCK, true)), granted(CLOCK + 7));
    assert_eq!(node.vote(), Some((A, T + 1_002)), "even if the node's clock steps back");
    assert_eq!(node.record.fence.unwrap().since_micros, CLOCK, "held since the first grant");
}

#[test]
fn another_vote_refuses_with_holder_time_left_and_fence() {
    let mut node = Node::voted();
    let before = node.record.clone();
    assert_eq!(node.ask(T + 300, &acquire(B, CLOCK)), held_by(Some(holder(A)), 700, CLOCK));
    assert_eq!(node.ask(T + 300, &renew(B, CLOCK, true)), held_by(Some(holder(A)), 700, CLOCK));
    assert_eq!(node.record, before);
}

#[test]
fn a_foreign_holder_is_unknown() {
    let mut node = Node::freed(50);
    node.record.vote = Some(VoteNote { attempt: LeaseId::from_bits(99), period: Period::Exclusive, until: T + 40 });
    assert_eq!(node.ask(T, &acquire(B, 5)), held_by(None, 40, 50), "the fence note is of an older lease");
    let mut node = Node::voted();
    node.record.fence.as_mut().unwrap().holder = "garbage".into();
    assert_eq!(node.ask(T, &acquire(B, 5)), held_by(None, 1_000, CLOCK));
}

#[test]
fn a_tombstone_refuses_its_attempt_until_it_lapses() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T, &bury(A, 500)), granted(0));
    for request in [acquire(A, CLOCK), renew(A, CLOCK, true), renew(A, CLOCK, false)] {
        assert_eq!(node.ask(T + 500, &request), Vote::Refusal(Refusal::Tombstoned));
    }
    assert_eq!(node.vote(), None, "no ghost");
    assert_eq!(node.ask(T + 501, &acquire(A, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn a_tombstone_is_left_even_if_no_vote_stood() {
    let mut node = Node::new();
    assert_eq!(node.ask(T, &bury(A, 500)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &acquire(A, CLOCK)), Vote::Refusal(Refusal::Tombstoned));
}

#[test]
fn a_proposal_is_at_most_sigma_or_one_fence_ahead() {
    let too_far = Vote::Refusal(Refusal::TooFarAhead);
    assert_eq!(Node::new().ask(T, &acquire(A, CLOCK + MAX_CLOCK_SKEW)), granted(CLOCK + MAX_CLOCK_SKEW));
    assert_eq!(Node::new().ask(T, &acquire(A, CLOCK + MAX_CLOCK_SKEW + 1)), too_far);
    let far = CLOCK + 5 * MAX_CLOCK_SKEW;
    assert_eq!(Node::freed(far).ask(T, &acquire(B, far + 1)), granted(far + 1));
    assert_eq!(Node::freed(far).ask(T, &acquire(B, far + 2)), too_far);
    let mut sealing = Node::voted();
    assert_eq!(sealing.ask(T, &acquire(A, far)), too_far);
    assert_eq!((sealing.vote(), sealing.fence()), (Some((A, T + 1_000)), Some(CLOCK)), "nothing changed");
}

#[test]
fn another_life_or_a_quarantined_one_does_not_vote() {
    for life in [
        Incarnation { epoch: Some(Epoch(2)), ..voting(0) },
        Incarnation { epoch: None, ..voting(0) },
        Incarnation { floor: None, ..voting(0) },
    ] {
        let mut node = Node { life, ..Node::voted() };
        let before = node.record.clone();
        let plain = [
            Request::PlainAcquire { attempt: A, ttl: ttl(1_000) },
            Request::PlainExtend { attempt: A, ttl: ttl(1_000) },
        ];
        for request in plain.into_iter().chain([acquire(A, CLOCK), renew(A, CLOCK, true)]) {
            assert_eq!(node.ask(T, &request), Vote::Refusal(Refusal::WrongEpoch));
        }
        assert_eq!(node.record, before);
        assert_eq!(node.ask(T, &bury(A, 500)), granted(0), "taking back is right in any life");
        assert_eq!((node.vote(), node.record.tombstones.get(&A)), (None, Some(&(T + 500))));
    }
    let mut node = Node { life: Incarnation { floor: None, ..voting(0) }, ..Node::voted() };
    assert_eq!(node.ask(T, &Request::PlainRelease { attempt: A }), granted(0));
}

#[test]
fn a_renewal_restarts_the_ttl_and_leaves_the_fence() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T + 300, &renew(A, CLOCK - 9, false)), granted(CLOCK));
    assert_eq!(node.vote(), Some((A, T + 1_300)));
    assert_eq!(node.ask(T + 300, &renew(A, CLOCK + 9, false)), granted(CLOCK));
    assert_eq!(node.fence(), Some(CLOCK));
}

#[test]
fn only_a_repair_votes_anew() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T + 1_001, &renew(A, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.vote(), None);
    assert_eq!(node.ask(T + 1_001, &renew(A, CLOCK, true)), granted(CLOCK));
    assert_eq!(node.vote(), Some((A, T + 2_001)));
    assert_eq!(Node::new().ask(T, &renew(A, 70, true)), granted(70), "the lease's own fence, not the clock's");
    assert_eq!(Node::freed(80).ask(T, &renew(B, 70, true)), granted(80), "a higher one stays");
    let mut blank = Node::new();
    assert_eq!(blank.ask(T, &renew(A, CLOCK + MAX_CLOCK_SKEW + 1, true)), Vote::Refusal(Refusal::TooFarAhead));
    assert_eq!(blank.record, Record::default());
}

#[test]
fn a_release_takes_back_its_own_vote_once() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T, &release(B)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.vote(), Some((A, T + 1_000)));
    assert_eq!(node.ask(T, &release(A)), granted(0));
    assert_eq!((node.vote(), node.fence()), (None, Some(CLOCK)), "the fence is kept");
    assert_eq!(node.ask(T, &release(A)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &acquire(B, 1)), granted(CLOCK + 1));
    assert_eq!(node.ask(T, &release(A)), Vote::Refusal(Refusal::Absent), "a stale release frees nobody else");
    assert_eq!(node.vote(), Some((B, T + 1_000)));
}

#[test]
fn plain_requests_follow_the_page() {
    let take = |attempt| Request::PlainAcquire { attempt, ttl: ttl(1_000) };
    let extend = |attempt| Request::PlainExtend { attempt, ttl: ttl(1_000) };
    let give = |attempt| Request::PlainRelease { attempt };
    let absent = Vote::Refusal(Refusal::Absent);
    let (fence, queue) = (Fence::default(), QueuePosition::default());
    let taken = Vote::Refusal(Refusal::Held { holder: None, remaining: None, fence, queue });
    let mut node = Node::freed(50);
    assert_eq!(node.ask(T, &extend(B)), absent, "extending creates nothing");
    assert_eq!(node.ask(T, &take(B)), granted(0));
    assert_eq!(node.ask(T, &take(B)), taken, "NX, even for oneself");
    assert_eq!(node.ask(T, &take(A)), taken);
    assert_eq!(node.ask(T, &extend(A)), absent);
    assert_eq!(node.ask(T + 400, &extend(B)), granted(0));
    assert_eq!(node.vote(), Some((B, T + 1_400)));
    assert_eq!(node.ask(T + 400, &acquire(A, CLOCK)), held_by(None, 1_000, 50), "one vote for both kinds");
    assert_eq!(node.ask(T + 400, &give(A)), absent);
    assert_eq!(node.ask(T + 400, &give(B)), granted(0));
    assert_eq!(node.ask(T + 400, &give(B)), absent);
    assert_eq!(node.fence(), Some(50), "no fence was touched");
    let mut fenced = Node::voted();
    assert_eq!(fenced.ask(T, &take(B)), taken);
}

#[test]
fn a_vote_stands_through_its_last_millisecond() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T + 1_000, &acquire(B, CLOCK)), held_by(Some(holder(A)), 0, CLOCK));
    assert_eq!(node.ask(T + 1_001, &release(A)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T + 1_001, &acquire(B, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn a_fence_is_kept_for_its_retention_and_no_longer() {
    let kept = 24 * 60 * 60 * 1_000;
    assert_eq!(retention_millis(&constants()), kept);
    let long = Constants { max_ttl_millis: kept, ..constants() };
    assert_eq!(retention_millis(&long), kept + 40_000, "the longest ttl and four max_clock_skew");
    let mut node = Node::freed(50);
    assert_eq!(node.ask(T + kept, &acquire(B, 5)), granted(51));
    let mut node = Node::freed(50);
    let later = T + kept + 1;
    assert_eq!(node.ask(later, &acquire(B, 5)), granted(later * 1_000 - MAX_CLOCK_SKEW), "the clock is past it by now");
}

#[test]
fn votes_lapse_by_the_life_clock_and_fences_follow_the_wall() {
    let mut node = Node::new();
    let now = |life_millis, wall_micros| NodeTime { wall_micros, life_millis };
    let mut ask = |attempt, now| answer(&node.life, &mut node.record, &acquire(attempt, 1), EPOCH, now).vote;
    assert_eq!(ask(A, now(10, CLOCK)), granted(CLOCK - MAX_CLOCK_SKEW));
    assert_eq!(
        ask(B, now(1_010, 3 * CLOCK)),
        held_by(Some(holder(A)), 0, CLOCK - MAX_CLOCK_SKEW),
        "the wall clock jumped"
    );
    assert_eq!(ask(B, now(1_011, 1)), granted(CLOCK - MAX_CLOCK_SKEW + 1), "and back");
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T, &bury(A, u64::MAX)), granted(0));
    assert_eq!(node.record.tombstones.get(&A), Some(&u64::MAX));
    let mut node = Node::new();
    node.life.constants.max_ttl_millis = u64::MAX;
    assert_eq!(node.ask(T, &acquire(A, CLOCK)), granted(CLOCK));
}

#[test]
fn the_last_fence_is_not_given_twice() {
    let last = Fence::MAX.get();
    let mut node = Node::freed(last);
    assert!(matches!(node.ask(T, &acquire(B, last)), Vote::Refusal(_)));
}
