use super::*;
use crate::vote::{FREE_LISTED_MAX, GrantedSlot};

fn take(permits: u32, start: u32, attempt: LeaseId) -> Request {
    acquire_as(slot(permits, start), attempt, CLOCK, None)
}

/// Which slot it was, and which others were free.
fn given(vote: Vote) -> (u32, Vec<u32>) {
    match vote {
        Vote::Grant { slot: Some(GrantedSlot { index, free }), .. } => (index, free),
        other => panic!("no slot: {other:?}"),
    }
}

/// `A` in slot 1 of three, `B` in slot 2, both for a second.
fn taken_by_two() -> Node {
    let mut node = Node::new();
    assert_eq!(given(node.ask(T, &take(3, 1, A))), (1, [2, 0].into()));
    assert_eq!(given(node.ask(T, &take(3, 1, B))), (2, [0].into()));
    node
}

#[test]
fn the_next_free_slot_is_given_in_the_order_of_looking() {
    let mut node = taken_by_two();
    assert_eq!(given(node.ask(T, &take(3, 1, C))), (0, [].into()));
    assert_eq!(given(Node::new().ask(T, &take(3, 4, A))).0, 1, "from any number");
    let free = given(Node::new().ask(T, &take(1_000, 7, A))).1;
    assert_eq!((free.len(), free[0]), (FREE_LISTED_MAX, 8), "a long list is cut short");
}

#[test]
fn when_all_slots_are_taken_the_next_one_is_refused() {
    let mut node = taken_by_two();
    node.grants(T, &take(3, 0, C));
    let refused = node.ask(T, &take(3, 0, D));
    assert_eq!(refused, held_by(Some(holder(C)), 1_000, CLOCK + 2));
    node.ask(T, &release(B));
    assert_eq!(given(node.ask(T, &take(3, 0, D))), (2, [].into()), "the one that was given back");
}

#[test]
fn a_repeat_keeps_its_slot_wherever_it_looks() {
    let mut node = taken_by_two();
    assert_eq!(given(node.ask(T + 100, &take(3, 0, A))), (1, [0].into()));
    assert_eq!(node.entries(), [(B, T + 1_000), (A, T + 1_100)]);
}

#[test]
fn a_slot_is_free_again_at_its_own_expiry() {
    let mut node = taken_by_two();
    node.grants(T + 500, &renew_as(slot(3, 2), B, CLOCK, false));
    assert_eq!(given(node.ask(T + 1_001, &take(3, 1, C))), (1, [0].into()));
    assert_eq!(node.vote(), Some((A, T + 2_001)));
}

#[test]
fn another_number_of_permits_is_refused_until_all_have_left() {
    let mut node = taken_by_two();
    let refused = Vote::Refusal(Refusal::Permits { stored: 3 });
    assert_eq!(node.ask(T, &take(2, 0, C)), refused);
    node.ask(T, &release(A));
    assert_eq!(node.ask(T, &take(4, 0, C)), refused);
    node.ask(T, &release(B));
    assert_eq!(given(node.ask(T, &take(4, 0, C))), (0, [1, 2, 3].into()));
}

#[test]
fn the_others_are_kept_out_while_a_slot_is_taken() {
    for mode in [Mode::EXCLUSIVE, enters(OWNER), reads(OWNER)] {
        let refused = taken_by_two().ask(T, &acquire_as(mode, C, CLOCK, None));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{mode:?}: {refused:?}");
    }
    assert_eq!(Node::voted().ask(T, &take(3, 0, B)), held_by(Some(holder(A)), 1_000, CLOCK));
}

#[test]
fn each_slot_has_a_fence_of_its_own() {
    let mut node = Node::new();
    assert_eq!(node.grants(T, &take(3, 0, A)), CLOCK);
    assert_eq!(node.grants(T, &take(3, 0, B)), CLOCK + 1);
    let sealed = node.grants(T, &acquire_as(slot(3, 0), A, CLOCK + 1, None));
    assert!(sealed > CLOCK + 1, "{sealed} is another slot's");
}

#[test]
fn a_repair_takes_its_own_slot_or_none() {
    let mut node = taken_by_two();
    let repair = |index| renew_as(slot(3, index), C, CLOCK, true);
    for index in [1, 2, 3] {
        let refused = node.ask(T, &repair(index));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{index}: {refused:?}");
    }
    let other = node.ask(T, &renew_as(slot(4, 0), C, CLOCK, true));
    assert!(matches!(other, Vote::Refusal(Refusal::Held { .. })), "of another semaphore: {other:?}");
    assert_eq!(node.ask(T, &renew_as(slot(3, 0), C, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    assert_eq!(given(node.ask(T, &repair(0))).0, 0);
    assert_eq!(given(Node::new().ask(T, &repair(2))).0, 2, "where nothing stands, too");
}

#[test]
fn a_renewal_of_one_slot_is_no_vote_for_another() {
    let mut node = taken_by_two();
    let before = node.record.clone();
    let won_elsewhere = |index, repair| renew_as(slot(3, index), A, CLOCK, repair);
    assert_eq!(node.ask(T, &won_elsewhere(0, false)), Vote::Refusal(Refusal::Absent));
    assert!(matches!(node.ask(T, &won_elsewhere(2, true)), Vote::Refusal(Refusal::Held { .. })), "it is B's");
    assert_eq!(node.record, before);
    assert_eq!(given(node.ask(T, &won_elsewhere(0, true))).0, 0, "a repair moves it");
    assert_eq!(given(node.ask(T, &take(3, 1, C))).0, 1, "and gives the other back");
    assert_eq!(given(node.ask(T, &won_elsewhere(0, false))).0, 0);
    assert_eq!(node.entries().len(), 3);
}
