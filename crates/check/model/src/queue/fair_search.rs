//! Searches all fair schedules, and checks that each of them serves one waiter, or all waiters.
//!
//! A schedule is an order of events. It serves a waiter if the waiter gets the lock. It is fair if time passes only when
//! every message in flight has arrived. Holders release at once. The search decides the order in which requests and
//! hints arrive. It may also cause each allowed fault once: lose a request, kill a waiter, or make a node forget a queue
//! position early.
//!
//! A schedule can leave a waiter unserved in three ways: too much time passes without a win, no event is possible, or
//! the search does not end. The search does not end if a client sends requests without end, because each new attempt is
//! a new state.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use super::event::{Event, first_trace_line, trace_line};
use super::world::{Action, Flaws, TTL, World};
use crate::search::{CounterExample, STATES_MAX, SearchResult, actions_to};
use crate::world::{FixedBuildHasher, TraceLine, Violation};

/// The longest allowed wait, in seconds. It is longer than a queue position lasts (`ENTRY_LEASE`) plus a few polls.
const WAIT_SECS_MAX: f64 = 8.0;

/// A search of all fair schedules.
#[derive(Clone, Copy)]
pub struct FairSearch {
    /// The number of waiters.
    pub waiters: usize,
    /// The faults that may happen.
    pub faults: Faults,
    /// Whether each schedule must serve all waiters. Otherwise it must serve one waiter.
    pub serves_all_waiters: bool,
    /// The flaws of nodes and clients.
    pub flaws: Flaws,
}

/// Faults that may happen once each.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Faults {
    /// A request is lost.
    pub lost_request: bool,
    /// A waiter dies with its votes and queue positions.
    pub waiter_death: bool,
    /// A node forgets a queue position early.
    pub forgotten_position: bool,
}

struct State {
    world: World,
    /// When a waiter was last served, in seconds.
    last_served_secs: f64,
    faults_left: Faults,
}

impl State {
    fn key(&self) -> u64 {
        FixedBuildHasher.hash_one((self.world.key(), self.last_served_secs.to_bits(), self.faults_left))
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Event::next_events(&self.world);
        let Faults { lost_request, waiter_death, forgotten_position } = self.faults_left;
        let losses: Vec<Event> = events.iter().copied().filter_map(Event::loss).filter(|_| lost_request).collect();
        if events.is_empty() {
            events.push(Event::PassTime);
        }
        events.extend(losses);
        events.extend(self.world.unserved().into_iter().filter(|_| waiter_death).map(Event::Death));
        let queues = self.world.queues().into_iter().enumerate().filter(|_| forgotten_position);
        events.extend(
            queues.flat_map(|(node, queue)| (0..queue.len()).map(move |at| Event::ForgottenPosition(node, at))),
        );
        events
    }

    fn successor(&self, event: Event) -> Option<Self> {
        let mut world = self.world.clone();
        if !event.apply_to(&mut world) {
            return None;
        }
        let mut last_served_secs = self.last_served_secs;
        for holder in world.holders() {
            world.act(Action::Release(holder));
            world.deliver_requests_of(holder);
            last_served_secs = world.elapsed_secs();
        }
        world.drop_releases_without_effect();
        let mut faults_left = self.faults_left;
        match event {
            Event::Loss(..) => faults_left.lost_request = false,
            Event::Death(_) => faults_left.waiter_death = false,
            Event::ForgottenPosition(..) => faults_left.forgotten_position = false,
            _ => {}
        }
        Some(Self { world, last_served_secs, faults_left })
    }

    /// A waiter that the schedule does not serve: no waiter was served for longer than `wait_secs_max`, or no event is
    /// possible any more.
    fn starved_waiter(&self, wait_secs_max: f64) -> Option<usize> {
        let waiter = *self.world.unserved().first()?;
        (self.world.is_over() || self.world.elapsed_secs() - self.last_served_secs > wait_secs_max).then_some(waiter)
    }
}

impl FairSearch {
    /// Runs the search.
    pub fn search(self) -> SearchResult {
        let start = self.first_state();
        // For each state, its predecessor and the event between the two.
        let mut visited: HashMap<u64, Option<(u64, Event)>> = HashMap::from([(start.key(), None)]);
        let mut unexplored = vec![(start.key(), start)];
        while let Some((key, state)) = unexplored.pop() {
            let unserved = state.world.unserved().len();
            let is_one_dead = self.faults.waiter_death && !state.faults_left.waiter_death;
            let has_served_one = unserved < self.waiters - usize::from(is_one_dead);
            if unserved == 0 || has_served_one && !self.serves_all_waiters {
                continue;
            }
            if let Some(waiter) = state.starved_waiter(self.wait_secs_max()) {
                let path = actions_to(&visited, key);
                let trace = self.trace_of(&path, waiter);
                let counter_example =
                    Some(CounterExample { violation: Violation::WaiterStarved, length: path.len(), trace });
                return SearchResult { states: visited.len(), counter_example, is_complete: false };
            }
            if visited.len() > STATES_MAX {
                return SearchResult { states: visited.len(), counter_example: None, is_complete: false };
            }
            for event in state.events() {
                let Some(next) = state.successor(event) else { continue };
                let next_key = next.key();
                if let Entry::Vacant(entry) = visited.entry(next_key) {
                    entry.insert(Some((key, event)));
                    unexplored.push((next_key, next));
                }
            }
        }
        SearchResult { states: visited.len(), counter_example: None, is_complete: true }
    }

    /// The longest allowed wait, in seconds. If a waiter dies, the other waiters may have to wait until its votes expire.
    fn wait_secs_max(self) -> f64 {
        if self.faults.waiter_death { WAIT_SECS_MAX + TTL.as_secs_f64() } else { WAIT_SECS_MAX }
    }

    fn first_state(self) -> State {
        let modes = vec![Mode::EXCLUSIVE; self.waiters];
        let world = World::new(3, &modes, true, self.flaws, None);
        State { world, last_served_secs: 0.0, faults_left: self.faults }
    }

    fn trace_of(self, path: &[Event], waiter: usize) -> Vec<TraceLine> {
        let mut state = self.first_state();
        let mut trace = vec![first_trace_line(&state.world)];
        for event in path {
            state = state.successor(*event).unwrap_or(state);
            trace.push(event.describe(&state.world));
        }
        trace.push(trace_line(&state.world, Some(waiter), "is never served"));
        trace
    }
}
