//! Searches shared locks, reentrant locks and semaphores, most of them while a server restarts: all rules together are
//! sufficient, and the rule under test is needed. `./x model` also searches the setups of the first two tests with a
//! holder that releases.

use std::sync::Arc;

use quorlock_model::scenario::{
    owner_with_two_entries_and_restart, reader_and_writer_with_restart, reader_with_two_entries_and_writer,
    two_owners_with_restart, two_readers_and_writer_with_restart, two_slots_with_restart,
};
use quorlock_model::search::{find_shortest_violation, search_all_states};
use quorlock_model::setup::{Budget, Flaw, Setup};
use quorlock_model::world::Violation;

/// The setup without releases.
fn without_releases(setup: Setup) -> Setup {
    Setup { budget: Budget { releases: 0, ..setup.budget }, ..setup }
}

/// Checks that there is no violation with all rules, and two holders with the flaw.
fn assert_two_holders_only_with(flaw: Flaw, setup: Setup) {
    assert_violation_only_with(flaw, setup, Violation::TwoHolders);
}

/// Checks that there is no violation with all rules, and this violation with the flaw.
fn assert_violation_only_with(flaw: Flaw, setup: Setup, violation: Violation) {
    let found = search_all_states(&Arc::new(setup.clone()));
    println!("{} states", found.states);
    assert!(found.is_complete && found.counter_example.is_none(), "{:#?}", found.counter_example);
    let found = find_shortest_violation(&Arc::new(Setup { flaw: Some(flaw), ..setup }));
    assert_eq!(found.counter_example.map(|counter_example| counter_example.violation), Some(violation));
}

#[test]
fn a_renewing_reader_and_a_writer_exclude_each_other_through_a_restart() {
    assert_two_holders_only_with(Flaw::NoQuarantine, without_releases(reader_and_writer_with_restart()));
}

#[test]
fn owners_exclude_each_other_through_a_restart() {
    assert_two_holders_only_with(Flaw::NoQuarantine, without_releases(two_owners_with_restart()));
}

#[test]
fn a_release_of_one_reader_keeps_the_other_readers_through_a_restart() {
    assert_two_holders_only_with(Flaw::ReleaseEndsAllEntries, two_readers_and_writer_with_restart());
}

#[test]
fn a_node_forgets_a_readers_fence_with_the_readers_last_entry() {
    assert_violation_only_with(Flaw::ReaderFenceKept, reader_with_two_entries_and_writer(), Violation::FenceOrder);
}

#[test]
fn a_release_of_one_entry_keeps_the_owners_other_entry_through_a_restart() {
    assert_two_holders_only_with(Flaw::ReleaseEndsAllEntries, owner_with_two_entries_and_restart());
}

#[test]
fn slots_have_one_holder_each_through_a_restart() {
    assert_two_holders_only_with(Flaw::NoQuarantine, two_slots_with_restart());
}
