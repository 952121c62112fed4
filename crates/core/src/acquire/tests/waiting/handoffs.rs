//! Votes that come without having been asked for again.

use super::*;
use crate::digest::Digest;
use crate::vote::Handoff;

impl Run {
    fn detached(&mut self, now: u64, node: usize, fence: u64) -> Vec<Step> {
        self.handed_to(now, node, self.attempt, fence)
    }

    fn handed_to(&mut self, now: u64, node: usize, attempt: LeaseId, fence: u64) -> Vec<Step> {
        let clock = i64::try_from(CLOCK + now * 1_000).unwrap();
        let handoff = Handoff { attempt: Digest::of(attempt), fence: Fence::new(fence) };
        let steps = self.acquire.take_handoff(node, handoff, at(now), Some(clock), &mut self.rng);
        self.noting(steps)
    }
}

/// Refused by a holder with this fence, in answer to a question that was sent then.
fn refused_of(sent: u64) -> Outcome {
    match held_in(9, NEXT) {
        Outcome::Voted { vote, .. } => Outcome::Voted { vote, sent: at(sent) },
        silent @ Outcome::Silent(_) => silent,
    }
}

#[test]
fn a_majority_of_votes_that_were_handed_on_wins() {
    let mut run = Run::refused(waiting(3), NEXT);
    let attempt = run.attempt;
    assert_eq!(asked(&run.detached(300, 2, 10)), None, "there is nothing left to ask");
    let won = won(&run.detached(301, 0, 10));
    assert_eq!((won.attempt, won.fence), (attempt, Some(Fence::new(10))));
    assert_eq!(run.detached(302, 1, 10), []);
}

#[test]
fn validity_counts_from_the_request_that_was_refused() {
    let mut run = Run::asking(waiting(3));
    for (node, sent) in [(0, 10), (1, 20), (2, 30)] {
        run.take(40, node, refused_of(sent));
    }
    run.detached(300, 2, 10);
    let won = won(&run.detached(301, 0, 10));
    assert_eq!(won.acks, [Some(at(10)), None, Some(at(30))]);
}

#[test]
fn a_vote_that_was_handed_on_too_late_is_a_hint() {
    let mut run = Run::refused(waiting(3), NEXT);
    let late = run.acquire.terms.ttl.as_millis() - 1;
    assert_eq!(asked_nodes(&run.detached(late, 0, 10)), [0]);
}

#[test]
fn a_vote_for_an_attempt_that_is_over_is_a_hint() {
    let mut run = Run::yielded(waiting(3));
    let old = LeaseId::from_bits(99);
    assert_eq!(asked_nodes(&run.handed_to(300, 1, old, 10)), [1]);
    let mut run = Run::refused(waiting(3), NEXT);
    assert_eq!(asked_nodes(&run.handed_to(300, 1, old, 10)), [1]);
}

#[test]
fn the_waiter_waits_for_missing_answers() {
    let mut run = Run::asking(waiting(3));
    assert_eq!(run.detached(3, 0, 10), [], "the answer comes behind it");
    run.take(4, 1, held_in(9, NEXT));
    assert_eq!(asked_nodes(&run.take(4, 0, held_in(9, NEXT))), [0], "and was given before");
}

#[test]
fn votes_that_were_asked_for_and_votes_that_were_handed_on_add_up() {
    let mut run = Run::refused(waiting(3), NEXT);
    run.detached(300, 2, 10);
    let steps = run.hint(301, 0);
    assert_eq!((asked_nodes(&steps), proposal(&steps)), (alloc::vec![0], 10), "so that the fences are equal");
    won(&run.take(302, 0, grant(10, 301)));
}

#[test]
fn fences_that_differ_are_sealed() {
    let mut run = Run::refused(waiting(3), NEXT);
    run.detached(300, 2, 10);
    let steps = run.detached(301, 0, 12);
    assert_eq!((asked_nodes(&steps), proposal(&steps)), (alloc::vec![2], 12));
    won(&run.take(302, 2, grant(12, 301)));
}

#[test]
fn one_vote_that_was_handed_on_makes_it_ask_the_others_in_time() {
    let mut run = Run::refused(waiting(3), NEXT);
    run.tick(200);
    run.detached(300, 0, 10);
    assert_eq!(asked(&run.tick(499)), None);
    assert_eq!(asked_nodes(&run.tick(500)), [1, 2], "a node deadline after the handoff");
}

#[test]
fn a_vote_that_was_handed_on_is_given_back_to_a_lower_ticket() {
    let mut run = Run::refused(waiting(3), NEXT);
    run.detached(300, 0, 10);
    run.tick(500);
    let steps = run.take(501, 1, held_in(9, SECOND));
    assert!(matches!(steps[0], Step::Release { parting: Some(Parting::Yield(_)), .. }));
}

#[test]
fn silence_takes_back_what_was_refused() {
    let mut run = Run::asking(waiting(3));
    run.take(4, 0, held_in(9, NEXT));
    run.take(4, 1, held_in(9, NEXT));
    run.tick(200);
    assert_eq!(asked(&run.detached(300, 0, 10)), None, "it has refused, and nothing was asked since");
    assert_eq!(asked_nodes(&run.detached(301, 2, 10)), [2], "it has not answered");
}
