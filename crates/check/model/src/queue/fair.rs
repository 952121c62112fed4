//! Follows every fair schedule to its end, and checks that the schedule serves one waiter, or all waiters.
//!
//! The search decides the order in which requests and hints arrive. If allowed, it also decides, once each, which
//! request is lost, which waiter dies and which queue position a node forgets early. A schedule is fair if time passes
//! only when everything in flight has arrived. Holders release at once. A schedule leaves a waiter unserved in three
//! ways: time passes without a grant, nothing happens any more, or the search has no end. A client that sends requests
//! without end begins attempt after attempt, and each attempt is a new state.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use super::event::{Event, first_line, line};
use super::world::{Action, Flaws, TTL, World};
use crate::search::{Counter, Finding, STATES_MAX, path_to};
use crate::world::{Breach, FixedBuildHasher, Line};

/// A time longer than the life of a queue position (`ENTRY_LEASE`) and a few polls of every waiter, in seconds.
const LONG_SECS: f64 = 8.0;

/// A search of all fair schedules.
#[derive(Clone, Copy)]
pub struct Fair {
    /// The number of waiters.
    pub waiters: usize,
    /// The faults that may happen.
    pub faults: Faults,
    /// Whether the search follows a schedule until all waiters are served, and not only the first waiter.
    pub until_all_served: bool,
    /// The flaws of nodes and clients.
    pub flaws: Flaws,
}

/// Faults that may happen once each.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Faults {
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
    last_served_secs: f64,
    left: Faults,
}

impl State {
    fn key(&self) -> u64 {
        FixedBuildHasher.hash_one((self.world.key(), self.last_served_secs.to_bits(), self.left))
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Event::all(&self.world);
        let Faults { loss, death, forgotten } = self.left;
        let lost: Vec<Event> = events.iter().copied().filter_map(Event::loss).filter(|_| loss).collect();
        if events.is_empty() {
            events.push(Event::Pass);
        }
        events.extend(lost);
        events.extend(self.world.unserved().into_iter().filter(|_| death).map(Event::Death));
        let queues = self.world.queues().into_iter().enumerate().filter(|_| forgotten);
        events.extend(
            queues.flat_map(|(node, queue)| (0..queue.len()).map(move |at| Event::ForgottenPosition(node, at))),
        );
        events
    }

    fn after(&self, event: Event) -> Option<Self> {
        let mut world = self.world.clone();
        if !event.apply_to(&mut world) {
            return None;
        }
        let mut last_served_secs = self.last_served_secs;
        for holder in world.holders() {
            world.act(Action::Free(holder));
            world.drain(holder);
            last_served_secs = world.seconds();
        }
        world.drop_idle_releases();
        let mut left = self.left;
        match event {
            Event::Loss(..) => left.loss = false,
            Event::Death(_) => left.death = false,
            Event::ForgottenPosition(..) => left.forgotten = false,
            _ => {}
        }
        Some(Self { world, last_served_secs, left })
    }

    /// A waiter that has waited for longer than `max_wait_secs`, or will get no further message.
    fn starved_waiter(&self, max_wait_secs: f64) -> Option<usize> {
        let waiter = *self.world.unserved().first()?;
        (self.world.is_still() || self.world.seconds() - self.last_served_secs > max_wait_secs).then_some(waiter)
    }
}

impl Fair {
    /// Runs the search.
    pub fn search(self) -> Finding {
        let start = self.first_state();
        // The predecessor of each state.
        let mut seen: HashMap<u64, Option<(u64, Event)>> = HashMap::from([(start.key(), None)]);
        let mut open = vec![(start.key(), start)];
        while let Some((key, state)) = open.pop() {
            let unserved = state.world.unserved().len();
            let has_served = unserved < self.waiters - usize::from(self.faults.death && !state.left.death);
            if unserved == 0 || has_served && !self.until_all_served {
                continue;
            }
            if let Some(waiter) = state.starved_waiter(self.max_wait_secs()) {
                let path = path_to(&seen, key);
                let story = self.tell(&path, waiter);
                let counter = Some(Counter { breach: Breach::WaiterStarved, length: path.len(), story });
                return Finding { states: seen.len(), counter, exhausted: false };
            }
            if seen.len() > STATES_MAX {
                return Finding { states: seen.len(), counter: None, exhausted: false };
            }
            for event in state.events() {
                let Some(next) = state.after(event) else { continue };
                let next_key = next.key();
                if let Entry::Vacant(entry) = seen.entry(next_key) {
                    entry.insert(Some((key, event)));
                    open.push((next_key, next));
                }
            }
        }
        Finding { states: seen.len(), counter: None, exhausted: true }
    }

    /// The longest time until the next waiter is served. If a waiter may die, its votes have to expire first.
    fn max_wait_secs(self) -> f64 {
        if self.faults.death { LONG_SECS + TTL.as_secs_f64() } else { LONG_SECS }
    }

    fn first_state(self) -> State {
        let modes = vec![Mode::EXCLUSIVE; self.waiters];
        let world = World::new(3, &modes, true, self.flaws, None);
        State { world, last_served_secs: 0.0, left: self.faults }
    }

    fn tell(self, path: &[Event], waiter: usize) -> Vec<Line> {
        let mut state = self.first_state();
        let mut story = vec![first_line(&state.world)];
        for event in path {
            state = state.after(*event).unwrap_or(state);
            story.push(event.tell(&state.world));
        }
        story.push(line(&state.world, Some(waiter), "is never served"));
        story
    }
}
