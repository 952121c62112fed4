//! Looks at every fair schedule, to its end: does each of them serve somebody, or everyone?
//!
//! The search decides in which order requests and hints arrive and, where it may, which request gets lost, which waiter dies and
//! which place is forgotten before its time, each once. Fair means
//! that time passes only when everything under way has arrived; whoever gets the lock lets go at once. So a schedule that
//! leaves somebody waiting for ever is one on which time passes and nobody gets the lock, one on which nothing happens any more, or
//! a search without end: whoever asks without end begins attempt after attempt, and each is a state of its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;

use quorlock_core::mode::Mode;

use super::turn::{Turn, beginning, line};
use super::world::{Action, Flaws, TTL, World};
use crate::search::{Counter, Finding, STATES_MAX, way_to};
use crate::world::{Breach, Line, Mixed};

/// Longer than an entry lease and a few polls of everyone, in seconds.
const LONG: f64 = 8.0;

/// What is searched.
#[derive(Clone, Copy)]
pub struct Fair {
    /// How many wait.
    pub waiters: usize,
    /// What may go wrong.
    pub mishaps: Mishaps,
    /// Whether the search goes on when the first is served, until all are.
    pub to_the_last: bool,
    /// What is wrong with this world.
    pub flaws: Flaws,
}

/// What may go wrong, once.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Mishaps {
    /// A request gets lost.
    pub loss: bool,
    /// A waiter dies, with the votes and places that it has.
    pub death: bool,
    /// A node forgets a place before its time.
    pub forgotten: bool,
}

struct State {
    world: World,
    /// When somebody was last served, in seconds.
    since: f64,
    left: Mishaps,
}

impl State {
    fn key(&self) -> u64 {
        Mixed.hash_one((self.world.key(), self.since.to_bits(), self.left))
    }

    fn turns(&self) -> Vec<Turn> {
        let mut turns = Turn::all(&self.world);
        let Mishaps { loss, death, forgotten } = self.left;
        let lost: Vec<Turn> = turns.iter().copied().filter_map(Turn::lost).filter(|_| loss).collect();
        if turns.is_empty() {
            turns.push(Turn::Pass);
        }
        turns.extend(lost);
        turns.extend(self.world.unserved().into_iter().filter(|_| death).map(Turn::Died));
        let lines = self.world.queues().into_iter().enumerate().filter(|_| forgotten);
        turns.extend(lines.flat_map(|(node, line)| (0..line.len()).map(move |place| Turn::Forgotten(node, place))));
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
        let mut left = self.left;
        match turn {
            Turn::Lost(..) => left.loss = false,
            Turn::Died(_) => left.death = false,
            Turn::Forgotten(..) => left.forgotten = false,
            _ => {}
        }
        Some(Self { world, since, left })
    }

    /// Whoever has waited for too long, or has nothing left to wait for.
    fn starved(&self, patience: f64) -> Option<usize> {
        let waiter = *self.world.unserved().first()?;
        (self.world.is_still() || self.world.seconds() - self.since > patience).then_some(waiter)
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
            let has_served = unserved < self.waiters - usize::from(self.mishaps.death && !state.left.death);
            if unserved == 0 || has_served && !self.to_the_last {
                continue;
            }
            if let Some(waiter) = state.starved(self.patience()) {
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

    /// How long may pass between one who is served and the next: the votes of the dead have to lapse.
    fn patience(self) -> f64 {
        if self.mishaps.death { LONG + TTL.as_secs_f64() } else { LONG }
    }

    fn beginning(self) -> State {
        let modes = vec![Mode::EXCLUSIVE; self.waiters];
        let world = World::new(3, &modes, true, self.flaws, None);
        State { world, since: 0.0, left: self.mishaps }
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
