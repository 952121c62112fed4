//! Searches all states: breadth first for the shortest counter-example, depth first to show that there is none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::setup::Setup;
use super::world::{Action, World};
use crate::search::{Counter, Finding, path_to};
use crate::world::Breach;

/// More states than any search needs.
const STATES_MAX: usize = 8_000_000;
/// Every state with a key that is a multiple of this is checked for healing.
const HEALING_SAMPLE: u64 = 7;

/// Searches for the shortest way to a violation.
pub fn shortest(setup: &Arc<Setup>) -> Finding {
    let start = World::new(setup);
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
                let way = path_to(&seen, name);
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

/// Visits every state, and counts among every seventh those from which no client can acquire the lock any more.
pub fn exhaust(setup: &Arc<Setup>) -> (Finding, usize) {
    let start = World::new(setup);
    let mut seen = HashSet::from([start.key()]);
    let mut open = vec![(start.clone(), start.key())];
    let mut stuck = 0;
    while let Some((world, key)) = open.pop() {
        if world.breach().is_some() {
            // Searches again from the start, for the shortest counter-example.
            return (shortest(setup), stuck);
        }
        if key.is_multiple_of(HEALING_SAMPLE) && !world.can_heal() {
            stuck += 1;
        }
        if seen.len() > STATES_MAX {
            return (Finding { states: seen.len(), counter: None, exhausted: false }, stuck);
        }
        for action in world.enabled() {
            let mut next = world.clone();
            next.act(action);
            let name = next.key();
            if seen.insert(name) {
                open.push((next, name));
            }
        }
    }
    (Finding { states: seen.len(), counter: None, exhausted: true }, stuck)
}

/// Searches for the shortest way to a state from which no client can acquire the lock any more.
pub fn shortest_to_stuck(setup: &Arc<Setup>) -> Finding {
    let start = World::new(setup);
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
            if !next.can_heal() {
                let way = path_to(&seen, name);
                let counter = Counter { breach: Breach::Stuck, length: way.len(), story: tell(setup, &way) };
                return Finding { states: seen.len(), counter: Some(counter), exhausted: false };
            }
            open.push_back((name, next));
        }
    }
    Finding { states: seen.len(), counter: None, exhausted: true }
}

fn tell(setup: &Arc<Setup>, way: &[Action]) -> Vec<crate::world::Line> {
    let mut world = World::told(setup);
    for action in way {
        world.act(*action);
    }
    world.into_story()
}
