use super::*;
use crate::digest::Digest;
use crate::request::{BreakMode, Target};

const MAX_TTL: u64 = 60_000;

fn breaks(fence: u64, mode: BreakMode) -> Request {
    Request::Break { target: Target::Fence(Fence::new(fence)), mode }
}

fn drain(fence: u64) -> Request {
    breaks(fence, BreakMode::Drain)
}

fn now(fence: u64) -> Request {
    breaks(fence, BreakMode::Now)
}

fn by_digest(of: LeaseId, mode: BreakMode) -> Request {
    Request::Break { target: Target::Digest(Digest::of(of)), mode }
}

fn broken(by: LeaseId, remaining: u64) -> Vote {
    Vote::Broken { digest: Digest::of(by), stood: true, remaining: ms(remaining) }
}

fn other(fence: Option<u64>, by: LeaseId) -> Vote {
    let (fence, holder) = (fence.map(Fence::new), fence.map(|_| holder(by)));
    Vote::Refusal(Refusal::Other { fence, digest: Digest::of(by), holder })
}

#[test]
fn a_drained_vote_keeps_everybody_out_until_it_would_have_lapsed() {
    let mut node = Node::voted();
    let answer = node.answer(T + 300, &drain(CLOCK));
    assert_eq!(answer.vote, broken(A, 700));
    assert_eq!((answer.hint, node.tombstones()), (None, Vec::from([(A, T + 300 + MAX_TTL)])));
    for request in [acquire(A, CLOCK), renew(A, CLOCK, true)] {
        assert_eq!(node.ask(T + 1_000, &request), Vote::Refusal(Refusal::Tombstoned), "{request:?}");
    }
    assert!(matches!(node.ask(T + 1_000, &acquire(B, CLOCK)), Vote::Refusal(Refusal::Held { .. })));
    assert_eq!(node.ask(T + 1_000, &release(A)), Vote::Refusal(Refusal::Absent), "it is its holder's no longer");
    let report = node.report(T + 1_000);
    let held = report.held.unwrap();
    assert_eq!((held.broken, held.holder, held.digest), (true, Some(holder(A)), None));
    assert_eq!(node.ask(T + 1_001, &acquire(B, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn what_is_broken_now_is_free_at_once_and_the_first_in_queue_is_told() {
    let mut node = Node::voted();
    node.ask(T, &waits(Mode::EXCLUSIVE, B, 10));
    let answer = node.answer(T, &now(CLOCK));
    assert_eq!((answer.vote, answer.hint), (broken(A, 0), Some(hint(10))));
    assert_eq!(node.vote(), None);
    assert_eq!(node.ask(T, &waits(Mode::EXCLUSIVE, B, 10)), granted(CLOCK + 1));
}

#[test]
fn another_fence_breaks_nothing() {
    for fence in [CLOCK - 1, CLOCK + 1] {
        for mode in [BreakMode::Drain, BreakMode::Now] {
            let mut node = Node::voted();
            let before = node.record.clone();
            let answer = node.answer(T, &breaks(fence, mode));
            assert_eq!(answer, other(Some(CLOCK), A).into());
            assert_eq!(node.record, before);
        }
    }
}

#[test]
fn a_fence_of_an_earlier_lease_breaks_no_plain_lock() {
    let mut node = Node::freed(CLOCK);
    node.ask(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    assert_eq!(node.ask(T, &now(CLOCK)), other(None, B));
    assert_eq!(node.vote(), Some((B, T + 1_000)));
}

#[test]
fn a_plain_lock_is_broken_by_its_digest() {
    let mut node = Node::freed(50);
    node.ask(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    assert_eq!(node.ask(T, &by_digest(A, BreakMode::Now)), other(None, B));
    assert_eq!(node.ask(T, &by_digest(B, BreakMode::Drain)), broken(B, 1_000));
    assert_eq!(node.ask(T, &Request::PlainExtend { attempt: B, ttl: ttl(1_000) }), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &Request::PlainRelease { attempt: B }), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.report(T).held.unwrap().digest, Some(Digest::of(B)), "the digest stays the same");
    assert_eq!(node.ask(T, &by_digest(B, BreakMode::Drain)), broken(B, 1_000), "so it can be said again");
    assert_eq!(node.fence(), Some(50));
}

#[test]
fn a_digest_stands_for_an_attempt_and_not_for_those_who_joined() {
    let mut node = Node::voted();
    assert_eq!(node.ask(T, &by_digest(A, BreakMode::Now)), broken(A, 0));
    let mut node = Node::new();
    node.grants(T, &acquire_as(reads(OWNER), A, CLOCK, None));
    assert_eq!(node.ask(T, &by_digest(A, BreakMode::Now)), other(Some(CLOCK), A));
}

#[test]
fn a_broken_lock_can_be_broken_again() {
    let mut node = Node::voted();
    node.ask(T, &drain(CLOCK));
    assert_eq!(node.ask(T + 400, &drain(CLOCK)), broken(A, 600));
    assert_eq!(node.tombstones(), [(A, T + MAX_TTL)]);
    assert_eq!(node.ask(T + 400, &now(CLOCK)), broken(A, 0), "and sooner than was meant first");
    assert_eq!(node.ask(T + 400, &now(CLOCK)), broken(A, 0));
    node.grants(T + 400, &acquire(B, CLOCK));
    assert_eq!(node.ask(T + 400, &now(CLOCK)), other(Some(CLOCK + 1), B), "but not for ever");
}

#[test]
fn a_lease_whose_vote_is_gone_is_not_to_be_repaired() {
    let mut node = Node::voted();
    node.record.vote = None;
    let answer = node.answer(T, &drain(CLOCK));
    assert_eq!(answer.vote, Vote::Broken { digest: Digest::of(A), stood: false, remaining: ms(0) });
    assert_eq!(node.tombstones(), [(A, T + MAX_TTL)]);
    assert_eq!(node.ask(T, &drain(CLOCK + 1)), Vote::Refusal(Refusal::Absent));
    assert_eq!(Node::new().ask(T, &drain(CLOCK)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &by_digest(A, BreakMode::Now)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn all_who_hold_together_are_broken_by_the_newest_fence() {
    for mode in [enters(OWNER), reads(OWNER), slot(3, 0)] {
        let mut node = Node::new();
        node.grants(T, &acquire_as(mode, A, CLOCK, None));
        let joins = if mode == reads(OWNER) { reads(STRANGER) } else { mode };
        let newest = node.grants(T + 1, &acquire_as(joins, B, CLOCK, None));
        if mode.is_among_others() {
            assert_eq!(
                node.ask(T + 1, &drain(CLOCK)),
                Vote::Refusal(Refusal::Other {
                    fence: Some(Fence::new(newest)),
                    digest: Digest::of(A),
                    holder: Some(holder(B))
                })
            );
        }
        let answer = node.answer(T + 1, &drain(newest));
        assert_eq!(answer.vote, broken(A, 1_000));
        assert_eq!(node.tombstones(), [A, B].map(|attempt| (attempt, T + 1 + MAX_TTL)));
        assert_eq!(node.entries(), []);
        // Neither the same owner nor another reader nor a free slot gets anybody in.
        let refused = node.ask(T + 1_001, &acquire_as(mode, C, CLOCK, None));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{refused:?}");
        let renewal = renew_as(mode, A, CLOCK, true);
        assert_eq!(node.ask(T + 1_001, &renewal), Vote::Refusal(Refusal::Tombstoned));
        assert!(node.grants(T + 1_002, &acquire_as(mode, C, CLOCK, None)) > newest);
    }
}

#[test]
fn nobody_yields_to_a_broken_vote() {
    let mut node = Node::new();
    node.grants(T, &waits(Mode::EXCLUSIVE, A, 5));
    node.ask(T, &drain(CLOCK));
    let Vote::Refusal(Refusal::Held { queue, .. }) = node.ask(T, &waits(Mode::EXCLUSIVE, B, 10)) else {
        panic!("it drains");
    };
    assert_eq!(queue, QueuePosition { place: Some(1), waiting: 1, lower: false });
}

#[test]
fn a_node_in_quarantine_can_be_told_as_well() {
    let mut node = Node { life: Incarnation { floor: None, ..voting(0) }, ..Node::voted() };
    assert_eq!(node.ask(T, &now(CLOCK)), broken(A, 0));
}
