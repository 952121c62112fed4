//! Never more than k holders: clients and nodes as they ship, three of each, in every order of delivery.
//!
//! A request is delivered at any time, and its answer with it, unless that is lost; a holder lets go at any time. What
//! is taken back arrives at once: `naive_semaphore.rs` is about releases that are late. Time stands still as long as
//! anything else can happen, so each client makes one attempt, and as many more as it takes to settle on a slot; where
//! that would be too much to search, so many as the bounds say. Nodes are alike, and clients without tickets, too: only
//! one of the orders in which they come first is tried. In every state that is reached, and at every win, there are at
//! most k holders, in different slots, and no fence is given twice.
//!
//! Longer runs, with settling, dying and losing, are drawn at random in `waiting/served.rs`, with the same checks.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use quorlock_core::mode::Mode;
use quorlock_sim::line::world::{Action, Flaws, World};

/// More than any of the searches needs: they are to end even if a rule is broken.
const STATES_MAX: usize = 40_000;

/// How far to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Bounds {
    /// How many attempts each client may begin.
    attempts: usize,
    /// How many answers may be lost.
    lost: u32,
    /// How many holders may let go.
    freed: u32,
    /// How often time may pass, when nothing else can happen.
    pauses: u32,
}

const ALL: Bounds = Bounds { attempts: usize::MAX, lost: 0, freed: u32::MAX, pauses: 0 };

#[derive(Clone)]
struct State {
    world: World,
    left: Bounds,
    /// How many nodes and clients have come up yet; those that come next are alike.
    nodes: usize,
    clients: usize,
}

impl State {
    fn new(clients: usize, permits: u32, waits: bool, bounds: Bounds) -> Self {
        let modes = vec![Mode::Slot { permits, slot: 0 }; clients];
        let world = World::new(3, &modes, waits, Flaws::default(), None);
        Self { world, left: bounds, nodes: 0, clients: if waits { clients } else { 0 } }
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.world.key(), self.left).hash(&mut hasher);
        hasher.finish()
    }

    /// Everything that can come of it, each after one more thing has happened.
    fn next(&self) -> Vec<Self> {
        let actions = self.world.enabled();
        if self.world.attempts_most() > self.left.attempts {
            return Vec::new();
        }
        if actions.is_empty() && self.left.pauses > 0 {
            let mut next = self.clone();
            next.left.pauses -= 1;
            return if next.world.pass_time() { vec![next] } else { Vec::new() };
        }
        actions.into_iter().flat_map(|action| self.after(action)).collect()
    }

    fn after(&self, action: Action) -> Vec<Self> {
        let mut next = self.clone();
        match action {
            Action::Request(client, node) => {
                if client > self.clients || node > self.nodes {
                    return Vec::new();
                }
                (next.clients, next.nodes) = (self.clients.max(client + 1), self.nodes.max(node + 1));
                next.world.act(action);
                let mut lost = next.clone();
                next.world.act(Action::Reply(client, node));
                if self.left.lost > 0 && lost.world.lose(Action::Reply(client, node)) {
                    lost.left.lost -= 1;
                    return vec![next, lost];
                }
            }
            Action::Free(_) => {
                let Some(freed) = self.left.freed.checked_sub(1) else { return Vec::new() };
                next.left.freed = if self.left.freed == u32::MAX { u32::MAX } else { freed };
                next.world.act(action);
            }
            Action::Reply(..) | Action::Hint(..) | Action::Tick(_) => next.world.act(action),
        }
        vec![next]
    }
}

/// Searches everything within the bounds. The most that ever held at a time.
fn most_holders(start: State) -> usize {
    let mut open = vec![start];
    let mut seen = HashSet::new();
    let mut most = 0;
    while let Some(mut state) = open.pop() {
        while let Some(release) = state.world.release_under_way() {
            state.world.act(release);
        }
        if seen.insert(state.hash()) {
            assert!(seen.len() < STATES_MAX, "there is no end to it");
            most = most.max(state.world.holders().len());
            open.extend(state.next());
        }
    }
    println!("{} states", seen.len());
    most
}

#[test]
fn one_permit_has_one_holder() {
    assert_eq!(most_holders(State::new(3, 1, false, ALL)), 1);
}

#[test]
fn two_permits_have_two_holders() {
    assert_eq!(most_holders(State::new(3, 2, false, Bounds { attempts: 1, freed: 1, ..ALL })), 2);
}

#[test]
fn two_permits_have_two_holders_though_an_answer_is_lost() {
    assert_eq!(most_holders(State::new(3, 2, false, Bounds { attempts: 1, freed: 0, lost: 1, ..ALL })), 2);
}

#[test]
fn those_who_wait_for_one_permit_hold_it_one_after_the_other() {
    assert_eq!(most_holders(State::new(2, 1, true, Bounds { lost: 0, pauses: 1, freed: 1, ..ALL })), 1);
}
