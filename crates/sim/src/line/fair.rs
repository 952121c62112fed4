//! Looks at every fair schedule, to its end: does each of them serve somebody, or everyone?
//!
//! The search decides in which order requests and hints arrive and, where it may, which request gets lost, once. Fair means
//! that time passes only when everything under way has arrived; whoever gets the lock lets go at once. So a schedule that
//! leaves somebody waiting for ever is one on which time passes and nobody gets the lock, or a search without end: whoever
//! asks without end begins attempt after attempt, and each is a state of its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;

use quorlock_core::mode::Mode;

use super::turn::{Turn, beginning, line};
use super::world::{Action, Flaws, World};
use crate::search::{Counter, Finding, STATES_MAX, way_to};
use crate::world::{Breach, Line, Mixed};

/// Longer than an entry lease and a few polls of everyone, in seconds.
const LONG: f64 = 8.0;

/// What is searched.
#[derive(Clone, Copy)]
pub struct Fair {
    /// How many wait.
    pub waiters: usize,
    /// Whether a request may get lost.
    pub loss: bool,
    /// Whether the search goes on when the first is served, until all are.
    pub to_the_last: bool,
    /// What is wrong with this world.
    pub flaws: Flaws,
}

struct State {
    world: World,
    /// When somebody was last served, in seconds.
    since: f64,
    may_lose: bool,
}

impl State {
    fn key(&self) -> u64 {
        Mixed.hash_one((self.world.key(), self.since.to_bits(), self.may_lose))
    }

    fn turns(&self) -> Vec<Turn> {
        let mut turns = Turn::all(&self.world);
        if self.may_lose {
            turns.extend(turns.clone().into_iter().filter_map(Turn::lost));
        }
        if turns.is_empty() {
            turns.push(Turn::Pass);
        }
        turns
    }

    fn after(&self, turn: Turn) -> Option<Self> {
        let mut world = self.world.clone();
        if !turn.take(&mut world) {
            return None;
        }
        let mut since = self.since;
        for holder in world.holders() {
            world.act(Action::Free(holder));
            world.drain(holder);
            since = world.seconds();
        }
        world.drop_idle_releases();
        Some(Self { world, since, may_lose: self.may_lose && !turn.is_loss() })
    }

    /// Whoever has waited for too long.
    fn starved(&self) -> Option<usize> {
        let waiter = *self.world.unserved().first()?;
        (self.world.seconds() - self.since > LONG).then_some(waiter)
    }
}

impl Fair {
    /// Looks at all of it.
    pub fn search(self) -> Finding {
        let start = self.beginning();
        // Where each state came from.
        let mut seen: HashMap<u64, Option<(u64, Turn)>> = HashMap::from([(start.key(), None)]);
        let mut open = vec![(start.key(), start)];
        while let Some((key, state)) = open.pop() {
            let unserved = state.world.unserved().len();
            if unserved == 0 || (unserved < self.waiters && !self.to_the_last) {
                continue;
            }
            if let Some(waiter) = state.starved() {
                let way = way_to(&seen, key);
                let story = self.tell(&way, waiter);
                let counter = Some(Counter { breach: Breach::Starved, length: way.len(), story });
                return Finding { states: seen.len(), counter, exhausted: false };
            }
            if seen.len() > STATES_MAX {
                return Finding { states: seen.len(), counter: None, exhausted: false };
            }
            for turn in state.turns() {
                let Some(next) = state.after(turn) else { continue };
                let name = next.key();
                if let Entry::Vacant(place) = seen.entry(name) {
                    place.insert(Some((key, turn)));
                    open.push((name, next));
                }
            }
        }
        Finding { states: seen.len(), counter: None, exhausted: true }
    }

    fn beginning(self) -> State {
        let modes = vec![Mode::EXCLUSIVE; self.waiters];
        let world = World::new(3, &modes, true, self.flaws, None);
        State { world, since: 0.0, may_lose: self.loss }
    }

    fn tell(self, way: &[Turn], waiter: usize) -> Vec<Line> {
        let mut state = self.beginning();
        let mut story = vec![beginning(&state.world)];
        for turn in way {
            state = state.after(*turn).unwrap_or(state);
            story.push(turn.tell(&state.world));
        }
        story.push(line(&state.world, Some(waiter), "is never served"));
        story
    }
}
