//! How a waiter reacts to hints.

use super::*;

#[test]
fn a_hint_asks_only_its_own_node_and_with_the_proposal_of_the_turn() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    let first = run.attempt;
    let steps = run.hint(300, 2);
    assert_eq!((asked_nodes(&steps), proposal(&steps)), (alloc::vec![2], CLOCK + 300_000));
    let steps = run.hint(310, 0);
    assert_eq!(
        (asked_nodes(&steps), proposal(&steps)),
        (alloc::vec![0], CLOCK + 300_000),
        "equal proposals give equal fences"
    );
    assert_eq!(run.attempt, first);
    assert_eq!(run.take(311, 2, grant(CLOCK + 300_000, 300)), []);
    let won = expect_win(&run.take(312, 0, grant(CLOCK + 300_000, 310)));
    assert_eq!(
        (won.attempt(), run.acquire.waiter().is_some()),
        (first, true),
        "the lease must release the queue positions later"
    );
    assert_eq!(run.hint(313, 1), []);
}

#[test]
fn a_hint_discards_earlier_refusals() {
    let mut run = Run::refused(waiting_terms(3), SECOND);
    run.hint(300, 0);
    assert_eq!(run.take(301, 0, grant(50, 300)), [], "the refusals that named a lower ticket are discarded");
    let mut run = Run::start(waiting_terms(3));
    run.take_all(4, [held_in(9, BEHIND_VOTER), held_in(9, BEHIND_VOTER)]);
    run.hint(10, 0);
    let steps = run.take(11, 0, grant(50, 10));
    assert_eq!(steps, [], "node 2 still owes its first answer");
    run.hint(12, 1);
    expect_win(&run.take(13, 1, grant(50, 12)));
}

#[test]
fn a_waiter_polls_even_if_hints_have_discarded_all_refusals() {
    let mut run = Run::start(waiting_terms(5));
    for node in 0..4 {
        run.hint(5, node);
        run.take(6, node, held_in(9, SECOND));
        run.take(6, node, held_in(9, SECOND));
        run.hint(7, node);
        run.take(8, node, held_in(9, SECOND));
    }
    run.take(9, 4, held_in(9, SECOND));
    run.tick(208);
    assert_eq!(asked_nodes(&run.tick(1_100)), [0, 1, 2, 3, 4]);
}

#[test]
fn a_hint_of_a_node_that_owes_an_answer_counts_after_its_refusal() {
    let mut run = Run::start(waiting_terms(3));
    assert_eq!((run.hint(1, 0), run.hint(1, 1), run.hint(2, 1)), (Vec::new(), Vec::new(), Vec::new()));
    assert_eq!(asked_nodes(&run.take(4, 0, held_in(9, FIRST))), [0], "node 0 may have become free after the refusal");
    assert_eq!(run.take(5, 0, held_in(9, FIRST)), [], "the hint counts once");
    assert_eq!(first_ask(&run.take(6, 1, grant(CLOCK, 0))), None);
    assert_eq!(first_ask(&run.take(7, 2, held_in(9, FIRST))), None, "node 2 sent no hint");
}

#[test]
fn a_waiter_does_not_yield_because_of_a_refusal_that_was_sent_before_a_hint() {
    let mut run = Run::start(waiting_terms(3));
    run.take(3, 0, grant(7, 0));
    run.hint(3, 1);
    let steps = run.take(4, 1, held_in(9, BEHIND_VOTER));
    assert_eq!((steps.len(), asked_nodes(&steps)), (1, alloc::vec![1]));
    expect_win(&run.take(5, 1, grant(7, 4)));
}

#[test]
fn a_hint_before_a_yield_still_counts_after_the_yield() {
    let mut run = Run::start(waiting_terms(3));
    run.take(3, 0, grant(7, 0));
    run.hint(3, 2);
    let old = run.attempt;
    let steps = run.take(4, 1, held_in(9, SECOND));
    assert!(matches!(steps[0], Step::Release { attempt, .. } if attempt == old));
    assert_eq!(asked_nodes(&steps), [2]);
    assert_ne!(run.attempt, old);
}

#[test]
fn a_request_that_a_hint_caused_is_repeated_after_a_yield() {
    let mut run = Run::start(waiting_terms(3));
    run.take(4, 0, held_in(9, BEHIND_VOTER));
    run.take(4, 1, held_in(9, BEHIND_VOTER));
    assert_eq!(asked_nodes(&run.hint(5, 0)), [0]);
    assert_eq!(asked_nodes(&run.hint(5, 1)), [1]);
    run.take(6, 0, grant(CLOCK + 5_000, 5));
    let before = run.attempt;
    let steps = run.take(7, 2, held_in(9, BEHIND_VOTER));
    assert_eq!(asked_nodes(&steps), [1], "node 1 sent its hint and sends no other");
    assert_ne!(run.attempt, before);
}

#[test]
fn a_waiter_with_one_vote_asks_the_other_nodes_if_no_more_hints_arrive() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    run.tick(200);
    run.hint(300, 0);
    run.take(301, 0, grant(50, 300));
    assert_eq!(first_ask(&run.tick(499)), None);
    assert_eq!(asked_nodes(&run.tick(500)), [1, 2], "a node deadline after the hint");
}

#[test]
fn hints_of_unknown_nodes_or_before_the_first_request_are_ignored() {
    let mut run = Run::refused(waiting_terms(3), SECOND);
    assert_eq!(run.hint(300, 3), []);
    assert_eq!(run.hint(300, usize::MAX), []);
    let mut run = Run::new(waiting_terms(3));
    assert_eq!(run.hint(0, 0), [], "no node was asked yet");
}

#[test]
fn validity_after_a_wait_counts_from_the_granted_request() {
    let mut run = Run::refused(waiting_terms(3), BEHIND_VOTER);
    let (ticket, ttl) = (run.acquire.ticket(), run.acquire.terms.ttl.as_millis());
    let released_at = 3 * ttl;
    let mut polls = 0;
    for now in (0..released_at).step_by(1_000).skip(1) {
        if first_ask(&run.tick(now)).is_some() {
            polls += 1;
            (0..3).for_each(|node| drop(run.take(now + 4, node, held_in(9, BEHIND_VOTER))));
        }
    }
    assert!(polls > 20 && run.acquire.ticket() == ticket, "the wait was shorter than a lease: {polls} polls");
    run.hint(released_at, 0);
    run.hint(released_at, 1);
    run.take(released_at + 4, 0, grant(50, released_at));
    let won = expect_win(&run.take(released_at + 4, 1, grant(50, released_at)));
    assert_eq!(acks(&won), send_times([Some(released_at), Some(released_at), None]));
    assert_eq!(won.valid_until(), at(released_at + ttl - 102), "the whole ttl less drift");
}
