//! Never more than k holders, in every order of delivery; and as many as there are permits.

use quorlock_model::slots::{
    Slots, nodes_without_slots, three_for_one, three_for_two, three_for_two_and_a_lost_reply,
    three_for_two_and_late_releases, two_who_wait_for_one,
};

/// The most holders at one time.
fn most_holders(slots: Slots) -> usize {
    let (found, most) = slots.search();
    println!("{} states", found.states);
    assert!(found.exhausted, "the search did not end");
    most
}

#[test]
fn one_permit_has_one_holder() {
    assert_eq!(most_holders(three_for_one()), 1);
}

#[test]
fn two_permits_have_two_holders() {
    assert_eq!(most_holders(three_for_two()), 2);
}

#[test]
fn two_permits_have_two_holders_despite_a_lost_reply() {
    assert_eq!(most_holders(three_for_two_and_a_lost_reply()), 2);
}

#[test]
fn waiters_for_one_permit_hold_it_in_turn() {
    assert_eq!(most_holders(two_who_wait_for_one()), 1);
}

#[test]
fn two_permits_have_two_holders_despite_late_releases() {
    assert_eq!(most_holders(three_for_two_and_late_releases()), 2);
}

#[test]
#[should_panic(expected = "slot")]
fn counting_permits_allows_two_holders_of_one_slot() {
    most_holders(nodes_without_slots());
}
