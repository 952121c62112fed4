//! Locks that several clients hold together, through a restart: the rules are sufficient, and each is needed.
//! `./x model` also searches the first two with a holder that releases.

use std::sync::Arc;

use quorlock_model::scenario::{
    a_reader_a_writer_and_a_restart, a_reader_who_reads_again_and_a_writer, an_owner_who_enters_twice_and_a_restart,
    two_for_two_slots_and_a_restart, two_owners_and_a_restart, two_readers_a_writer_and_a_restart,
};
use quorlock_model::search::{exhaust, shortest};
use quorlock_model::setup::{Budget, Flaw, Setup};
use quorlock_model::world::Breach;

/// Without releases.
fn held(setup: Setup) -> Setup {
    Setup { budget: Budget { frees: 0, ..setup.budget }, ..setup }
}

fn assert_safe_but_without(flaw: Flaw, setup: Setup) {
    assert_breaks(flaw, setup, Breach::TwoHolders);
}

/// Checks that there is no violation with all rules, and this one without the rule.
fn assert_breaks(flaw: Flaw, setup: Setup, breach: Breach) {
    let found = exhaust(&Arc::new(setup.clone()));
    println!("{} states", found.states);
    assert!(found.exhausted && found.counter.is_none(), "{:#?}", found.counter);
    let found = shortest(&Arc::new(Setup { flaw: Some(flaw), ..setup }));
    assert_eq!(found.counter.map(|counter| counter.breach), Some(breach));
}

#[test]
fn a_renewing_reader_and_a_writer_exclude_each_other_through_a_restart() {
    assert_safe_but_without(Flaw::NoQuarantine, held(a_reader_a_writer_and_a_restart()));
}

#[test]
fn owners_exclude_each_other_through_a_restart() {
    assert_safe_but_without(Flaw::NoQuarantine, held(two_owners_and_a_restart()));
}

#[test]
fn a_reader_that_releases_does_not_affect_the_others_through_a_restart() {
    assert_safe_but_without(Flaw::ReleaseVoids, two_readers_a_writer_and_a_restart());
}

#[test]
fn a_reader_that_reads_again_has_its_fence_only_while_it_reads() {
    assert_breaks(Flaw::StaleShare, a_reader_who_reads_again_and_a_writer(), Breach::FenceOrder);
}

#[test]
fn an_ended_entry_does_not_affect_the_owners_others_through_a_restart() {
    assert_safe_but_without(Flaw::ReleaseVoids, an_owner_who_enters_twice_and_a_restart());
}

#[test]
fn slots_have_one_holder_each_through_a_restart() {
    assert_safe_but_without(Flaw::NoQuarantine, two_for_two_slots_and_a_restart());
}
