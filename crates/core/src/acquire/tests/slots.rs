//! One of several slots: settle on one, and seal its fences.

use super::*;
use crate::name::Channel;
use crate::testing::held_in;
use crate::vote::{GrantedSlot, QueuePosition, Vote};

const PERMITS: u32 = 3;

fn slots(nodes: usize) -> Terms {
    Terms { mode: Mode::Slot { permits: PERMITS, slot: 0 }, ..terms(nodes) }
}

fn granted<const F: usize>(fence: u64, index: u32, free: [u32; F]) -> Outcome {
    let slot = Some(GrantedSlot { index, free: free.to_vec() });
    Outcome::Voted { vote: Vote::Grant { fence: Fence::new(fence), slot }, sent: at(0) }
}

fn waiting(nodes: usize) -> Terms {
    Terms { channel: Some(Channel(7)), retry: patient(nodes).retry, ..slots(nodes) }
}

/// Three nodes have each granted another slot, and could have granted these.
fn split<const F: usize>(free: [u32; F]) -> [Outcome; 3] {
    [granted(7, 0, free), granted(7, 1, free), granted(7, 2, free)]
}

/// Where the nodes are asked to begin to look.
fn start(steps: &[Step]) -> u32 {
    match asked(steps) {
        Some((_, Request::Acquire { mode: Mode::Slot { permits: PERMITS, slot }, .. })) => *slot,
        other => panic!("not asked for a slot: {other:?}"),
    }
}

#[test]
fn a_majority_in_one_slot_wins_it_in_one_round() {
    let mut run = Run::asking(slots(3));
    let won = won(&run.take_all(4, [granted(7, 2, [0, 1]), granted(7, 2, [])]));
    assert_eq!((won.mode, won.fence), (Mode::Slot { permits: PERMITS, slot: 2 }, Some(Fence::new(7))));
}

#[test]
fn a_random_slot_is_asked_for_first_and_the_same_on_all_nodes() {
    let mut starts = Vec::new();
    for thrown in 0..PERMITS {
        let mut run = Run::new(slots(3));
        (0..thrown).for_each(|_| _ = run.rng.bits());
        starts.push(start(&run.tick(0)));
    }
    starts.sort_unstable();
    assert_eq!(starts, [0, 1, 2]);
}

#[test]
fn grants_in_another_slot_do_not_count() {
    let mut run = Run::asking(slots(3));
    assert_eq!(run.take_all(4, [granted(7, 0, [1]), granted(7, 1, [0])]), []);
    let won = won(&run.take(4, 2, granted(7, 1, [])));
    assert_eq!((won.mode, won.acks), (Mode::Slot { permits: PERMITS, slot: 1 }, sent([None, Some(0), Some(0)])));
}

#[test]
fn split_grants_settle_on_the_likeliest_slot_with_a_fresh_attempt() {
    let mut run = Run::asking(slots(3));
    let old = run.attempt;
    let steps = run.take_all(4, [granted(7, 0, [2]), granted(8, 1, [2]), granted(9, 2, [1])]);
    let nodes = NodeSet::first(3);
    assert_eq!(steps[0], Step::Release { attempt: old, nodes, parting: None });
    assert_eq!((asked(&steps).unwrap().0, start(&steps)), (alloc::vec![0, 1, 2], 2), "all three could give that one");
    assert!(proposal(&steps) > 9);
    assert_ne!(run.attempt, old);
    assert_eq!(run.take(5, 0, granted(7, 2, [])), []);
    assert_eq!(won(&run.take(5, 1, granted(7, 2, []))).mode, Mode::Slot { permits: PERMITS, slot: 2 });
}

#[test]
fn a_waiter_that_settles_keeps_its_place() {
    let mut run = Run::asking(waiting(3));
    let old = run.attempt;
    let steps = run.take_all(4, split([2]));
    let parting = run.acquire.waiter().map(Parting::Yield);
    assert_eq!(steps[0], Step::Release { attempt: old, nodes: NodeSet::first(3), parting });
    assert!(matches!(asked(&steps), Some((_, Request::Acquire { waiter: Some(_), .. }))));
}

