//! The quick scenarios show that all rules together are sufficient, and that each rule is needed. Other tests show what
//! the rules do not guarantee.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quorlock_model::report::RuleResult;
use quorlock_model::scenario::{SCENARIOS, detached_and_repaired_lease, two_restarts_of_a_trusted_node};
use quorlock_model::search::{find_shortest_violation, search_all_states};
use quorlock_model::setup::{Budget, Receiver, Setup};
use quorlock_model::world::Violation;

#[test]
fn the_rules_are_sufficient_and_each_rule_is_needed_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/evidence/model.md");
    let page = fs::read_to_string(page).expect("the page of the search");
    let mut failures = Vec::new();
    for result in SCENARIOS.iter().filter(|scenario| scenario.is_quick).map(RuleResult::search) {
        failures.extend(result.failure());
        if !page.lines().any(|line| line == result.table_row()) {
            failures.push(format!("the page is out of date, run ./x model --write: {}", result.table_row()));
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

/// No client knows for certain when a detached lease ends. A request of the winner that arrives after the end of the
/// lease may create a vote again. If the receiver then still extends the lease, a majority grants the extension,
/// although another client may have held the lock in between.
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
