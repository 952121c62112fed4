use super::*;
use crate::digest::Digest;
use crate::request::{BreakMode, Target};

const MAX_TTL: u64 = 60_000;

fn break_fence(fence: u64, mode: BreakMode) -> Request {
    Request::Break { target: Target::Fence(Fence::new(fence)), mode }
}

fn break_with_drain(fence: u64) -> Request {
    break_fence(fence, BreakMode::Drain)
}

fn break_now(fence: u64) -> Request {
    break_fence(fence, BreakMode::Now)
}

fn break_digest(attempt: LeaseId, mode: BreakMode) -> Request {
    Request::Break { target: Target::Digest(Digest::of(attempt)), mode }
}

/// Returns the answer that this attempt's vote was broken and excludes other clients for the remaining milliseconds.
fn broken(attempt: LeaseId, remaining_ms: u64) -> Vote {
    Vote::Broken { digest: Digest::of(attempt), stood: true, remaining: ms(remaining_ms) }
}

/// Returns the refusal of a break because the current lease is not the target, but the lease of this attempt.
fn other_lease(fence: Option<u64>, attempt: LeaseId) -> Vote {
    let (fence, holder) = (fence.map(Fence::new), fence.map(|_| holder(attempt)));
    Vote::Refusal(Refusal::Other { fence, digest: Digest::of(attempt), holder })
}

#[test]
fn a_draining_vote_excludes_all_clients_until_it_would_have_expired() {
    let mut node = Node::with_vote();
    let answer = node.answer(T + 300, &break_with_drain(CLOCK));
    assert_eq!(answer.vote, broken(A, 700));
    assert_eq!((answer.hint, node.tombstones()), (None, Vec::from([(A, T + 300 + MAX_TTL)])));
    for request in [acquire(A, CLOCK), renew(A, CLOCK, true)] {
        assert_eq!(node.ask(T + 1_000, &request), Vote::Refusal(Refusal::Tombstoned), "{request:?}");
    }
    assert!(matches!(node.ask(T + 1_000, &acquire(B, CLOCK)), Vote::Refusal(Refusal::Held { .. })));
    assert_eq!(
        node.ask(T + 1_000, &release(A)),
        Vote::Refusal(Refusal::Absent),
        "the broken vote no longer belongs to A"
    );
    let report = node.report(T + 1_000);
    let held = report.held.unwrap();
    assert_eq!((held.broken, held.holder, held.digest), (true, Some(holder(A)), None));
    assert_eq!(node.ask(T + 1_001, &acquire(B, CLOCK)), granted(CLOCK + 1));
}

#[test]
fn a_break_in_mode_now_frees_the_vote_and_gives_the_first_waiter_a_hint() {
    let mut node = Node::with_vote();
    node.ask(T, &acquire_queued(Mode::EXCLUSIVE, B, 10));
    let answer = node.answer(T, &break_now(CLOCK));
    assert_eq!((answer.vote, answer.hint), (broken(A, 0), Some(waiter_with_ticket(10))));
    assert_eq!(node.vote(), None);
    assert_eq!(node.ask(T, &acquire_queued(Mode::EXCLUSIVE, B, 10)), granted(CLOCK + 1));
}

#[test]
fn a_break_of_another_fence_breaks_nothing() {
    for fence in [CLOCK - 1, CLOCK + 1] {
        for mode in [BreakMode::Drain, BreakMode::Now] {
            let mut node = Node::with_vote();
            let before = node.record.clone();
            let answer = node.answer(T, &break_fence(fence, mode));
            assert_eq!(answer, other_lease(Some(CLOCK), A).into());
            assert_eq!(node.record, before);
        }
    }
}

#[test]
fn the_fence_of_an_earlier_lease_does_not_break_a_plain_lock() {
    let mut node = Node::with_fence(CLOCK);
    node.ask(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    assert_eq!(node.ask(T, &break_now(CLOCK)), other_lease(None, B));
    assert_eq!(node.vote(), Some((B, T + 1_000)));
}

#[test]
fn a_plain_lock_is_broken_by_its_digest() {
    let mut node = Node::with_fence(50);
    node.ask(T, &Request::PlainAcquire { attempt: B, ttl: ttl(1_000) });
    assert_eq!(node.ask(T, &break_digest(A, BreakMode::Now)), other_lease(None, B));
    assert_eq!(node.ask(T, &break_digest(B, BreakMode::Drain)), broken(B, 1_000));
    assert_eq!(node.ask(T, &Request::PlainExtend { attempt: B, ttl: ttl(1_000) }), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &Request::PlainRelease { attempt: B }), Vote::Refusal(Refusal::Absent));
    assert_eq!(
        node.report(T).held.unwrap().digest,
        Some(Digest::of(B)),
        "the digest of the broken vote stays the same"
    );
    assert_eq!(node.ask(T, &break_digest(B, BreakMode::Drain)), broken(B, 1_000), "the break can be repeated");
    assert_eq!(node.fence(), Some(50));
}