#[test]
fn where_no_slot_can_come_to_a_majority_a_waiter_lets_the_others_go_first() {
    for (nodes, pause) in [(3, 50), (5, 200)] {
        let mut run = Run::asking(waiting(nodes));
        let old = run.attempt;
        (3..nodes).for_each(|node| drop(run.take(4, node, late())));
        let answers = split([]).into_iter().enumerate();
        let steps = answers.map(|(node, outcome)| run.take(4, node, outcome)).find(|steps| !steps.is_empty()).unwrap();
        assert!(matches!(steps[0], Step::Release { parting: Some(Parting::Yield(_)), .. }));
        assert_eq!(asked(&steps), None, "it would get back what it gave");
        run.tick(4 + pause - 1);
        assert_eq!(asked(&run.tick(4 + pause)).unwrap().0.len(), nodes, "those who wait for the silent do so longer");
        assert_ne!(run.attempt, old);
    }
    let mut run = Run::asking(slots(3));
    let steps = run.take_all(4, split([]));
    assert_eq!(run.defeated(&steps).verdict, Verdict::Held, "one who does not wait is turned away");
}

#[test]
fn a_waiter_with_a_refusal_yields_rather_than_settles() {
    let queue = QueuePosition { place: Some(2), waiting: 2, lower: true };
    let mut run = Run::asking(waiting(3));
    run.take(4, 0, granted(7, 0, []));
    let steps = run.take(4, 1, held_in(9, queue));
    assert!(matches!(steps[0], Step::Release { parting: Some(Parting::Yield(_)), .. }));
    assert_eq!(asked(&steps), None);
}

#[test]
fn it_settles_so_often_and_no_more() {
    let mut run = Run::asking(slots(3));
    for _ in 0..SETTLES_MAX {
        assert!(asked(&run.take_all(4, split([2]))).is_some());
    }
    let steps = run.take_all(4, split([2]));
    assert_eq!(run.defeated(&steps).verdict, Verdict::Held);
}

#[test]
fn nothing_is_settled_after_giving_up() {
    let mut run = Run::asking(Terms { give_up: Some(at(4)), ..slots(3) });
    let steps = run.take_all(4, split([2]));
    assert_eq!(run.defeated(&steps).verdict, Verdict::Held);
}

#[test]
fn a_slot_that_two_gave_with_unequal_fences_is_sealed_there_and_nowhere_else() {
    let mut run = Run::asking(slots(5));
    assert_eq!(run.take_all(4, [granted(50, 0, []), granted(7, 1, []), granted(8, 1, [])]), []);
    let steps = run.take(4, 3, granted(9, 1, []));
    assert_eq!(
        (asked(&steps).unwrap().0, proposal(&steps)),
        (alloc::vec![1, 2], 9),
        "the other slot's fence is no matter"
    );
    assert_eq!(run.take(5, 1, granted(9, 1, [])), []);
    let won = won(&run.take(5, 2, granted(9, 1, [])));
    assert_eq!((won.fence, won.sealed_late), (Some(Fence::new(9)), true));
    assert_eq!(won.acks, sent([None, Some(0), Some(0), Some(0), None]));
}

#[test]
fn other_permits_end_it() {
    let mut run = Run::asking(Terms { retry: patient(3).retry, ..slots(3) });
    let other = || refuse(Refusal::Permits { stored: 9 });
    let steps = run.take_all(4, [other(), other()]);
    let defeat = run.defeated(&steps);
    assert_eq!(defeat.verdict, Verdict::Mismatch);
    assert_eq!(defeat.tally.votes[0], NodeVote::Refused(Refusal::Permits { stored: 9 }), "with the number");
}
