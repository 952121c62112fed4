//! In every order of delivery, a semaphore has never more holders than permits, and in some order as many as permits.

use quorlock_model::slots::{
    Slots, nodes_without_slots, three_for_one, three_for_two, three_for_two_and_a_lost_reply,
    three_for_two_and_late_releases, two_waiters_for_one,
};

/// The highest number of holders at one time.
fn max_holders(slots: Slots) -> usize {
    let (found, max_holders) = slots.search();
    println!("{} states", found.states);
    assert!(found.exhausted, "the search did not end");
    max_holders
}

#[test]
fn one_permit_has_one_holder() {
    assert_eq!(max_holders(three_for_one()), 1);
}

#[test]
fn two_permits_have_two_holders() {
    assert_eq!(max_holders(three_for_two()), 2);
}

#[test]
fn two_permits_have_two_holders_despite_a_lost_reply() {
    assert_eq!(max_holders(three_for_two_and_a_lost_reply()), 2);
}

#[test]
fn waiters_for_one_permit_hold_it_in_turn() {
    assert_eq!(max_holders(two_waiters_for_one()), 1);
}

#[test]
fn two_permits_have_two_holders_despite_late_releases() {
    assert_eq!(max_holders(three_for_two_and_late_releases()), 2);
}

#[test]
#[should_panic(expected = "slot")]
fn counting_permits_allows_two_holders_of_one_slot() {
    max_holders(nodes_without_slots());
}
