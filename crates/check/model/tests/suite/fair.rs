//! Every fair schedule serves those who wait; without the rules of waiting, some do not.

use quorlock_core::rules::{Rule, Rules};
use quorlock_model::queue::fair::{Fair, Mishaps};
use quorlock_model::queue::world::Flaws;
use quorlock_model::scenario::{
    three_and_a_node_down, three_waiters, two_and_a_death, two_and_a_forgotten_place, two_waiters, two_who_are_deaf,
};
use quorlock_model::world::Breach;

fn assert_serves(fair: Fair) {
    let found = fair.search();
    assert!(found.counter.is_none(), "{:?}", found.counter);
    assert!(found.exhausted, "there is no end to the search");
}

fn breach_of(fair: Fair) -> Option<Breach> {
    fair.search().counter.map(|counter| counter.breach)
}

fn breach(flaws: Flaws) -> Option<Breach> {
    breach_of(Fair { flaws, ..three_waiters() })
}

#[test]
fn two_waiters_are_served_on_every_fair_schedule() {
    assert_serves(two_waiters());
}

#[test]
fn the_other_of_two_waiters_is_served_when_one_dies_on_every_fair_schedule() {
    assert_serves(two_and_a_death());
}

#[test]
fn two_waiters_are_served_though_a_place_is_forgotten_on_every_fair_schedule() {
    assert_serves(two_and_a_forgotten_place());
}

#[test]
fn two_waiters_are_served_without_hints_on_every_fair_schedule() {
    assert_serves(two_who_are_deaf());
}

#[test]
fn three_waiters_are_served_by_two_nodes_on_every_fair_schedule() {
    assert_serves(three_and_a_node_down());
}

#[test]
fn waiters_who_have_to_ask_are_served_on_every_fair_schedule() {
    let flaws = Flaws { empty_handed: true, ..Flaws::default() };
    assert_serves(Fair { flaws, ..two_waiters() });
    assert_serves(Fair {
        flaws: Flaws { empty_handed: true, ..three_and_a_node_down().flaws },
        ..three_and_a_node_down()
    });
}

#[test]
fn a_vote_for_one_who_has_yielded_starves_somebody() {
    let fair = three_and_a_node_down();
    assert_eq!(breach_of(Fair { flaws: Flaws { unyielding: true, ..fair.flaws }, ..fair }), Some(Breach::Starved));
}

#[test]
fn a_place_that_lasts_for_ever_starves_whoever_is_behind_the_dead() {
    let fair = two_and_a_death();
    let flaws = Flaws { lasting: true, ..fair.flaws };
    assert_eq!(breach_of(Fair { flaws, ..fair }), Some(Breach::Starved));
    // Of the living it does no harm.
    assert_serves(Fair { flaws, ..two_waiters() });
}

#[test]
fn whoever_does_not_ask_again_by_itself_is_starved_by_a_place_that_is_forgotten() {
    let flaws = Flaws { timeless: true, ..Flaws::default() };
    let forgotten = Mishaps { forgotten: true, ..Mishaps::default() };
    assert_eq!(breach_of(Fair { flaws, mishaps: forgotten, ..two_waiters() }), Some(Breach::Starved));
    // Where nothing goes wrong, hints and votes that are handed on are enough.
    assert_serves(Fair { flaws, mishaps: Mishaps::default(), ..two_waiters() });
}

#[test]
fn whoever_does_not_ask_again_by_itself_is_starved_without_hints() {
    let fair = two_who_are_deaf();
    let flaws = Flaws { timeless: true, ..fair.flaws };
    assert_eq!(breach_of(Fair { flaws, mishaps: Mishaps::default(), ..fair }), Some(Breach::Starved));
}

#[test]
fn without_yields_a_fair_schedule_serves_nobody() {
    let flaws = Flaws { rules: Rules::without(Rule::Yield), ..Flaws::default() };
    assert_eq!(breach(flaws), Some(Breach::Starved));
}

#[test]
fn with_yields_on_not_first_refusals_only_a_fair_schedule_serves_nobody() {
    let flaws = Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() };
    assert_eq!(breach(flaws), Some(Breach::Starved));
}
