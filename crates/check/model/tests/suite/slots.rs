//! A semaphore never has more holders than permits (slots), in any order of delivery. In some order, all permits have
//! holders.

use quorlock_model::slots::{
    SlotSearch, nodes_that_count_permits, three_clients_for_one_slot, three_clients_for_two_slots,
    three_clients_for_two_slots_and_a_lost_reply, three_clients_for_two_slots_and_late_releases,
    two_waiters_for_one_slot,
};

/// The highest number of holders at the same time, in all states.
fn max_holders(search: SlotSearch) -> usize {
    let (found, max_holders) = search.search();
    println!("{} states", found.states);
    assert!(found.is_complete, "the search did not end");
    max_holders
}

#[test]
fn one_permit_has_one_holder() {
    assert_eq!(max_holders(three_clients_for_one_slot()), 1);
}

#[test]
fn two_permits_have_two_holders() {
    assert_eq!(max_holders(three_clients_for_two_slots()), 2);
}

#[test]
fn two_permits_have_two_holders_despite_a_lost_reply() {
    assert_eq!(max_holders(three_clients_for_two_slots_and_a_lost_reply()), 2);
}

#[test]
fn waiters_for_one_permit_hold_it_in_turn() {
    assert_eq!(max_holders(two_waiters_for_one_slot()), 1);
}

#[test]
fn two_permits_have_two_holders_despite_late_releases() {
    assert_eq!(max_holders(three_clients_for_two_slots_and_late_releases()), 2);
}

#[test]
#[should_panic(expected = "slot")]
fn counting_permits_allows_two_holders_of_one_slot() {
    max_holders(nodes_that_count_permits());
}
