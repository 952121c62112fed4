//! Schedules that hang if a rule is missing, and end if it is not.
//!
//! All of them are fair: every client polls, and every request is delivered and answered.

use quorlock_core::rules::{Rule, Rules};
use quorlock_core::terms::Mode;
use quorlock_model::queue::world::{Action, Flaws, World};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
/// Long enough for a hundred polls of every waiter.
const LONG: f64 = 100.0;

fn three(flaws: Flaws) -> World {
    World::new(3, &[Mode::EXCLUSIVE; 3], true, flaws, None)
}

/// Each of the three waiters has one vote, and all of them have asked all nodes.
fn split(flaws: Flaws) -> World {
    let mut world = three(flaws);
    world.exchange(A, 0);
    world.exchange(B, 1);
    world.exchange(C, 2);
    assert_eq!(world.votes(), [Some(A), Some(B), Some(C)]);
    world
}

/// Delivers everything at once, and releases at once, until all are served. Returns whether that happened.
fn ends(mut world: World) -> bool {
    while !world.unserved().is_empty() && world.seconds() < LONG {
        world.settle();
        world.holders().into_iter().for_each(|holder| world.act(Action::Free(holder)));
        if world.holders().is_empty() && world.enabled().is_empty() {
            world.pass_time();
        }
    }
    world.unserved().is_empty()
}

/// Checks that the votes do not change.
fn stays_split(flaws: Flaws) {
    let mut world = split(flaws);
    while world.seconds() < LONG {
        world.settle();
        assert_eq!(world.votes(), [Some(A), Some(B), Some(C)]);
        assert_eq!(world.holders(), []);
        world.pass_time();
    }
    assert!(world.asked.iter().all(|asked| *asked > 100), "every waiter must keep asking: {:?}", world.asked);
}

#[test]
fn without_yield_split_votes_stay_stuck() {
    stays_split(Flaws { rules: Rules::without(Rule::Yield), ..Flaws::default() });
}

#[test]
fn with_yield_only_to_queued_waiters_split_votes_stay_stuck() {
    stays_split(Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() });
}

#[test]
fn with_yield_split_votes_are_resolved() {
    assert!(ends(split(Flaws::default())));
}

#[test]
fn with_yield_split_votes_are_resolved_by_polls_if_hints_are_lost() {
    assert!(ends(split(Flaws { hints_lost: true, ..Flaws::default() })));
}

/// In each turn `B` and `C` are quicker than `A` on one node, and yield their votes when they learn of `A`. Hints are
/// lost. Returns whether `A` gets the lock.
fn overtaken(ignores_queue: bool) -> bool {
    let mut world = three(Flaws { ignores_queue, hints_lost: true, without_handoffs: true, ..Flaws::default() });
    while world.seconds() < LONG {
        world.exchange(A, 0);
        world.exchange(B, 1);
        world.exchange(C, 2);
        world.exchange(A, 1);
        world.exchange(A, 2);
        world.settle();
        if world.holders() == [A] {
            return true;
        }
        assert_eq!(world.votes(), [Some(A), None, None], "A keeps its vote, and the others yielded theirs");
        assert!(world.pass_time());
        (A..=C).for_each(|client| world.act(Action::Tick(client)));
    }
    assert!(world.asked.iter().all(|asked| *asked > 100), "every waiter must keep asking: {:?}", world.asked);
    false
}

#[test]
fn yield_without_the_head_rule_is_overtaken_forever() {
    assert!(!overtaken(true));
}

#[test]
fn with_the_head_rule_no_waiter_is_overtaken_forever() {
    assert!(overtaken(false));
}

/// How often `B` asks in five seconds in which `A` holds and nothing changes except by `B` itself.
fn requests_while_held(notifies_yielder: bool) -> usize {
    let mut world = World::new(3, &[Mode::EXCLUSIVE; 2], true, Flaws { notifies_yielder, ..Flaws::default() }, None);
    world.exchange(A, 0);
    world.exchange(A, 1);
    assert_eq!(world.holders(), [A]);
    assert!(world.lose(Action::Request(A, 2)));
    while world.seconds() < 5.0 {
        world.settle();
        world.pass_time();
    }
    assert_eq!(world.holders(), [A]);
    world.asked[B]
}

#[test]
fn a_yield_that_wakes_itself_asks_without_end() {
    let (rule, flaw) = (requests_while_held(false), requests_while_held(true));
    println!("asked {rule} times; woken by itself, {flaw} times");
    assert!(rule <= 3 * 8, "eight polls of three nodes at most: {rule}");
    assert!(flaw > 2 * rule, "{flaw}");
}
