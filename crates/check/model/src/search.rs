//! Searches all states: breadth first for the shortest counter-example, depth first to show that there is none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::setup::Setup;
use crate::world::{Action, Breach, Line, World};

/// More states than any search needs, so that a search ends even if a rule is broken in an unexpected way.
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
    /// The number of actions.
    pub length: usize,
    /// The events.
    pub story: Vec<Line>,
}

/// Searches for the shortest way to a violation.
pub fn shortest(setup: &Arc<Setup>) -> Finding {
    let start = World::new(setup);
    // The predecessor of each state.
    let mut seen: HashMap<u64, Option<(u64, Action)>> = HashMap::from([(start.key(), None)]);
    let mut open = VecDeque::from([(start.key(), start)]);
    while let Some((key, world)) = open.pop_front() {
        for action in world.enabled() {
            let mut next = world.clone();
            next.act(action);
            let name = next.key();
            if seen.contains_key(&name) {
                continue;
            }
            seen.insert(name, Some((key, action)));
            if let Some(breach) = next.breach() {
                let way = way_to(&seen, name);
                let counter = Counter { breach, length: way.len(), story: tell(setup, &way) };
                return Finding { states: seen.len(), counter: Some(counter), exhausted: false };
            }
            open.push_back((name, next));
        }
        if seen.len() > STATES_MAX {
            return Finding { states: seen.len(), counter: None, exhausted: false };
        }
    }
    Finding { states: seen.len(), counter: None, exhausted: true }
}

/// Visits every state, in the order that needs the least memory.
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
pub(crate) fn way_to<T: Copy>(seen: &HashMap<u64, Option<(u64, T)>>, end: u64) -> Vec<T> {
    let mut way = Vec::new();
    let mut at = end;
    while let Some(Some((before, action))) = seen.get(&at) {
        way.push(*action);
        at = *before;
    }
    way.reverse();
    way
}

fn tell(setup: &Arc<Setup>, way: &[Action]) -> Vec<Line> {
    let mut world = World::told(setup);
    for action in way {
        world.act(*action);
    }
    world.into_story()
}
