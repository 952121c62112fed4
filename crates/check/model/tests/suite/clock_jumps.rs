//! If votes expire by a wall clock that jumps, leases may overlap. Fences still differ and have the order of the votes:
//! no server grants the lower of two fences after the higher one.

use std::sync::Arc;

use quorlock_core::rules::Rule;
use quorlock_model::scenario::{
    votes_dropped_by_clock_jump, votes_dropped_by_clock_jump_with_waiter, votes_dropped_by_two_clock_jumps,
};
use quorlock_model::search::{find_shortest_violation, search_all_states};
use quorlock_model::setup::{Flaw, Setup};
use quorlock_model::world::Violation;

/// Checks that the search of this setup visits every state and finds no violation.
fn assert_fences_ordered(setup: Setup) {
    let found = search_all_states(&Arc::new(setup));
    println!("{} states", found.states);
    assert!(found.is_complete && found.counter_example.is_none(), "{:#?}", found.counter_example);
}

#[test]
fn fences_are_ordered_like_votes_that_a_clock_jump_drops() {
    assert_fences_ordered(votes_dropped_by_clock_jump());
}

#[test]
fn fences_are_ordered_like_votes_that_two_clock_jumps_drop() {
    assert_fences_ordered(votes_dropped_by_two_clock_jumps());
}

#[test]
fn fences_are_ordered_like_handed_over_votes_that_a_clock_jump_drops() {
    assert_fences_ordered(votes_dropped_by_clock_jump_with_waiter());
}

#[test]
fn without_equal_fences_a_clock_jump_puts_fences_out_of_order() {
    let flaw = Some(Flaw::Core(Rule::EqualFences));
    let found = find_shortest_violation(&Arc::new(Setup { flaw, ..votes_dropped_by_two_clock_jumps() }));
    assert_eq!(found.counter_example.map(|counter_example| counter_example.violation), Some(Violation::FenceOrder));
}
