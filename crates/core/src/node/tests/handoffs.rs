//! Handoffs: the node grants a free vote to the first waiter, by applying the waiter's last request.

use alloc::vec;

use super::*;
use crate::digest::Digest;
use crate::vote::Handoff;

const X: Mode = Mode::EXCLUSIVE;

impl Node {
    /// Returns a node on which `A` has the vote and these attempts wait, each with a ticket.
    fn with_waiters(waiters: &[(LeaseId, u64)]) -> Self {
        let mut node = Self::with_vote();
        for (attempt, ticket) in waiters {
            assert!(matches!(node.ask(T, &acquire_queued(X, *attempt, *ticket)), Vote::Refusal(Refusal::Held { .. })));
        }
        node
    }

    /// Applies a request on a node that can notify every waiter, and returns the handoff.
    fn handoff_after(&mut self, millis: u64, request: &Request) -> Option<Handoff> {
        apply(&self.life, &mut self.record, request, EPOCH, NodeTime::wall(millis * 1_000), |_| true).handoff
    }
}

fn handoff(attempt: LeaseId, fence: u64) -> Handoff {
    Handoff { attempt: Digest::of(attempt), fence: Fence::new(fence) }
}

#[test]
fn a_release_hands_the_vote_on_to_the_first_waiter() {
    let mut node = Node::with_waiters(&[(C, 20), (B, 10)]);
    assert_eq!(node.handoff_after(T + 5, &release(A)), Some(handoff(B, CLOCK + 1)));
    assert_eq!(node.vote(), Some((B, T + 5 + 1_000)), "the ttl starts at the handoff");
    assert_eq!((node.queue(), node.fence()), (vec![20], Some(CLOCK + 1)));
    let note = node.record.fence.as_ref().unwrap();
    assert_eq!((note.by, note.ticket.map(|ticket| ticket.at)), (B, Some(10)));
    assert_eq!(Holder::decode(&note.holder), Some(holder(B)));
    assert_eq!(node.handoff_after(T + 6, &release(B)), Some(handoff(C, CLOCK + 2)));
    assert_eq!(node.handoff_after(T + 7, &release(C)), None, "nobody waits");
    assert_eq!(node.vote(), None);
}

#[test]
fn a_handoff_grants_the_last_request_of_the_waiter() {
    let mut node = Node::with_waiters(&[(B, 10)]);
    node.ask(T + 3, &acquire_as(X, C, CLOCK + 3_000, Some(waiter(X, 10))));
    assert_eq!(node.handoff_after(T + 5, &release(A)), Some(handoff(C, CLOCK + 3_000)));
}

#[test]
fn a_leave_or_a_yield_hands_the_vote_on() {
    let mut node = Node::with_waiters(&[(B, 10), (C, 20)]);
    assert_eq!(node.handoff_after(T, &release(A)), Some(handoff(B, CLOCK + 1)));
    assert_eq!(node.handoff_after(T, &leave(B, waiter(X, 10))), Some(handoff(C, CLOCK + 2)));
    node.ask(T, &acquire_queued(X, D, 5));
    assert_eq!(node.handoff_after(T, &yield_vote(C, waiter(X, 20))), Some(handoff(D, CLOCK + 3)));
    assert_eq!(node.queue(), [20]);
}

#[test]
fn a_waiter_that_yielded_must_ask_again() {
    let mut node = Node::with_waiters(&[(B, 10)]);
    // B has a vote on another node, and yields on all nodes.
    node.ask(T, &yield_vote(B, waiter(X, 10)));
    assert_eq!(node.answer(T, &release(A)).hint, Some(waiter_with_ticket(10)), "B gets a hint");
    assert_eq!(node.vote(), None);
    let mut node = Node::with_waiters(&[(B, 10), (C, 20)]);
    node.handoff_after(T, &release(A));
    node.ask(T, &acquire_queued(X, D, 5));
    node.handoff_after(T, &yield_vote(B, waiter(X, 10)));
    assert_eq!(node.handoff_after(T, &release(D)), None, "the attempt that yielded is over");
    assert_eq!(node.queue(), [10, 20]);
}

#[test]
fn an_attempt_with_a_tombstone_gets_no_handoff() {
    let mut node = Node::with_waiters(&[(B, 10)]);
    node.ask(T, &release_with_tombstone(B, 1_000));
    assert_eq!(node.handoff_after(T, &release(A)), None);
    assert_eq!((node.vote(), node.queue()), (None, vec![10]));
}

#[test]
fn a_node_that_may_not_vote_makes_no_handoff() {
    for change in [|life: &mut Incarnation| life.floor = None, |life: &mut Incarnation| life.epoch = Some(Epoch(2))] {
        let mut node = Node::with_waiters(&[(B, 10)]);
        change(&mut node.life);
        assert_eq!(node.handoff_after(T, &release(A)), None);
        assert_eq!((node.vote(), node.queue()), (None, vec![10]));
    }
}

#[test]
fn a_waiter_whose_queue_position_expired_gets_no_handoff() {
    let mut node = Node::with_waiters(&[(B, 10)]);
    node.ask(T + 900, &renew(A, CLOCK, false));
    node.ask(T + 1_800, &renew(A, CLOCK, false));
    node.ask(T + 1_900, &acquire_queued(X, C, 20));
    for renewal in 3..=5 {
        node.ask(T + renewal * 900, &renew(A, CLOCK, false));
    }
    assert_eq!(node.handoff_after(T + 5_001, &release(A)), Some(handoff(C, CLOCK + 1)));
}

#[test]
fn only_an_exclusive_waiter_without_an_owner_gets_a_handoff() {
    for mode in [reader(OWNER), writer(OWNER), reentrant(OWNER), slot(2, 0)] {
        let mut node = Node::with_vote();
        node.ask(T, &acquire_queued(mode, B, 10));
        let answer = apply(&node.life, &mut node.record, &release(A), EPOCH, NodeTime::wall(CLOCK), |_| true);
        assert_eq!((answer.hint, answer.handoff), (Some(waiter(mode, 10)), None), "{mode:?}");
    }
}

#[test]
fn a_vote_is_not_handed_on_while_another_reader_has_it() {
    let mut node = Node::new();
    node.grant(T, &acquire_as(reader(OWNER), A, CLOCK, None));
    node.grant(T, &acquire_as(reader(OTHER_OWNER), B, CLOCK, None));
    node.ask(T, &acquire_queued(X, C, 10));
    assert_eq!(node.handoff_after(T, &release(A)), None, "B still reads");
    assert_eq!(node.handoff_after(T, &release(B)), Some(handoff(C, CLOCK + 2)));
}
