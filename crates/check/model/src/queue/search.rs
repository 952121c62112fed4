//! Visits every order in which three waiters can be answered, and continues fairly from each state on the way.
//!
//! At first the search decides which request is answered next. From then on everything is delivered in order, holders
//! release at once, and time passes when nothing else can happen: every waiter must be served. And while a client holds
//! and nothing else changes, no waiter may ask more often than it polls.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use super::turn::{Turn, beginning, line};
use super::world::{Action, Flaws, World};
use crate::search::{Counter, Finding};
use crate::world::{Breach, Line, Mixed};

/// The most requests that are answered in the order of the search; one may be lost instead.
const DEPTH: usize = 6;
/// Long enough for a hundred polls of every waiter, in seconds.
const LONG: f64 = 100.0;
/// How long nothing changes, in seconds, and how many requests a waiter may send in that time: eight polls of three
/// nodes, and the requests in flight.
const STILL: (f64, usize) = (5.0, 30);

/// Searches with these flaws.
pub fn search(flaws: Flaws) -> Finding {
    let begin = || World::new(3, &[Mode::EXCLUSIVE; 3], true, flaws, None);
    let start = begin();
    let mut seen = HashSet::from([Mixed.hash_one((start.key(), false))]);
    let mut open = VecDeque::from([(start, Vec::new())]);
    while let Some((world, way)) = open.pop_front() {
        if let Some((breach, fate)) = fate(&world) {
            let story = tell(begin(), &way, fate);
            let counter = Counter { breach, length: way.len(), story };
            return Finding { states: seen.len(), counter: Some(counter), exhausted: false };
        }
        if way.len() == DEPTH {
            continue;
        }
        for action in world.enabled() {
            for turn in turns(action, &way) {
                let mut next = world.clone();
                turn.take(&mut next);
                let mut way = way.clone();
                way.push(turn);
                let has_lost = way.iter().any(Turn::is_loss);
                if seen.insert(Mixed.hash_one((next.key(), has_lost))) {
                    open.push_back((next, way));
                }
            }
        }
    }
    Finding { states: seen.len(), counter: None, exhausted: true }
}

fn tell(mut world: World, way: &[Turn], fate: Line) -> Vec<Line> {
    let mut story = vec![beginning(&world)];
    for turn in way {
        turn.take(&mut world);
        story.push(turn.tell(&world));
    }
    story.push(fate);
    story
}

fn turns(action: Action, way: &[Turn]) -> Vec<Turn> {
    let Action::Request(client, node) = action else { return Vec::new() };
    let mut turns = vec![Turn::Answered(client, node)];
    if !way.iter().any(Turn::is_loss) {
        turns.push(Turn::Lost(client, node));
    }
    turns
}

/// The violation that follows from this state, if there is one.
fn fate(world: &World) -> Option<(Breach, Line)> {
    let mut end = world.clone();
    if let Some(waiter) = restless(&mut end) {
        let what = "asks again and again, though nothing has changed";
        return Some((Breach::Restless, line(&end, Some(waiter), what)));
    }
    let mut end = world.clone();
    let waiter = starved(&mut end)?;
    Some((Breach::Starved, line(&end, Some(waiter), "is not served within a hundred polls of every waiter")))
}

/// A waiter that is not served, although the schedule is fair from now on.
fn starved(world: &mut World) -> Option<usize> {
    let end = world.seconds() + LONG;
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

/// A waiter that asks too often while another client holds.
fn restless(world: &mut World) -> Option<usize> {
    let holders = world.holders();
    let (end, before) = (world.seconds() + STILL.0, world.asked.clone());
    while !holders.is_empty() && world.seconds() < end {
        world.settle();
        world.pass_time();
    }
    (0..before.len()).find(|client| world.asked[*client] - before[*client] > STILL.1)
}
