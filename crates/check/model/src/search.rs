//! Visits the states of a setup: breadth first to find the shortest counter-example, depth first to show that there is
//! none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::setup::Setup;
use crate::world::{Action, TraceLine, Violation, World};

/// The number of states after which a search stops. With all rules, every search ends earlier.
pub const STATES_MAX: usize = 8_000_000;

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// The number of visited states.
    pub states: usize,
    /// The shortest counter-example, if there is one.
    pub counter_example: Option<CounterExample>,
    /// Whether every state within the bounds was visited.
    pub is_complete: bool,
}

/// A counter-example.
#[derive(Debug)]
pub struct CounterExample {
    /// The violation.
    pub violation: Violation,
    /// The number of actions. The last one causes the violation.
    pub length: usize,
    /// The events, step by step.
    pub trace: Vec<TraceLine>,
}

/// Searches for the shortest path to a violation, breadth first.
pub fn find_shortest_violation(setup: &Arc<Setup>) -> SearchResult {
    let start = World::new(setup);
    // For each state, its predecessor and the action between the two.
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

/// Visits every state, depth first, which needs less memory than breadth first.
pub fn search_all_states(setup: &Arc<Setup>) -> SearchResult {
    let start = World::new(setup);
    let mut visited = HashSet::from([start.key()]);
    let mut unexplored = vec![start];
    while let Some(world) = unexplored.pop() {
        if world.violation().is_some() {
            // The path to this state may be long. The search by breadth finds the shortest one.
            return find_shortest_violation(setup);
        }
        if visited.len() > STATES_MAX {
            return SearchResult { states: visited.len(), counter_example: None, is_complete: false };
        }
        for action in world.next_actions() {
            let mut next = world.clone();
            next.act(action);
            if visited.insert(next.key()) {
                unexplored.push(next);
            }
        }
    }
    SearchResult { states: visited.len(), counter_example: None, is_complete: true }
}

/// The actions from the first state to the state `end`. For each state, `visited` has its predecessor and the action
/// between the two.
pub(crate) fn actions_to<T: Copy>(visited: &HashMap<u64, Option<(u64, T)>>, end: u64) -> Vec<T> {
    let mut path = Vec::new();
    let mut state = end;
    while let Some(Some((predecessor, action))) = visited.get(&state) {
        path.push(*action);
        state = *predecessor;
    }
    path.reverse();
    path
}

/// The trace of the actions of a path.
fn trace_of(setup: &Arc<Setup>, path: &[Action]) -> Vec<TraceLine> {
    let mut world = World::with_trace(setup);
    for action in path {
        world.act(*action);
    }
    world.into_trace()
}
