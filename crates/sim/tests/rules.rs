//! The rules are enough, and each of them is needed: the scenarios that take seconds.

use quorlock_sim::report::Row;
use quorlock_sim::scenario::ALL;

#[test]
fn the_rules_are_enough_and_each_is_needed() {
    let complaints =
        ALL.iter().filter(|scenario| scenario.is_quick).filter_map(|scenario| Row::search(scenario).complaint());
    let complaints: Vec<String> = complaints.collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
