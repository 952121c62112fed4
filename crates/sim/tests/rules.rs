//! The rules are enough, and each of them is needed: the scenarios that take seconds. And where they are not enough.

use std::sync::Arc;

use quorlock_sim::report::Row;
use quorlock_sim::scenario::{ALL, one_trusted_node};
use quorlock_sim::search::shortest;
use quorlock_sim::setup::{Budget, Setup};
use quorlock_sim::world::Breach;

#[test]
fn the_rules_are_enough_and_each_is_needed() {
    let complaints =
        ALL.iter().filter(|scenario| scenario.is_quick).filter_map(|scenario| Row::search(scenario).complaint());
    let complaints: Vec<String> = complaints.collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_clock_that_steps_back_between_two_trusted_restarts_repeats_a_fence() {
    let setup = one_trusted_node();
    let budget = Budget { jumps: 1, ..setup.budget };
    let found = shortest(&Arc::new(Setup { jump: -1_000, budget, ..setup }));
    assert_eq!(found.counter.map(|counter| counter.breach), Some(Breach::FenceOrder));
}
