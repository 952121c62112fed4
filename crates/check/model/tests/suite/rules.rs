//! The rules are enough, and each of them is needed: the scenarios that take seconds. And where they are not enough.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quorlock_model::report::Row;
use quorlock_model::scenario::{ALL, detached_and_repaired, one_trusted_node};
use quorlock_model::search::{exhaust, shortest};
use quorlock_model::setup::{Budget, Heir, Setup};
use quorlock_model::world::Breach;

#[test]
fn the_rules_are_enough_and_each_is_needed_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/evidence/model.md");
    let page = fs::read_to_string(page).expect("the page of the search");
    let mut complaints = Vec::new();
    for row in ALL.iter().filter(|scenario| scenario.is_quick).map(Row::search) {
        complaints.extend(row.complaint());
        if !page.lines().any(|line| line == row.line()) {
            complaints.push(format!("./x model has to write the page again: {}", row.line()));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_clock_that_steps_back_between_two_trusted_restarts_repeats_a_fence() {
    let setup = one_trusted_node();
    let budget = Budget { jumps: 1, ..setup.budget };
    let found = shortest(&Arc::new(Setup { jump: -1_000, budget, ..setup }));
    assert_eq!(found.counter.map(|counter| counter.breach), Some(Breach::FenceOrder));
}

/// Of a lease that was detached nobody knows its end. A request of its winner that was under way for longer than that may give
/// it a vote again, and whoever still extends it then finds a majority: somebody else has had the lock meanwhile, if nobody
/// holds it now.
#[test]
fn a_request_that_is_late_by_a_ttl_may_bring_back_a_lease_that_was_handed_over() {
    let found = shortest(&Arc::new(detached_and_repaired(Heir::Careless)));
    assert_eq!(found.counter.map(|counter| counter.breach), Some(Breach::Revived));
    let found = exhaust(&Arc::new(detached_and_repaired(Heir::Obedient)));
    assert!(found.exhausted && found.counter.is_none(), "whoever stops at its end is never mistaken");
}
