//! The quick scenarios show that all rules together are sufficient, and that each rule is needed. Other tests show the
//! limits of the rules.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quorlock_model::report::RuleResult;
use quorlock_model::scenario::{ALL, detached_and_repaired_lease, two_restarts_of_a_trusted_node};
use quorlock_model::search::{find_shortest_violation, search_all_states};
use quorlock_model::setup::{Budget, Receiver, Setup};
use quorlock_model::world::Violation;

#[test]
fn the_rules_are_sufficient_and_each_is_needed_as_on_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/evidence/model.md");
    let page = fs::read_to_string(page).expect("the page of the search");
    let mut failures = Vec::new();
    for row in ALL.iter().filter(|scenario| scenario.is_quick).map(RuleResult::search) {
        failures.extend(row.failure());
        if !page.lines().any(|line| line == row.table_row()) {
            failures.push(format!("the page is out of date, run ./x model --write: {}", row.table_row()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_clock_that_steps_back_between_two_trusted_restarts_repeats_a_fence() {
    let setup = two_restarts_of_a_trusted_node();
    let budget = Budget { clock_jumps: 1, ..setup.budget };
    let found = find_shortest_violation(&Arc::new(Setup { jump_micros: -1_000, budget, ..setup }));
    assert_eq!(found.counter_example.map(|counter_example| counter_example.violation), Some(Violation::FenceOrder));
}

/// No client knows for certain when a detached lease ends. A request of the winner that is in flight for longer than
/// the lease may create a vote again. A receiver that still extends the lease then finds a majority, although another
/// client may have held the lock in between.
#[test]
fn a_request_that_is_late_by_a_ttl_may_revive_a_detached_lease() {
    let found = find_shortest_violation(&Arc::new(detached_and_repaired_lease(Receiver::Careless)));
    assert_eq!(
        found.counter_example.map(|counter_example| counter_example.violation),
        Some(Violation::LostLeaseRevived)
    );
    let found = search_all_states(&Arc::new(detached_and_repaired_lease(Receiver::Obedient)));
    assert!(
        found.is_complete && found.counter_example.is_none(),
        "a receiver that stops at the end of the lease must cause no violation"
    );
}
