//! The rules are sufficient, and each of them is needed: the quick scenarios. And the limits of the rules.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quorlock_model::report::Row;
use quorlock_model::scenario::{ALL, detached_and_repaired, one_trusted_node};
use quorlock_model::search::{exhaust, shortest};
use quorlock_model::setup::{Budget, Receiver, Setup};
use quorlock_model::world::Breach;

#[test]
fn the_rules_are_sufficient_and_each_is_needed_as_on_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/evidence/model.md");
    let page = fs::read_to_string(page).expect("the page of the search");
    let mut complaints = Vec::new();
    for row in ALL.iter().filter(|scenario| scenario.is_quick).map(Row::search) {
        complaints.extend(row.complaint());
        if !page.lines().any(|line| line == row.line()) {
            complaints.push(format!("the page is out of date, run ./x model --write: {}", row.line()));
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

/// The end of a detached lease is unknown. A request of its winner that is in flight for longer may grant it a vote
/// again, and a client that still extends it then finds a majority, although another client may have held the lock
/// meanwhile.
#[test]
fn a_request_late_by_a_ttl_may_revive_a_detached_lease() {
    let found = shortest(&Arc::new(detached_and_repaired(Receiver::Careless)));
    assert_eq!(found.counter.map(|counter| counter.breach), Some(Breach::Revived));
    let found = exhaust(&Arc::new(detached_and_repaired(Receiver::Obedient)));
    assert!(found.exhausted && found.counter.is_none(), "a receiver that stops at the end is never wrong");
}
