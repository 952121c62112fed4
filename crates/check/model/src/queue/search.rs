//! Visits every order in which three nodes can answer the first requests of three waiters, and continues with a fair
//! schedule from each state.
//!
//! The search chooses which requests are answered first. After these requests all messages arrive in order, holders
//! release at once, and time passes only when nothing else can happen. Every waiter must then get the lock. While a
//! client holds the lock and nothing else changes, a waiter may send requests only for its polls.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use super::event::{Event, first_trace_line, trace_line};
use super::world::{Action, Flaws, World};
use crate::search::{CounterExample, SearchResult};
use crate::world::{FixedBuildHasher, TraceLine, Violation};

/// The number of requests that the search chooses. One of them may be lost.
const CHOSEN_REQUESTS: usize = 6;
/// The longest allowed wait, in seconds. In this time, every waiter polls a hundred times.
const WAIT_SECS_MAX: f64 = 100.0;
/// How long a client holds the lock while nothing changes, in seconds.
const HOLD_SECS: f64 = 5.0;
/// The number of requests that a waiter may send in [`HOLD_SECS`]: eight polls of three nodes, and requests in flight.
const REQUESTS_WHILE_HELD_MAX: usize = 30;

/// Searches nodes and clients that have these flaws.
pub fn search(flaws: Flaws) -> SearchResult {
    let first_state = || World::new(3, &[Mode::EXCLUSIVE; 3], true, flaws, None);
    let start = first_state();
    let mut visited = HashSet::from([FixedBuildHasher.hash_one((start.key(), false))]);
    let mut unexplored = VecDeque::from([(start, Vec::new())]);
    while let Some((world, path)) = unexplored.pop_front() {
        if let Some((violation, last_line)) = violation_after(&world) {
            let trace = trace_of(first_state(), &path, last_line);
            let counter_example = CounterExample { violation, length: path.len(), trace };
            return SearchResult { states: visited.len(), counter_example: Some(counter_example), is_complete: false };
        }
        if path.len() == CHOSEN_REQUESTS {
            continue;
        }
        for action in world.next_actions() {
            for event in events_of(action, &path) {
                let mut next = world.clone();
                event.apply_to(&mut next);
                let mut path = path.clone();
                path.push(event);
                let has_loss = path.iter().any(Event::is_loss);
                if visited.insert(FixedBuildHasher.hash_one((next.key(), has_loss))) {
                    unexplored.push_back((next, path));
                }
            }
        }
    }
    SearchResult { states: visited.len(), counter_example: None, is_complete: true }
}

fn trace_of(mut world: World, path: &[Event], last_line: TraceLine) -> Vec<TraceLine> {
    let mut trace = vec![first_trace_line(&world)];
    for event in path {
        event.apply_to(&mut world);
        trace.push(event.describe(&world));
    }
    trace.push(last_line);
    trace
}

/// If the action delivers a request: its answer and, unless the path already has a loss, its loss.
fn events_of(action: Action, path: &[Event]) -> Vec<Event> {
    let Action::Request(client, node) = action else { return Vec::new() };
    let mut events = vec![Event::Answer(client, node)];
    if !path.iter().any(Event::is_loss) {
        events.push(Event::Loss(client, node));
    }
    events
}

/// The violation that follows from this state, if there is one, and the trace line that describes it.
fn violation_after(world: &World) -> Option<(Violation, TraceLine)> {
    let mut end = world.clone();
    if let Some(waiter) = waiter_with_too_many_requests(&mut end) {
        let event = "sends requests again and again, although nothing has changed";
        return Some((Violation::EndlessRequests, trace_line(&end, Some(waiter), event)));
    }
    let mut end = world.clone();
    let waiter = starved_waiter(&mut end)?;
    Some((
        Violation::WaiterStarved,
        trace_line(&end, Some(waiter), "is not served within a hundred polls of every waiter"),
    ))
}

/// A waiter that does not get the lock, although the schedule is fair from this state on.
fn starved_waiter(world: &mut World) -> Option<usize> {
    let end = world.elapsed_secs() + WAIT_SECS_MAX;
    while !world.unserved().is_empty() && world.elapsed_secs() < end {
        world.deliver_all();
        for holder in world.holders() {
            world.act(Action::Release(holder));
        }
        if world.holders().is_empty() && world.next_actions().is_empty() {
            world.pass_time();
        }
    }
    world.unserved().first().copied()
}

/// A waiter that sends too many requests while another client holds the lock.
fn waiter_with_too_many_requests(world: &mut World) -> Option<usize> {
    let holders = world.holders();
    let (end, sent_before) = (world.elapsed_secs() + HOLD_SECS, world.requests_sent.clone());
    while !holders.is_empty() && world.elapsed_secs() < end {
        world.deliver_all();
        world.pass_time();
    }
    (0..sent_before.len()).find(|client| world.requests_sent[*client] - sent_before[*client] > REQUESTS_WHILE_HELD_MAX)
}
