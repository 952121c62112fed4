//! Visits every order in which three waiters can be answered, and continues fairly from each visited state.
//!
//! At first the search decides which request is answered next. From then on all messages arrive in order, holders
//! release at once, and time passes only when nothing else can happen. Every waiter must then be served. While a client
//! holds the lock and nothing else changes, a waiter may send requests only for its polls.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use super::event::{Event, first_line, line};
use super::world::{Action, Flaws, World};
use crate::search::{Counter, Finding};
use crate::world::{Breach, FixedBuildHasher, Line};

/// How many requests are answered in the order that the search chooses. One of the requests may be lost instead.
const DEPTH: usize = 6;
/// A time in which every waiter polls a hundred times, in seconds.
const LONG_SECS: f64 = 100.0;
/// How long a client holds the lock while nothing changes, in seconds.
const HELD_SECS: f64 = 5.0;
/// How many requests a waiter may send in that time: for eight polls of three nodes, and the requests in flight.
const MAX_REQUESTS_WHILE_HELD: usize = 30;

/// Searches with these flaws.
pub fn search(flaws: Flaws) -> Finding {
    let begin = || World::new(3, &[Mode::EXCLUSIVE; 3], true, flaws, None);
    let start = begin();
    let mut seen = HashSet::from([FixedBuildHasher.hash_one((start.key(), false))]);
    let mut open = VecDeque::from([(start, Vec::new())]);
    while let Some((world, path)) = open.pop_front() {
        if let Some((breach, last_line)) = violation_after(&world) {
            let story = tell(begin(), &path, last_line);
            let counter = Counter { breach, length: path.len(), story };
            return Finding { states: seen.len(), counter: Some(counter), exhausted: false };
        }
        if path.len() == DEPTH {
            continue;
        }
        for action in world.enabled() {
            for event in events(action, &path) {
                let mut next = world.clone();
                event.apply_to(&mut next);
                let mut path = path.clone();
                path.push(event);
                let has_lost = path.iter().any(Event::is_loss);
                if seen.insert(FixedBuildHasher.hash_one((next.key(), has_lost))) {
                    open.push_back((next, path));
                }
            }
        }
    }
    Finding { states: seen.len(), counter: None, exhausted: true }
}

fn tell(mut world: World, path: &[Event], last_line: Line) -> Vec<Line> {
    let mut story = vec![first_line(&world)];
    for event in path {
        event.apply_to(&mut world);
        story.push(event.tell(&world));
    }
    story.push(last_line);
    story
}

fn events(action: Action, path: &[Event]) -> Vec<Event> {
    let Action::Request(client, node) = action else { return Vec::new() };
    let mut events = vec![Event::Answer(client, node)];
    if !path.iter().any(Event::is_loss) {
        events.push(Event::Loss(client, node));
    }
    events
}

/// The violation to which this state leads, if there is one, and the line that describes it.
fn violation_after(world: &World) -> Option<(Breach, Line)> {
    let mut end = world.clone();
    if let Some(waiter) = restless_waiter(&mut end) {
        let what = "sends requests again and again, though nothing has changed";
        return Some((Breach::EndlessRequests, line(&end, Some(waiter), what)));
    }
    let mut end = world.clone();
    let waiter = starved_waiter(&mut end)?;
    Some((Breach::WaiterStarved, line(&end, Some(waiter), "is not served within a hundred polls of every waiter")))
}

/// A waiter that is not served, although the schedule is fair from this state on.
fn starved_waiter(world: &mut World) -> Option<usize> {
    let end = world.seconds() + LONG_SECS;
    while !world.unserved().is_empty() && world.seconds() < end {
        world.settle();
        for holder in world.holders() {
            world.act(Action::Free(holder));
        }
        if world.holders().is_empty() && world.enabled().is_empty() {
            world.pass_time();
        }
    }
    world.unserved().first().copied()
}

/// A waiter that sends too many requests while another client holds the lock.
fn restless_waiter(world: &mut World) -> Option<usize> {
    let holders = world.holders();
    let (end, before) = (world.seconds() + HELD_SECS, world.requests_sent.clone());
    while !holders.is_empty() && world.seconds() < end {
        world.settle();
        world.pass_time();
    }
    (0..before.len()).find(|client| world.requests_sent[*client] - before[*client] > MAX_REQUESTS_WHILE_HELD)
}
