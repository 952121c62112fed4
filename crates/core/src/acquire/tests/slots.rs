//! Semaphores: the acquire settles on one slot and seals its fences.

use super::*;
use crate::name::Channel;
use crate::testing::held_in;
use crate::vote::{GrantedSlot, QueuePosition, Vote};

const PERMITS: u32 = 3;

fn slot_terms(nodes: usize) -> Terms {
    Terms { mode: Mode::Slot { permits: PERMITS, slot: 0 }, ..terms(nodes) }
}

fn grant_slot<const F: usize>(fence: u64, index: u32, free: [u32; F]) -> Outcome {
    let slot = Some(GrantedSlot { index, free: free.to_vec() });
    Outcome::Voted { vote: Vote::Grant { fence: Fence::new(fence), slot }, elector: Elector::at(0), sent: at(0) }
}

fn waiting_terms(nodes: usize) -> Terms {
    Terms { channel: Some(Channel(7)), retry: retrying_terms(nodes).retry, ..slot_terms(nodes) }
}

/// Returns grants of three different slots by three nodes. Each node also lists these free slots.
fn split_grants<const F: usize>(free: [u32; F]) -> [Outcome; 3] {
    [grant_slot(7, 0, free), grant_slot(7, 1, free), grant_slot(7, 2, free)]
}

/// Returns the slot that the nodes are asked to try first.
fn first_slot(steps: &[Step]) -> u32 {
    match first_ask(steps) {
        Some((_, Request::Acquire { mode: Mode::Slot { permits: PERMITS, slot }, .. })) => *slot,
        other => panic!("not asked for a slot: {other:?}"),
    }
}

#[test]
fn a_majority_for_one_slot_wins_in_one_round() {
    let mut run = Run::start(slot_terms(3));
    let won = expect_win(&run.take_all(4, [grant_slot(7, 2, [0, 1]), grant_slot(7, 2, [])]));
    assert_eq!((won.terms().mode, won.fence()), (Mode::Slot { permits: PERMITS, slot: 2 }, Some(Fence::new(7))));
}

#[test]
fn an_acquire_asks_for_a_random_slot_first() {
    let mut first_slots = Vec::new();
    for skipped in 0..PERMITS {
        let mut run = Run::new(slot_terms(3));
        (0..skipped).for_each(|_| _ = run.rng.bits());
        first_slots.push(first_slot(&run.tick(0)));
    }
    first_slots.sort_unstable();
    assert_eq!(first_slots, [0, 1, 2]);
}

#[test]
fn grants_of_different_slots_do_not_form_a_majority() {
    let mut run = Run::start(slot_terms(3));
    assert_eq!(run.take_all(4, [grant_slot(7, 0, [1]), grant_slot(7, 1, [0])]), []);
    let won = expect_win(&run.take(4, 2, grant_slot(7, 1, [])));
    assert_eq!(
        (won.terms().mode, acks(&won)),
        (Mode::Slot { permits: PERMITS, slot: 1 }, send_times([None, Some(0), Some(0)]))
    );
}

#[test]
fn an_acquire_with_split_grants_settles_on_the_likeliest_slot_with_a_new_attempt() {
    let mut run = Run::start(slot_terms(3));
    let old = run.attempt;
    let steps = run.take_all(4, [grant_slot(7, 0, [2]), grant_slot(8, 1, [2]), grant_slot(9, 2, [1])]);
    let nodes = NodeSet::first(3);
    assert_eq!(steps[0], Step::Release { attempt: old, nodes, parting: None });
    assert_eq!(
        (first_ask(&steps).unwrap().0, first_slot(&steps)),
        (alloc::vec![0, 1, 2], 2),
        "all three nodes granted slot 2 or listed it as free"
    );
    assert!(proposal(&steps) > 9);
    assert_ne!(run.attempt, old);
    assert_eq!(run.take(5, 0, grant_slot(7, 2, [])), []);
    assert_eq!(
        expect_win(&run.take(5, 1, grant_slot(7, 2, []))).terms().mode,
        Mode::Slot { permits: PERMITS, slot: 2 }
    );
}

