//! Searches all states: breadth first for the shortest counter-example, depth first to show that there is none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::setup::Setup;
use crate::world::{Action, Breach, Line, World};

/// A limit above the states of every search, so that a search ends even if a rule fails in an unexpected way.
pub const STATES_MAX: usize = 8_000_000;

/// The result of a search.
#[derive(Debug)]
pub struct Finding {
    /// The number of states.
    pub states: usize,
    /// The shortest counter-example, if there is one.
    pub counter: Option<Counter>,
    /// Whether every state within the bounds was visited.
    pub exhausted: bool,
}

/// A counter-example.
#[derive(Debug)]
pub struct Counter {
    /// The violation.
    pub breach: Breach,
    /// The number of actions before the violation.
    pub length: usize,
    /// The events.
    pub story: Vec<Line>,
}

/// Searches for the shortest path to a violation, breadth first.
pub fn shortest(setup: &Arc<Setup>) -> Finding {
    let start = World::new(setup);
    // The predecessor of each state.
    let mut seen: HashMap<u64, Option<(u64, Action)>> = HashMap::from([(start.key(), None)]);
    let mut open = VecDeque::from([(start.key(), start)]);
    while let Some((key, world)) = open.pop_front() {
        for action in world.enabled() {
            let mut next = world.clone();
            next.act(action);
            let next_key = next.key();
            if seen.contains_key(&next_key) {
                continue;
            }
            seen.insert(next_key, Some((key, action)));
            if let Some(breach) = next.breach() {
                let path = path_to(&seen, next_key);
                let counter = Counter { breach, length: path.len(), story: tell(setup, &path) };
                return Finding { states: seen.len(), counter: Some(counter), exhausted: false };
            }
            open.push_back((next_key, next));
        }
        if seen.len() > STATES_MAX {
            return Finding { states: seen.len(), counter: None, exhausted: false };
        }
    }
    Finding { states: seen.len(), counter: None, exhausted: true }
}

/// Visits every state, depth first, which needs the least memory.
pub fn exhaust(setup: &Arc<Setup>) -> Finding {
    let start = World::new(setup);
    let mut seen = HashSet::from([start.key()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        if world.breach().is_some() {
            // Searches again from the start, for the shortest counter-example.
            return shortest(setup);
        }
        if seen.len() > STATES_MAX {
            return Finding { states: seen.len(), counter: None, exhausted: false };
        }
        for action in world.enabled() {
            let mut next = world.clone();
            next.act(action);
            if seen.insert(next.key()) {
                open.push(next);
            }
        }
    }
    Finding { states: seen.len(), counter: None, exhausted: true }
}

/// The actions that led to this state, given the predecessor of each state.
pub(crate) fn path_to<T: Copy>(seen: &HashMap<u64, Option<(u64, T)>>, end: u64) -> Vec<T> {
    let mut path = Vec::new();
    let mut state = end;
    while let Some(Some((before, action))) = seen.get(&state) {
        path.push(*action);
        state = *before;
    }
    path.reverse();
    path
}

/// The story of the actions on a path.
fn tell(setup: &Arc<Setup>, path: &[Action]) -> Vec<Line> {
    let mut world = World::with_story(setup);
    for action in path {
        world.act(*action);
    }
    world.into_story()
}
