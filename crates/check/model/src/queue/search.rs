//! Looks at every order in which three waiters can be answered, and goes on fairly from each state on the way.
//!
//! Until then the search decides who is heard next. From then on everything is delivered, first come, first served, holders
//! let go at once, and time passes when nothing else can happen: everyone has to be served. And while somebody holds and
//! nothing else changes, nobody may ask more often than its polls say.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher as _;

use quorlock_core::mode::Mode;

use super::turn::{Turn, beginning, line};
use super::world::{Action, Flaws, World};
use crate::search::{Counter, Finding};
use crate::world::{Breach, Line, Mixed};

/// How many requests are answered, at most, in the order that the search decides; one may get lost instead.
const DEPTH: usize = 6;
/// Long enough for a hundred polls of everyone, in seconds.
const LONG: f64 = 100.0;
/// How long nothing changes, in seconds, and how often one waiter may ask one node or another meanwhile: eight polls of
/// three nodes, and the requests that were under way.
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

/// What becomes of it, if that is not what should.
fn fate(world: &World) -> Option<(Breach, Line)> {
    let mut end = world.clone();
    if let Some(waiter) = restless(&mut end) {
        let what = "asks again and again, though nothing has changed";
        return Some((Breach::Restless, line(&end, Some(waiter), what)));
    }
    let mut end = world.clone();
    let waiter = starved(&mut end)?;
    Some((Breach::Starved, line(&end, Some(waiter), "is not served in a hundred polls of everyone")))
}

/// Whoever is not served, though everything is fair from now on.
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

/// Whoever asks too often while somebody holds.
fn restless(world: &mut World) -> Option<usize> {
    let holders = world.holders();
    let (end, before) = (world.seconds() + STILL.0, world.asked.clone());
    while !holders.is_empty() && world.seconds() < end {
        world.settle();
        world.pass_time();
    }
    (0..before.len()).find(|client| world.asked[*client] - before[*client] > STILL.1)
}
