//! Schedules that serve no waiter if a rule is missing, and serve all waiters if the rule is in force. All schedules are
//! fair: every client polls, and every request is delivered and answered.

use quorlock_core::rules::{Rule, Rules};
use quorlock_core::terms::Mode;
use quorlock_model::queue::world::{Action, Flaws, World};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
/// A time in which every waiter polls a hundred times, in seconds.
const WAIT_SECS_MAX: f64 = 100.0;

fn three_waiters(flaws: Flaws) -> World {
    World::new(3, &[Mode::EXCLUSIVE; 3], true, flaws, None)
}

/// Three waiters, each with the vote of one node.
fn split_votes(flaws: Flaws) -> World {
    let mut world = three_waiters(flaws);
    world.exchange(A, 0);
    world.exchange(B, 1);
    world.exchange(C, 2);
    assert_eq!(world.votes(), [Some(A), Some(B), Some(C)]);
    world
}

/// Delivers every message and releases every lease at once. Returns whether all waiters are served in time.
fn serves_all(mut world: World) -> bool {
    while !world.unserved().is_empty() && world.elapsed_secs() < WAIT_SECS_MAX {
        world.deliver_all();
        world.holders().into_iter().for_each(|holder| world.act(Action::Release(holder)));
        if world.holders().is_empty() && world.next_actions().is_empty() {
            world.pass_time();
        }
    }
    world.unserved().is_empty()
}

/// Checks that split votes never change, although every waiter polls.
fn assert_votes_stay_split(flaws: Flaws) {
    let mut world = split_votes(flaws);
    while world.elapsed_secs() < WAIT_SECS_MAX {
        world.deliver_all();
        assert_eq!(world.votes(), [Some(A), Some(B), Some(C)]);
        assert_eq!(world.holders(), []);
        world.pass_time();
    }
    assert!(
        world.requests_sent.iter().all(|sent| *sent > 100),
        "every waiter must keep polling: {:?}",
        world.requests_sent
    );
}

#[test]
fn without_yield_split_votes_stay_stuck() {
    assert_votes_stay_split(Flaws { rules: Rules::without(Rule::Yield), ..Flaws::default() });
}

#[test]
fn with_yield_only_to_queued_waiters_split_votes_stay_stuck() {
    assert_votes_stay_split(Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() });
}

#[test]
fn with_yield_split_votes_are_resolved() {
    assert!(serves_all(split_votes(Flaws::default())));
}

#[test]
fn with_yield_split_votes_are_resolved_by_polls_if_hints_are_lost() {
    assert!(serves_all(split_votes(Flaws { loses_hints: true, ..Flaws::default() })));
}

/// In each round of polls, `B` and `C` each get the vote of one node before `A` asks that node, and yield the vote when
/// they learn of `A`. Hints are lost. Returns whether `A` gets the lock.
fn is_first_waiter_served(ignores_queue: bool) -> bool {
    let mut world =
        three_waiters(Flaws { ignores_queue, loses_hints: true, sends_no_handoffs: true, ..Flaws::default() });
    while world.elapsed_secs() < WAIT_SECS_MAX {
        world.exchange(A, 0);
        world.exchange(B, 1);
        world.exchange(C, 2);
        world.exchange(A, 1);
        world.exchange(A, 2);
        world.deliver_all();
        if world.holders() == [A] {
            return true;
        }
        assert_eq!(world.votes(), [Some(A), None, None], "A keeps its vote, and B and C yielded theirs");
        assert!(world.pass_time());
        (A..=C).for_each(|client| world.act(Action::Tick(client)));
    }
    assert!(
        world.requests_sent.iter().all(|sent| *sent > 100),
        "every waiter must keep polling: {:?}",
        world.requests_sent
    );
    false
}

#[test]
fn if_nodes_ignore_the_queue_the_first_waiter_is_never_served() {
    assert!(!is_first_waiter_served(true));
}

#[test]
fn if_nodes_vote_for_the_head_of_the_queue_the_first_waiter_is_served() {
    assert!(is_first_waiter_served(false));
}

/// The number of requests that `B` sends in five seconds while `A` holds the lock and no other client asks.
fn requests_while_held(notifies_yielder: bool) -> usize {
    let mut world = World::new(3, &[Mode::EXCLUSIVE; 2], true, Flaws { notifies_yielder, ..Flaws::default() }, None);
    world.exchange(A, 0);
    world.exchange(A, 1);
    assert_eq!(world.holders(), [A]);
    assert!(world.lose(Action::Request(A, 2)));
    while world.elapsed_secs() < 5.0 {
        world.deliver_all();
        world.pass_time();
    }
    assert_eq!(world.holders(), [A]);
    world.requests_sent[B]
}

#[test]
fn a_waiter_that_is_notified_of_its_own_yield_sends_requests_without_end() {
    let (with_rule, with_flaw) = (requests_while_held(false), requests_while_held(true));
    println!("{with_rule} requests; {with_flaw} if the waiter is notified of its own yield");
    assert!(with_rule <= 3 * 8, "more than eight polls of three nodes: {with_rule} requests");
    assert!(with_flaw > 2 * with_rule, "the flaw must cause many requests, not {with_flaw}");
}
