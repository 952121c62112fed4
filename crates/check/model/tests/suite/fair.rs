//! Every fair schedule serves the waiters; without the rules of waiting, some do not.

use quorlock_core::rules::{Rule, Rules};
use quorlock_model::queue::fair::{Fair, Faults};
use quorlock_model::queue::world::Flaws;
use quorlock_model::scenario::{
    three_and_a_node_down, three_waiters, two_and_a_death, two_and_a_forgotten_position, two_waiters, two_without_hints,
};
use quorlock_model::world::Breach;

fn assert_serves(fair: Fair) {
    let found = fair.search();
    assert!(found.counter.is_none(), "{:?}", found.counter);
    assert!(found.exhausted, "the search did not end");
}

/// The violation that the search finds, if there is one.
fn breach_of(fair: Fair) -> Option<Breach> {
    fair.search().counter.map(|counter| counter.breach)
}

/// The violation that three waiters with these flaws lead to.
fn breach_with(flaws: Flaws) -> Option<Breach> {
    breach_of(Fair { flaws, ..three_waiters() })
}

#[test]
fn two_waiters_are_served_on_every_fair_schedule() {
    assert_serves(two_waiters());
}

#[test]
fn the_survivor_of_two_waiters_is_served_on_every_fair_schedule() {
    assert_serves(two_and_a_death());
}

#[test]
fn two_waiters_are_served_despite_a_forgotten_position_on_every_fair_schedule() {
    assert_serves(two_and_a_forgotten_position());
}

#[test]
fn two_waiters_are_served_without_hints_on_every_fair_schedule() {
    assert_serves(two_without_hints());
}

#[test]
fn three_waiters_are_served_by_two_nodes_on_every_fair_schedule() {
    assert_serves(three_and_a_node_down());
}

#[test]
fn waiters_without_handoffs_are_served_on_every_fair_schedule() {
    let flaws = Flaws { without_handoffs: true, ..Flaws::default() };
    assert_serves(Fair { flaws, ..two_waiters() });
    assert_serves(Fair {
        flaws: Flaws { without_handoffs: true, ..three_and_a_node_down().flaws },
        ..three_and_a_node_down()
    });
}

#[test]
fn a_vote_for_a_client_that_yielded_starves_a_waiter() {
    let fair = three_and_a_node_down();
    assert_eq!(
        breach_of(Fair { flaws: Flaws { accepts_after_yield: true, ..fair.flaws }, ..fair }),
        Some(Breach::WaiterStarved)
    );
}

#[test]
fn a_permanent_position_of_a_dead_waiter_starves_the_next() {
    let fair = two_and_a_death();
    let flaws = Flaws { permanent_positions: true, ..fair.flaws };
    assert_eq!(breach_of(Fair { flaws, ..fair }), Some(Breach::WaiterStarved));
    // Permanent positions do no harm if all clients live.
    assert_serves(Fair { flaws, ..two_waiters() });
}

#[test]
fn a_waiter_without_polls_is_starved_by_a_forgotten_position() {
    let flaws = Flaws { without_timers: true, ..Flaws::default() };
    let forgotten = Faults { forgotten: true, ..Faults::default() };
    assert_eq!(breach_of(Fair { flaws, faults: forgotten, ..two_waiters() }), Some(Breach::WaiterStarved));
    // Without faults, hints and handoffs are enough.
    assert_serves(Fair { flaws, faults: Faults::default(), ..two_waiters() });
}

#[test]
fn a_waiter_without_polls_is_starved_without_hints() {
    let fair = two_without_hints();
    let flaws = Flaws { without_timers: true, ..fair.flaws };
    assert_eq!(breach_of(Fair { flaws, faults: Faults::default(), ..fair }), Some(Breach::WaiterStarved));
}

#[test]
fn without_yields_a_fair_schedule_serves_no_waiter() {
    let flaws = Flaws { rules: Rules::without(Rule::Yield), ..Flaws::default() };
    assert_eq!(breach_with(flaws), Some(Breach::WaiterStarved));
}

#[test]
fn with_yields_only_to_queued_waiters_a_fair_schedule_serves_no_waiter() {
    let flaws = Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() };
    assert_eq!(breach_with(flaws), Some(Breach::WaiterStarved));
}
