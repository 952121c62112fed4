//! A vote that is free goes to the first waiter, for what it has asked before.

use alloc::vec;

use super::*;
use crate::digest::Digest;
use crate::request::Parting;
use crate::vote::Handoff;

const X: Mode = Mode::EXCLUSIVE;

impl Node {
    /// `A` has it, and these wait for it, each with the ticket that is its number.
    fn waited_for(attempts: &[(LeaseId, u64)]) -> Self {
        let mut node = Self::voted();
        for (attempt, ticket) in attempts {
            assert!(matches!(node.ask(T, &waits(X, *attempt, *ticket)), Vote::Refusal(Refusal::Held { .. })));
        }
        node
    }

    /// Applies it, and hands the vote to the next waiter.
    fn hands_on(&mut self, millis: u64, request: &Request) -> Option<Handoff> {
        apply(&self.life, &mut self.record, request, EPOCH, NodeTime::wall(millis * 1_000), |_| true).handoff
    }
}

fn detached(attempt: LeaseId, fence: u64) -> Handoff {
    Handoff { attempt: Digest::of(attempt), fence: Fence::new(fence) }
}

fn parts(attempt: LeaseId, parting: Parting) -> Request {
    Request::Release { attempt, tombstone: None, parting: Some(parting) }
}

#[test]
fn a_release_hands_the_vote_on_to_the_first_in_queue() {
    let mut node = Node::waited_for(&[(C, 20), (B, 10)]);
    assert_eq!(node.hands_on(T + 5, &release(A)), Some(detached(B, CLOCK + 1)));
    assert_eq!(node.vote(), Some((B, T + 5 + 1_000)), "for its ttl from now on");
    assert_eq!((node.queue(), node.fence()), (vec![20], Some(CLOCK + 1)));
    let note = node.record.fence.as_ref().unwrap();
    assert_eq!((note.by, note.ticket.map(|ticket| ticket.at)), (B, Some(10)));
    assert_eq!(Holder::decode(&note.holder), Some(holder(B)));
    assert_eq!(node.hands_on(T + 6, &release(B)), Some(detached(C, CLOCK + 2)));
    assert_eq!(node.hands_on(T + 7, &release(C)), None, "nobody waits");
    assert_eq!(node.vote(), None);
}

#[test]
fn its_last_request_counts() {
    let mut node = Node::waited_for(&[(B, 10)]);
    node.ask(T + 3, &acquire_as(X, C, CLOCK + 3_000, Some(waiter(X, 10))));
    assert_eq!(node.hands_on(T + 5, &release(A)), Some(detached(C, CLOCK + 3_000)));
}

#[test]
fn leaving_and_yielding_make_room() {
    let mut node = Node::waited_for(&[(B, 10), (C, 20)]);
    assert_eq!(node.hands_on(T, &release(A)), Some(detached(B, CLOCK + 1)));
    let leaves = parts(B, Parting::Leave(waiter(X, 10)));
    assert_eq!(node.hands_on(T, &leaves), Some(detached(C, CLOCK + 2)));
    node.ask(T, &waits(X, D, 5));
    let yields = parts(C, Parting::Yield(waiter(X, 20)));
    assert_eq!(node.hands_on(T, &yields), Some(detached(D, CLOCK + 3)));
    assert_eq!(node.queue(), [20]);
}

#[test]
fn a_waiter_that_yielded_must_ask_again() {
    let mut node = Node::waited_for(&[(B, 10)]);
    // It had a vote elsewhere: here it had none to give back.
    node.ask(T, &parts(B, Parting::Yield(waiter(X, 10))));
    assert_eq!(node.answer(T, &release(A)).hint, Some(hint(10)), "and is told that it may");
    assert_eq!(node.vote(), None);
    let mut node = Node::waited_for(&[(B, 10), (C, 20)]);
    node.hands_on(T, &release(A));
    node.ask(T, &waits(X, D, 5));
    node.hands_on(T, &parts(B, Parting::Yield(waiter(X, 10))));
    assert_eq!(node.hands_on(T, &release(D)), None, "the attempt that yielded is over");
    assert_eq!(node.queue(), [10, 20]);
}

#[test]
fn an_attempt_that_is_over_is_given_nothing() {
    let mut node = Node::waited_for(&[(B, 10)]);
    node.ask(T, &bury(B, 1_000));
    assert_eq!(node.hands_on(T, &release(A)), None);
    assert_eq!((node.vote(), node.queue()), (None, vec![10]));
}

#[test]
fn a_node_that_may_not_vote_hands_nothing_on() {
    for change in [|life: &mut Incarnation| life.floor = None, |life: &mut Incarnation| life.epoch = Some(Epoch(2))] {
        let mut node = Node::waited_for(&[(B, 10)]);
        change(&mut node.life);
        assert_eq!(node.hands_on(T, &release(A)), None);
        assert_eq!((node.vote(), node.queue()), (None, vec![10]));
    }
}

#[test]
fn places_that_have_lapsed_are_passed_over() {
    let mut node = Node::waited_for(&[(B, 10)]);
    node.ask(T + 900, &renew(A, CLOCK, false));
    node.ask(T + 1_800, &renew(A, CLOCK, false));
    node.ask(T + 1_900, &waits(X, C, 20));
    for beat in 3..=5 {
        node.ask(T + beat * 900, &renew(A, CLOCK, false));
    }
    assert_eq!(node.hands_on(T + 5_001, &release(A)), Some(detached(C, CLOCK + 1)));
}

#[test]
fn those_who_do_not_want_to_be_alone_are_only_told() {
    for mode in [reads(OWNER), writes(OWNER), enters(OWNER), slot(2, 0)] {
        let mut node = Node::voted();
        node.ask(T, &waits(mode, B, 10));
        let answer = apply(&node.life, &mut node.record, &release(A), EPOCH, NodeTime::wall(CLOCK), |_| true);
        assert_eq!((answer.hint, answer.handoff), (Some(waiter(mode, 10)), None), "{mode:?}");
    }
}

#[test]
fn a_vote_that_stands_is_not_handed_on() {
    let mut node = Node::new();
    node.grants(T, &acquire_as(reads(OWNER), A, CLOCK, None));
    node.grants(T, &acquire_as(reads(STRANGER), B, CLOCK, None));
    node.ask(T, &waits(X, C, 10));
    assert_eq!(node.hands_on(T, &release(A)), None, "there is another reader");
    assert_eq!(node.hands_on(T, &release(B)), Some(detached(C, CLOCK + 2)));
}