#[test]
fn a_waiter_that_settles_keeps_its_queue_position() {
    let mut run = Run::start(waiting_terms(3));
    let old = run.attempt;
    let steps = run.take_all(4, split_grants([2]));
    let parting = run.acquire.waiter().map(Parting::Yield);
    assert_eq!(steps[0], Step::Release { attempt: old, nodes: NodeSet::first(3), parting });
    assert!(matches!(first_ask(&steps), Some((_, Request::Acquire { waiter: Some(_), .. }))));
}

#[test]
fn a_waiter_pauses_if_no_slot_can_get_a_majority() {
    for (nodes, pause) in [(3, 50), (5, 200)] {
        let mut run = Run::start(waiting_terms(nodes));
        let old = run.attempt;
        (3..nodes).for_each(|node| drop(run.take(4, node, late())));
        let answers = split_grants([]).into_iter().enumerate();
        let steps = answers.map(|(node, outcome)| run.take(4, node, outcome)).find(|steps| !steps.is_empty()).unwrap();
        assert!(matches!(steps[0], Step::Release { parting: Some(Parting::Yield(_)), .. }));
        assert_eq!(first_ask(&steps), None, "asking at once would win the same slots again");
        run.tick(4 + pause - 1);
        assert_eq!(first_ask(&run.tick(4 + pause)).unwrap().0.len(), nodes, "silent nodes make the pause longer");
        assert_ne!(run.attempt, old);
    }
    let mut run = Run::start(slot_terms(3));
    let steps = run.take_all(4, split_grants([]));
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::Held, "a client that does not wait fails");
}

#[test]
fn a_waiter_with_a_refusal_yields_rather_than_settles() {
    let queue = QueuePosition { position: Some(2), waiting: 2, lower: true };
    let mut run = Run::start(waiting_terms(3));
    run.take(4, 0, grant_slot(7, 0, []));
    let steps = run.take(4, 1, held_in(9, queue));
    assert!(matches!(steps[0], Step::Release { parting: Some(Parting::Yield(_)), .. }));
    assert_eq!(first_ask(&steps), None);
}

#[test]
fn an_acquire_settles_a_limited_number_of_times() {
    let mut run = Run::start(slot_terms(3));
    for _ in 0..SETTLES_MAX {
        assert!(first_ask(&run.take_all(4, split_grants([2]))).is_some());
    }
    let steps = run.take_all(4, split_grants([2]));
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::Held);
}

#[test]
fn an_acquire_does_not_settle_after_its_deadline() {
    let mut run = Run::start(Terms { give_up: Some(at(4)), ..slot_terms(3) });
    let steps = run.take_all(4, split_grants([2]));
    assert_eq!(run.expect_defeat(&steps).verdict, Verdict::Held);
}

#[test]
fn a_seal_asks_only_the_nodes_that_granted_the_winning_slot() {
    let mut run = Run::start(slot_terms(5));
    assert_eq!(run.take_all(4, [grant_slot(50, 0, []), grant_slot(7, 1, []), grant_slot(8, 1, [])]), []);
    let steps = run.take(4, 3, grant_slot(9, 1, []));
    assert_eq!(
        (first_ask(&steps).unwrap().0, proposal(&steps)),
        (alloc::vec![1, 2], 9),
        "the fence of slot 0 is ignored"
    );
    assert_eq!(run.take(5, 1, grant_slot(9, 1, [])), []);
    let steps = run.take(5, 2, grant_slot(9, 1, []));
    let won = expect_win(&steps);
    assert_eq!((won.fence(), was_sealed_late(&steps)), (Some(Fence::new(9)), true));
    assert_eq!(acks(&won), send_times([None, Some(0), Some(0), Some(0), None]));
}

#[test]
fn a_different_number_of_permits_ends_the_acquire() {
    let mut run = Run::start(Terms { retry: retrying_terms(3).retry, ..slot_terms(3) });
    let other_permits = || refuse(Refusal::Permits { stored: 9 });
    let steps = run.take_all(4, [other_permits(), other_permits()]);
    let defeat = run.expect_defeat(&steps);
    assert_eq!(defeat.verdict, Verdict::Mismatch);
    assert_eq!(defeat.tally.votes[0], NodeVote::Refused(Refusal::Permits { stored: 9 }));
}
