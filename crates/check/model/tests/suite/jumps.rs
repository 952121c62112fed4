//! If votes expire by a wall clock that jumps, leases may overlap. Fences still differ, and are ordered like the votes.

use std::sync::Arc;

use quorlock_core::rules::Rule;
use quorlock_model::scenario::{votes_that_vanish, votes_that_vanish_before_a_waiter, votes_that_vanish_twice};
use quorlock_model::search::{exhaust, shortest};
use quorlock_model::setup::{Flaw, Setup};
use quorlock_model::world::Breach;

fn assert_ordered(setup: Setup) {
    let found = exhaust(&Arc::new(setup));
    println!("{} states", found.states);
    assert!(found.exhausted && found.counter.is_none(), "{:#?}", found.counter);
}

#[test]
fn fences_are_ordered_like_votes_that_vanish() {
    assert_ordered(votes_that_vanish());
}

#[test]
fn fences_are_ordered_like_votes_that_vanish_twice() {
    assert_ordered(votes_that_vanish_twice());
}

#[test]
fn fences_are_ordered_like_votes_that_are_handed_over_and_vanish() {
    assert_ordered(votes_that_vanish_before_a_waiter());
}

#[test]
fn without_equal_fences_votes_that_vanish_put_them_out_of_order() {
    let flaw = Some(Flaw::Core(Rule::EqualFences));
    let found = shortest(&Arc::new(Setup { flaw, ..votes_that_vanish_twice() }));
    assert_eq!(found.counter.map(|counter| counter.breach), Some(Breach::FenceOrder));
}
