use super::*;
use crate::vote::{FREE_LISTED_MAX, GrantedSlot};

fn acquire_slot(permits: u32, first_slot: u32, attempt: LeaseId) -> Request {
    acquire_as(slot(permits, first_slot), attempt, CLOCK, None)
}

/// Returns the granted slot, and the other free slots.
fn granted_slot(vote: Vote) -> (u32, Vec<u32>) {
    match vote {
        Vote::Grant { slot: Some(GrantedSlot { index, free }), .. } => (index, free),
        other => panic!("no slot: {other:?}"),
    }
}

/// Returns a node of a semaphore with three slots: `A` has slot 1 and `B` has slot 2, both for one second.
fn node_with_two_holders() -> Node {
    let mut node = Node::new();
    assert_eq!(granted_slot(node.ask(T, &acquire_slot(3, 1, A))), (1, [2, 0].into()));
    assert_eq!(granted_slot(node.ask(T, &acquire_slot(3, 1, B))), (2, [0].into()));
    node
}

#[test]
fn a_node_grants_the_first_free_slot_in_search_order() {
    let mut node = node_with_two_holders();
    assert_eq!(granted_slot(node.ask(T, &acquire_slot(3, 1, C))), (0, [].into()));
    assert_eq!(granted_slot(Node::new().ask(T, &acquire_slot(3, 4, A))).0, 1, "the search starts at slot 4 modulo 3");
    let free = granted_slot(Node::new().ask(T, &acquire_slot(1_000, 7, A))).1;
    assert_eq!((free.len(), free[0]), (FREE_LISTED_MAX, 8), "the list of free slots is limited");
}

#[test]
fn an_acquire_is_refused_while_all_slots_are_taken() {
    let mut node = node_with_two_holders();
    node.grant(T, &acquire_slot(3, 0, C));
    let refused = node.ask(T, &acquire_slot(3, 0, D));
    assert_eq!(refused, held_by(Some(holder(C)), 1_000, CLOCK + 2));
    node.ask(T, &release(B));
    assert_eq!(granted_slot(node.ask(T, &acquire_slot(3, 0, D))), (2, [].into()), "B released this slot");
}

#[test]
fn a_repeated_acquire_keeps_its_slot_even_if_it_names_another_first_slot() {
    let mut node = node_with_two_holders();
    assert_eq!(granted_slot(node.ask(T + 100, &acquire_slot(3, 0, A))), (1, [0].into()));
    assert_eq!(node.entries(), [(B, T + 1_000), (A, T + 1_100)]);
}

#[test]
fn a_slot_is_free_again_at_its_own_expiry() {
    let mut node = node_with_two_holders();
    node.grant(T + 500, &renew_as(slot(3, 2), B, CLOCK, false));
    assert_eq!(granted_slot(node.ask(T + 1_001, &acquire_slot(3, 1, C))), (1, [0].into()));
    assert_eq!(node.vote(), Some((A, T + 2_001)));
}

#[test]
fn a_different_number_of_permits_is_refused_until_all_holders_have_left() {
    let mut node = node_with_two_holders();
    let refused = Vote::Refusal(Refusal::Permits { stored: 3 });
    assert_eq!(node.ask(T, &acquire_slot(2, 0, C)), refused);
    node.ask(T, &release(A));
    assert_eq!(node.ask(T, &acquire_slot(4, 0, C)), refused);
    node.ask(T, &release(B));
    assert_eq!(granted_slot(node.ask(T, &acquire_slot(4, 0, C))), (0, [1, 2, 3].into()));
}

#[test]
fn other_modes_are_refused_while_a_slot_is_taken() {
    for mode in [Mode::EXCLUSIVE, reentrant(OWNER), reader(OWNER)] {
        let refused = node_with_two_holders().ask(T, &acquire_as(mode, C, CLOCK, None));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{mode:?}: {refused:?}");
    }
    assert_eq!(Node::with_vote().ask(T, &acquire_slot(3, 0, B)), held_by(Some(holder(A)), 1_000, CLOCK));
}

#[test]
fn each_slot_has_a_fence_of_its_own() {
    let mut node = Node::new();
    assert_eq!(node.grant(T, &acquire_slot(3, 0, A)), CLOCK);
    assert_eq!(node.grant(T, &acquire_slot(3, 0, B)), CLOCK + 1);
    let sealed = node.grant(T, &acquire_as(slot(3, 0), A, CLOCK + 1, None));
    assert!(sealed > CLOCK + 1, "slot 1 has the fence {sealed}");
}

#[test]
fn a_repair_is_granted_only_in_its_own_slot() {
    let mut node = node_with_two_holders();
    let repair = |index| renew_as(slot(3, index), C, CLOCK, true);
    for index in [1, 2, 3] {
        let refused = node.ask(T, &repair(index));
        assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{index}: {refused:?}");
    }
    let other_permits = node.ask(T, &renew_as(slot(4, 0), C, CLOCK, true));
    assert!(matches!(other_permits, Vote::Refusal(Refusal::Held { .. })), "{other_permits:?}");
    assert_eq!(node.ask(T, &renew_as(slot(3, 0), C, CLOCK, false)), Vote::Refusal(Refusal::Absent));
    assert_eq!(granted_slot(node.ask(T, &repair(0))).0, 0);
    assert_eq!(granted_slot(Node::new().ask(T, &repair(2))).0, 2, "a node without a vote");
}

#[test]
fn a_renewal_of_one_slot_does_not_renew_another() {
    let mut node = node_with_two_holders();
    let before = node.record.clone();
    let renew_slot = |index, repair| renew_as(slot(3, index), A, CLOCK, repair);
    assert_eq!(node.ask(T, &renew_slot(0, false)), Vote::Refusal(Refusal::Absent));
    assert!(matches!(node.ask(T, &renew_slot(2, true)), Vote::Refusal(Refusal::Held { .. })), "B has slot 2");
    assert_eq!(node.record, before);
    assert_eq!(granted_slot(node.ask(T, &renew_slot(0, true))).0, 0, "a repair moves A to slot 0");
    assert_eq!(granted_slot(node.ask(T, &acquire_slot(3, 1, C))).0, 1, "the repair released slot 1");
    assert_eq!(granted_slot(node.ask(T, &renew_slot(0, false))).0, 0);
    assert_eq!(node.entries().len(), 3);
}
