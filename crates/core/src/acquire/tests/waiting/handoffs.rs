//! Handoffs: how a waiter reacts to votes that nodes grant without a new request.

use super::*;
use crate::digest::Digest;
use crate::vote::Handoff;

impl Run {
    /// Takes a handoff to the current attempt.
    fn take_handoff(&mut self, now_ms: u64, node: usize, fence: u64) -> Vec<Step> {
        self.take_handoff_to(now_ms, node, self.attempt, fence)
    }

    fn take_handoff_to(&mut self, now_ms: u64, node: usize, attempt: LeaseId, fence: u64) -> Vec<Step> {
        let clock = i64::try_from(CLOCK + now_ms * 1_000).unwrap();
        let handoff = Handoff { attempt: Digest::of(attempt), fence: Fence::new(fence) };
        let steps = self.acquire.take_handoff(node, Elector::at(node), handoff, at(now_ms), Some(clock), &mut self.rng);
        self.track_attempt(steps)
    }
}

/// Returns a refusal of a request that was sent at this many milliseconds.
fn refusal_of_request_at(sent_ms: u64) -> Outcome {
    match held_in(9, BEHIND_VOTER) {
        Outcome::Voted { vote, elector, .. } => Outcome::Voted { vote, elector, sent: at(sent_ms) },
        silent @ Outcome::Silent(_) => silent,
    }
}

#[test]
fn a_majority_of_handoffs_wins() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    let attempt = run.attempt;
    assert_eq!(first_ask(&run.take_handoff(300, 2, 10)), None, "the waiter expects more handoffs");
    let won = expect_win(&run.take_handoff(301, 0, 10));
    assert_eq!((won.attempt(), won.fence()), (attempt, Some(Fence::new(10))));
    assert_eq!(run.take_handoff(302, 1, 10), []);
}

#[test]
fn validity_after_a_handoff_counts_from_the_refused_request() {
    let mut run = Run::start(waiting_terms(3));
    for (node, sent_ms) in [(0, 10), (1, 20), (2, 30)] {
        run.take(40, node, refusal_of_request_at(sent_ms));
    }
    run.take_handoff(300, 2, 10);
    let won = expect_win(&run.take_handoff(301, 0, 10));
    assert_eq!(acks(&won), [Some(at(10)), None, Some(at(30))]);
}

#[test]
fn a_handoff_that_leaves_too_little_validity_is_a_hint() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    let late = run.acquire.terms.ttl.as_millis() - 1;
    assert_eq!(asked_nodes(&run.take_handoff(late, 0, 10)), [0]);
}

#[test]
fn a_handoff_to_an_earlier_attempt_is_a_hint() {
    let mut run = Run::yielded(waiting_terms(3));
    let old = LeaseId::from_bits(99);
    assert_eq!(asked_nodes(&run.take_handoff_to(300, 1, old, 10)), [1]);
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    assert_eq!(asked_nodes(&run.take_handoff_to(300, 1, old, 10)), [1]);
}

#[test]
fn a_handoff_before_the_refusal_is_a_hint() {
    let mut run = Run::start(waiting_terms(3));
    assert_eq!(run.take_handoff(3, 0, 10), [], "node 0 still owes an answer");
    run.take(4, 1, held_in(9, BEHIND_VOTER));
    assert_eq!(asked_nodes(&run.take(4, 0, held_in(9, BEHIND_VOTER))), [0], "the handoff discards the refusal");
}

#[test]
fn handoffs_and_grants_form_a_majority_together() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    run.take_handoff(300, 2, 10);
    let steps = run.hint(301, 0);
    assert_eq!((asked_nodes(&steps), proposal(&steps)), (alloc::vec![0], 10), "equal proposals give equal fences");
    expect_win(&run.take(302, 0, grant(10, 301)));
}

#[test]
fn handoffs_with_different_fences_are_sealed() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    run.take_handoff(300, 2, 10);
    let steps = run.take_handoff(301, 0, 12);
    assert_eq!((asked_nodes(&steps), proposal(&steps)), (alloc::vec![2], 12));
    expect_win(&run.take(302, 2, grant(12, 301)));
}

#[test]
fn a_waiter_with_one_handoff_asks_the_other_nodes_if_no_more_arrive() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    run.tick(200);
    run.take_handoff(300, 0, 10);
    assert_eq!(first_ask(&run.tick(499)), None);
    assert_eq!(asked_nodes(&run.tick(500)), [1, 2], "a node deadline after the handoff");
}

#[test]
fn a_waiter_yields_a_handoff_to_a_lower_ticket() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    run.take_handoff(300, 0, 10);
    run.tick(500);
    let steps = run.take(501, 1, held_in(9, SECOND));
    assert!(matches!(steps[0], Step::Release { parting: Some(Parting::Yield(_)), .. }));
}

#[test]
fn a_handoff_of_a_node_that_has_not_answered_is_a_hint() {
    let mut run = Run::start(waiting_terms(3));
    run.take(4, 0, held_in(9, BEHIND_VOTER));
    run.take(4, 1, held_in(9, BEHIND_VOTER));
    run.tick(200);
    assert_eq!(first_ask(&run.take_handoff(300, 0, 10)), None, "node 0 refused the last request");
    assert_eq!(asked_nodes(&run.take_handoff(301, 2, 10)), [2], "node 2 has not answered");
}
