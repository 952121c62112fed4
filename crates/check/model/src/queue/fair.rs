//! Follows every fair schedule to its end, and checks that each serves one waiter, or all.
//!
//! The search decides the order in which requests and hints arrive and, if allowed, which request is lost, which waiter
//! dies and which queue position is forgotten early, each once. A schedule is fair if time passes only when everything
//! in flight has arrived. Holders release at once. So a schedule that leaves a waiter unserved is one on which time
//! passes without a grant, one on which nothing happens any more, or a search without end: a client that asks without
//! end begins attempt after attempt, and each is a new state.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use super::turn::{Turn, beginning, line};
use super::world::{Action, Flaws, TTL, World};
use crate::search::{Counter, Finding, STATES_MAX, way_to};
use crate::world::{Breach, Line, Mixed};

/// Longer than an entry lease and a few polls of every waiter, in seconds.
const LONG: f64 = 8.0;

/// A search.
#[derive(Clone, Copy)]
pub struct Fair {
    /// The number of waiters.
    pub waiters: usize,
    /// The faults that may happen.
    pub mishaps: Mishaps,
    /// Whether the search continues after the first waiter is served, until all are.
    pub to_the_last: bool,
    /// The flaws of nodes and clients.
    pub flaws: Flaws,
}

/// Faults that may happen once each.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Mishaps {
    /// A request is lost.
    pub loss: bool,
    /// A waiter dies with its votes and queue positions.
    pub death: bool,
    /// A node forgets a queue position early.
    pub forgotten: bool,
}

struct State {
    world: World,
    /// When a waiter was last served, in seconds.
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

    /// A waiter that has waited for too long, or has nothing left to wait for.
    fn starved(&self, patience: f64) -> Option<usize> {
        let waiter = *self.world.unserved().first()?;
        (self.world.is_still() || self.world.seconds() - self.since > patience).then_some(waiter)
    }
}

impl Fair {
    /// Runs the search.
    pub fn search(self) -> Finding {
        let start = self.beginning();
        // The predecessor of each state.
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

    /// The longest time between two served waiters: the votes of dead waiters have to expire.
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
