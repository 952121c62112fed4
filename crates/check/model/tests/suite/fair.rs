//! With all rules of waiting, every fair schedule serves the waiters (gives them the lock). Without one of the rules,
//! some schedules do not.

use quorlock_core::rules::{Rule, Rules};
use quorlock_model::queue::fair_search::{FairSearch, Faults};
use quorlock_model::queue::world::Flaws;
use quorlock_model::scenario::{
    three_waiters, three_waiters_and_a_node_down, two_waiters, two_waiters_and_a_death,
    two_waiters_and_a_forgotten_position, two_waiters_without_hints,
};
use quorlock_model::world::Violation;

/// Checks that every fair schedule of this search serves the waiters.
fn assert_serves(search: FairSearch) {
    let found = search.search();
    assert!(found.counter_example.is_none(), "{:?}", found.counter_example);
    assert!(found.is_complete, "the search did not end");
}

/// The violation that the search finds, if there is one.
fn violation_of(search: FairSearch) -> Option<Violation> {
    search.search().counter_example.map(|counter_example| counter_example.violation)
}

/// The violation that the search of three waiters with these flaws finds, if there is one.
fn violation_of_three_waiters_with(flaws: Flaws) -> Option<Violation> {
    violation_of(FairSearch { flaws, ..three_waiters() })
}

#[test]
fn two_waiters_are_served_on_every_fair_schedule() {
    assert_serves(two_waiters());
}

#[test]
fn the_survivor_of_two_waiters_is_served_on_every_fair_schedule() {
    assert_serves(two_waiters_and_a_death());
}

#[test]
fn two_waiters_are_served_despite_a_forgotten_position_on_every_fair_schedule() {
    assert_serves(two_waiters_and_a_forgotten_position());
}

#[test]
fn two_waiters_are_served_without_hints_on_every_fair_schedule() {
    assert_serves(two_waiters_without_hints());
}

#[test]
fn three_waiters_are_served_by_two_nodes_on_every_fair_schedule() {
    assert_serves(three_waiters_and_a_node_down());
}

#[test]
fn waiters_without_handoffs_are_served_on_every_fair_schedule() {
    let flaws = Flaws { sends_no_handoffs: true, ..Flaws::default() };
    assert_serves(FairSearch { flaws, ..two_waiters() });
    assert_serves(FairSearch {
        flaws: Flaws { sends_no_handoffs: true, ..three_waiters_and_a_node_down().flaws },
        ..three_waiters_and_a_node_down()
    });
}

#[test]
fn a_vote_for_a_client_that_yielded_starves_a_waiter() {
    let search = three_waiters_and_a_node_down();
    assert_eq!(
        violation_of(FairSearch { flaws: Flaws { keeps_yielded_requests: true, ..search.flaws }, ..search }),
        Some(Violation::WaiterStarved)
    );
}

#[test]
fn a_permanent_position_of_a_dead_waiter_starves_the_next() {
    let search = two_waiters_and_a_death();
    let flaws = Flaws { never_expires_positions: true, ..search.flaws };
    assert_eq!(violation_of(FairSearch { flaws, ..search }), Some(Violation::WaiterStarved));
    // Permanent positions do no harm if all clients live.
    assert_serves(FairSearch { flaws, ..two_waiters() });
}

#[test]
fn a_waiter_without_polls_is_starved_by_a_forgotten_position() {
    let flaws = Flaws { has_no_timers: true, ..Flaws::default() };
    let forgotten_position = Faults { forgotten_position: true, ..Faults::default() };
    assert_eq!(
        violation_of(FairSearch { flaws, faults: forgotten_position, ..two_waiters() }),
        Some(Violation::WaiterStarved)
    );
    // Without faults, hints and handoffs are enough.
    assert_serves(FairSearch { flaws, faults: Faults::default(), ..two_waiters() });
}

#[test]
fn a_waiter_without_polls_is_starved_without_hints() {
    let search = two_waiters_without_hints();
    let flaws = Flaws { has_no_timers: true, ..search.flaws };
    assert_eq!(violation_of(FairSearch { flaws, faults: Faults::default(), ..search }), Some(Violation::WaiterStarved));
}

#[test]
fn without_yields_a_fair_schedule_serves_no_waiter() {
    let flaws = Flaws { rules: Rules::without(Rule::Yield), ..Flaws::default() };
    assert_eq!(violation_of_three_waiters_with(flaws), Some(Violation::WaiterStarved));
}

#[test]
fn with_yields_only_to_queued_waiters_a_fair_schedule_serves_no_waiter() {
    let flaws = Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() };
    assert_eq!(violation_of_three_waiters_with(flaws), Some(Violation::WaiterStarved));
}
