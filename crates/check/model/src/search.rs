//! Looks at everything that can happen: breadth first for the shortest story, depth first for the proof that there is none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::setup::Setup;
use crate::world::{Action, Breach, Line, World};

/// More states than any search needs: each is to end, also when a rule is broken in an unexpected way.
pub const STATES_MAX: usize = 8_000_000;

/// What a search came to.
#[derive(Debug)]
pub struct Finding {
    /// How many states were seen.
    pub states: usize,
    /// What went wrong, on the shortest way there.
    pub counter: Option<Counter>,
    /// Whether everything within the bounds was seen.
    pub exhausted: bool,
}

/// A counter-example.
#[derive(Debug)]
pub struct Counter {
    /// What went wrong.
    pub breach: Breach,
    /// How many actions it took.
    pub length: usize,
    /// What happened.
    pub story: Vec<Line>,
}

/// Looks for the shortest way to a breach.
pub fn shortest(setup: &Arc<Setup>) -> Finding {
    let start = World::new(setup);
    // Where each state came from.
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

/// Looks at everything, in whichever order needs the least memory.
pub fn exhaust(setup: &Arc<Setup>) -> Finding {
    let start = World::new(setup);
    let mut seen = HashSet::from([start.key()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        if world.breach().is_some() {
            // Told from the beginning, and in the shortest way.
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

/// What led to this state, if each is noted with the one before it.
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
