//! Searches all states: breadth first for the shortest counter-example, depth first to show that there is none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::setup::Setup;
use super::world::{Action, World};
use crate::search::{CounterExample, SearchResult, actions_to};
use crate::world::Violation;

/// A limit above the states of every search, so that a search ends even if a rule fails.
const STATES_MAX: usize = 16_000_000;
/// The search checks recovery from every state whose key is a multiple of this number.
const RECOVERY_CHECK_INTERVAL: u64 = 7;

/// Searches for the shortest path to a violation.
pub fn find_shortest_violation(setup: &Arc<Setup>) -> SearchResult {
    let start = World::new(setup);
    let mut visited: HashMap<u64, Option<(u64, Action)>> = HashMap::from([(start.key(), None)]);
    let mut unexplored = VecDeque::from([(start.key(), start)]);
    while let Some((key, world)) = unexplored.pop_front() {
        for action in world.next_actions() {
            let mut next = world.clone();
            next.act(action);
            let next_key = next.key();
            if visited.contains_key(&next_key) {
                continue;
            }
            visited.insert(next_key, Some((key, action)));
            if let Some(violation) = next.violation() {
                let path = actions_to(&visited, next_key);
                let counter_example = CounterExample { violation, length: path.len(), trace: trace_of(setup, &path) };
                return SearchResult {
                    states: visited.len(),
                    counter_example: Some(counter_example),
                    is_complete: false,
                };
            }
            unexplored.push_back((next_key, next));
        }
        if visited.len() > STATES_MAX {
            return SearchResult { states: visited.len(), counter_example: None, is_complete: false };
        }
    }
    SearchResult { states: visited.len(), counter_example: None, is_complete: true }
}

/// Visits every state. From every seventh state, checks that a client can acquire the lock again. Returns the number of
/// states from which no client can.
pub fn search_all_states(setup: &Arc<Setup>) -> (SearchResult, usize) {
    let start = World::new(setup);
    let mut visited = HashSet::from([start.key()]);
    let mut unexplored = vec![(start.clone(), start.key())];
    let mut stuck = 0;
    while let Some((world, key)) = unexplored.pop() {
        if world.violation().is_some() {
            // Searches again from the start, for the shortest counter-example.
            return (find_shortest_violation(setup), stuck);
        }
        if key.is_multiple_of(RECOVERY_CHECK_INTERVAL) && !world.can_recover() {
            stuck += 1;
        }
        if visited.len() > STATES_MAX {
            return (SearchResult { states: visited.len(), counter_example: None, is_complete: false }, stuck);
        }
        for action in world.next_actions() {
            let mut next = world.clone();
            next.act(action);
            let next_key = next.key();
            if visited.insert(next_key) {
                unexplored.push((next, next_key));
            }
        }
    }
    (SearchResult { states: visited.len(), counter_example: None, is_complete: true }, stuck)
}

/// Searches for the shortest path to a state from which no client can acquire the lock again.
pub fn find_shortest_path_to_stuck(setup: &Arc<Setup>) -> SearchResult {
    let start = World::new(setup);
    let mut visited: HashMap<u64, Option<(u64, Action)>> = HashMap::from([(start.key(), None)]);
    let mut unexplored = VecDeque::from([(start.key(), start)]);
    while let Some((key, world)) = unexplored.pop_front() {
        for action in world.next_actions() {
            let mut next = world.clone();
            next.act(action);
            let next_key = next.key();
            if visited.contains_key(&next_key) {
                continue;
            }
            visited.insert(next_key, Some((key, action)));
            if !next.can_recover() {
                let path = actions_to(&visited, next_key);
                let counter_example =
                    CounterExample { violation: Violation::Stuck, length: path.len(), trace: trace_of(setup, &path) };
                return SearchResult {
                    states: visited.len(),
                    counter_example: Some(counter_example),
                    is_complete: false,
                };
            }
            unexplored.push_back((next_key, next));
        }
    }
    SearchResult { states: visited.len(), counter_example: None, is_complete: true }
}

fn trace_of(setup: &Arc<Setup>, path: &[Action]) -> Vec<crate::world::TraceLine> {
    let mut world = World::with_trace(setup);
    for action in path {
        world.act(*action);
    }
    world.into_trace()
}
