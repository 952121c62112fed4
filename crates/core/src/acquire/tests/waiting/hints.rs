//! What a hint leads to, and when.

use super::*;

#[test]
fn a_hint_asks_that_node_only_with_one_proposal_for_the_turn() {
    let mut run = Run::refused(waiting(3), NEXT);
    let first = run.attempt;
    let steps = run.hint(300, 2);
    assert_eq!((asked_nodes(&steps), proposal(&steps)), (alloc::vec![2], CLOCK + 300_000));
    let steps = run.hint(310, 0);
    assert_eq!(
        (asked_nodes(&steps), proposal(&steps)),
        (alloc::vec![0], CLOCK + 300_000),
        "so that the fences are equal"
    );
    assert_eq!(run.attempt, first);
    assert_eq!(run.take(311, 2, grant(CLOCK + 300_000, 300)), []);
    let won = won(&run.take(312, 0, grant(CLOCK + 300_000, 310)));
    assert_eq!((won.attempt, won.waiter), (first, run.acquire.waiter()), "its places are to be taken back later");
    assert_eq!(run.hint(313, 1), []);
}

#[test]
fn refusals_before_a_hint_do_not_count_after_it() {
    let mut run = Run::refused(waiting(3), SECOND);
    run.hint(300, 0);
    assert_eq!(run.take(301, 0, grant(50, 300)), [], "nobody is known to be lower now");
    let mut run = Run::asking(waiting(3));
    run.take_all(4, [held_in(9, NEXT), held_in(9, NEXT)]);
    run.hint(10, 0);
    let steps = run.take(11, 0, grant(50, 10));
    assert_eq!(steps, [], "nor if a third node owes its first answer");
    run.hint(12, 1);
    won(&run.take(13, 1, grant(50, 12)));
}

#[test]
fn forgotten_refusals_do_not_leave_it_without_a_poll() {
    let mut run = Run::asking(waiting(5));
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
fn a_hint_to_whoever_owes_an_answer_counts_after_a_refusal() {
    let mut run = Run::asking(waiting(3));
    assert_eq!((run.hint(1, 0), run.hint(1, 1), run.hint(2, 1)), (Vec::new(), Vec::new(), Vec::new()));
    assert_eq!(asked_nodes(&run.take(4, 0, held_in(9, FIRST))), [0], "it may be free since then");
    assert_eq!(run.take(5, 0, held_in(9, FIRST)), [], "once");
    assert_eq!(asked(&run.take(6, 1, grant(CLOCK, 0))), None);
    assert_eq!(asked(&run.take(7, 2, held_in(9, FIRST))), None, "nobody hinted there");
}

#[test]
fn a_refusal_before_a_hint_is_no_reason_to_yield() {
    let mut run = Run::asking(waiting(3));
    run.take(3, 0, grant(7, 0));
    run.hint(3, 1);
    let steps = run.take(4, 1, held_in(9, NEXT));
    assert_eq!((steps.len(), asked_nodes(&steps)), (1, alloc::vec![1]));
    won(&run.take(5, 1, grant(7, 4)));
}

#[test]
fn a_hint_outlives_the_yield_that_it_met() {
    let mut run = Run::asking(waiting(3));
    run.take(3, 0, grant(7, 0));
    run.hint(3, 2);
    let old = run.attempt;
    let steps = run.take(4, 1, held_in(9, SECOND));
    assert!(matches!(steps[0], Step::Release { attempt, .. } if attempt == old));
    assert_eq!(asked_nodes(&steps), [2]);
    assert_ne!(run.attempt, old);
}

#[test]
fn a_question_that_a_hint_has_led_to_outlives_the_yield_that_it_met() {
    let mut run = Run::asking(waiting(3));
    run.take(4, 0, held_in(9, NEXT));
    run.take(4, 1, held_in(9, NEXT));
    assert_eq!(asked_nodes(&run.hint(5, 0)), [0]);
    assert_eq!(asked_nodes(&run.hint(5, 1)), [1]);
    run.take(6, 0, grant(CLOCK + 5_000, 5));
    let before = run.attempt;
    let steps = run.take(7, 2, held_in(9, NEXT));
    assert_eq!(asked_nodes(&steps), [1], "it gave a hint to the one who asks, and will give none again");
    assert_ne!(run.attempt, before);
}

#[test]
fn a_vote_that_nobody_follows_up_with_hints_is_not_left_lying() {
    let mut run = Run::refused(waiting(3), NEXT);
    run.tick(200);
    run.hint(300, 0);
    run.take(301, 0, grant(50, 300));
    assert_eq!(asked(&run.tick(499)), None);
    assert_eq!(asked_nodes(&run.tick(500)), [1, 2], "a node deadline after the hint");
}

#[test]
fn hints_from_nowhere_are_ignored() {
    let mut run = Run::refused(waiting(3), SECOND);
    assert_eq!(run.hint(300, 3), []);
    assert_eq!(run.hint(300, usize::MAX), []);
    let mut run = Run::new(waiting(3));
    assert_eq!(run.hint(0, 0), [], "nothing was asked yet");
}

#[test]
fn a_lease_that_was_waited_for_counts_from_the_request_that_was_granted() {
    let mut run = Run::refused(waiting(3), NEXT);
    let (ticket, ttl) = (run.acquire.ticket(), run.acquire.terms.ttl.as_millis());
    let free = 3 * ttl;
    let mut polls = 0;
    for now in (0..free).step_by(1_000).skip(1) {
        if asked(&run.tick(now)).is_some() {
            polls += 1;
            (0..3).for_each(|node| drop(run.take(now + 4, node, held_in(9, NEXT))));
        }
    }
    assert!(polls > 20 && run.acquire.ticket() == ticket, "it has waited for longer than any lease lasts: {polls}");
    run.hint(free, 0);
    run.hint(free, 1);
    run.take(free + 4, 0, grant(50, free));
    let won = won(&run.take(free + 4, 1, grant(50, free)));
    assert_eq!(won.acks, sent([Some(free), Some(free), None]));
    assert_eq!(won.valid_until, at(free + ttl - 102), "the whole ttl, less drift");
}