#[test]
fn a_digest_breaks_an_exclusive_lease_but_not_one_with_entries() {
    let mut node = Node::with_vote();
    assert_eq!(node.ask(T, &break_digest(A, BreakMode::Now)), broken(A, 0));
    let mut node = Node::new();
    node.grant(T, &acquire_as(reader(OWNER), A, CLOCK, None));
    assert_eq!(node.ask(T, &break_digest(A, BreakMode::Now)), other_lease(Some(CLOCK), A));
}

#[test]
fn a_break_can_be_repeated() {
    let mut node = Node::with_vote();
    node.ask(T, &break_with_drain(CLOCK));
    assert_eq!(node.ask(T + 400, &break_with_drain(CLOCK)), broken(A, 600));
    assert_eq!(node.tombstones(), [(A, T + MAX_TTL)]);
    assert_eq!(node.ask(T + 400, &break_now(CLOCK)), broken(A, 0), "the second break ends the drain");
    assert_eq!(node.ask(T + 400, &break_now(CLOCK)), broken(A, 0));
    node.grant(T + 400, &acquire(B, CLOCK));
    assert_eq!(node.ask(T + 400, &break_now(CLOCK)), other_lease(Some(CLOCK + 1), B), "the next lease is not broken");
}

#[test]
fn a_break_without_a_vote_prevents_a_repair_of_the_last_lease() {
    let mut node = Node::with_vote();
    node.record.vote = None;
    let answer = node.answer(T, &break_with_drain(CLOCK));
    assert_eq!(answer.vote, Vote::Broken { digest: Digest::of(A), stood: false, remaining: ms(0) });
    assert_eq!(node.tombstones(), [(A, T + MAX_TTL)]);
    assert_eq!(node.ask(T, &break_with_drain(CLOCK + 1)), Vote::Refusal(Refusal::Absent));
    assert_eq!(Node::new().ask(T, &break_with_drain(CLOCK)), Vote::Refusal(Refusal::Absent));
    assert_eq!(node.ask(T, &break_digest(A, BreakMode::Now)), Vote::Refusal(Refusal::Absent));
}

#[test]
fn the_newest_fence_breaks_all_leases_that_share_the_lock() {
    for mode in [reentrant(OWNER), reader(OWNER), slot(3, 0)] {
        let mut node = Node::new();
        node.grant(T, &acquire_as(mode, A, CLOCK, None));
        let mode_of_b = if mode == reader(OWNER) { reader(OTHER_OWNER) } else { mode };
        let newest = node.grant(T + 1, &acquire_as(mode_of_b, B, CLOCK, None));
        if mode.allows_several_holders() {
            assert_eq!(
                node.ask(T + 1, &break_with_drain(CLOCK)),
                Vote::Refusal(Refusal::Other {
                    fence: Some(Fence::new(newest)),
                    digest: Digest::of(A),
                    holder: Some(holder(B))
                })
            );
        }
        let answer = node.answer(T + 1, &break_with_drain(newest));
        assert_eq!(answer.vote, broken(A, 1_000));
        assert_eq!(node.tombstones(), [A, B].map(|attempt| (attempt, T + 1 + MAX_TTL)));
        assert_eq!(node.entries(), []);
        // The drain excludes the same owner, other readers and clients that want a free slot.
        let refused = node.ask(T + 1_001, &acquire_as(mode, C, CLOCK, None));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{refused:?}");
        let renewal = renew_as(mode, A, CLOCK, true);
        assert_eq!(node.ask(T + 1_001, &renewal), Vote::Refusal(Refusal::Tombstoned));
        assert!(node.grant(T + 1_002, &acquire_as(mode, C, CLOCK, None)) > newest);
    }
}

#[test]
fn a_waiter_does_not_yield_to_a_broken_vote() {
    let mut node = Node::new();
    node.grant(T, &acquire_queued(Mode::EXCLUSIVE, A, 5));
    node.ask(T, &break_with_drain(CLOCK));
    let Vote::Refusal(Refusal::Held { queue, .. }) = node.ask(T, &acquire_queued(Mode::EXCLUSIVE, B, 10)) else {
        panic!("the vote does not drain");
    };
    assert_eq!(queue, QueuePosition { position: Some(1), waiting: 1, lower: false });
}

#[test]
fn a_node_in_quarantine_accepts_a_break() {
    let mut node = Node { life: Incarnation { floor: None, ..voting(0) }, ..Node::with_vote() };
    assert_eq!(node.ask(T, &break_now(CLOCK)), broken(A, 0));
}
