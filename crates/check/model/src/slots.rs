//! Never more than k holders: clients and nodes as they ship, three of each, in every order of delivery.
//!
//! A request is delivered at any time, and its answer with it, unless that is lost; a holder lets go at any time. Releases
//! arrive at once, or at any time where the search says so. Time stands still as long as
//! anything else can happen, so each client makes one attempt, and as many more as it takes to settle on a slot; where
//! that would be too much to search, so many as the bounds say. Nodes are alike, and clients without tickets, too: only
//! one of the orders in which they come first is tried. In every state that is reached, and at every win, there are at
//! most k holders, in different slots, and no fence is given twice.
//!
//! Longer runs, with settling, dying and losing, are drawn at random in `tests/suite/waiting/served.rs`, with the same checks.

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use quorlock_core::mode::Mode;

use crate::queue::world::{Action, Flaws, World};
use crate::search::Finding;
use crate::world::Mixed;

/// More than any of the searches needs: they are to end even if a rule is broken.
const STATES_MAX: usize = 200_000;

/// What is searched, and how far.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// How many want a slot.
    pub clients: usize,
    /// How many slots there are.
    pub permits: u32,
    /// Whether they line up.
    pub waits: bool,
    /// Whether releases arrive at any time, and not at once.
    pub late: bool,
    /// What is wrong with the nodes.
    pub flaws: Flaws,
    /// How far to search.
    pub bounds: Bounds,
}

/// How far to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// How many attempts each client may begin.
    pub attempts: usize,
    /// How many answers may be lost.
    pub lost: u32,
    /// How many holders may let go.
    pub freed: u32,
    /// How often time may pass, when nothing else can happen.
    pub pauses: u32,
}

/// As many attempts as it takes, and everybody may let go.
pub const ALL: Bounds = Bounds { attempts: usize::MAX, lost: 0, freed: u32::MAX, pauses: 0 };

#[derive(Clone)]
struct State {
    world: World,
    left: Bounds,
    /// How many nodes and clients have come up yet; those that come next are alike.
    nodes: usize,
    clients: usize,
}

impl State {
    fn key(&self) -> u64 {
        Mixed.hash_one((self.world.key(), self.left))
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

impl Slots {
    /// Searches everything within the bounds, and says how many held at a time, at most.
    ///
    /// # Panics
    /// If too many hold at a time, two hold the same slot, or a fence is given twice.
    pub fn search(self) -> (Finding, usize) {
        let modes = vec![Mode::Slot { permits: self.permits, slot: 0 }; self.clients];
        let world = World::new(3, &modes, self.waits, self.flaws, None);
        let clients = if self.waits { self.clients } else { 0 };
        let mut open = vec![State { world, left: self.bounds, nodes: 0, clients }];
        let mut seen = HashSet::new();
        let mut most = 0;
        while let Some(mut state) = open.pop() {
            while let Some(release) = state.world.release_under_way().filter(|_| !self.late) {
                state.world.act(release);
            }
            if seen.len() > STATES_MAX {
                return (Finding { states: seen.len(), counter: None, exhausted: false }, most);
            }
            if seen.insert(state.key()) {
                most = most.max(state.world.holders().len());
                open.extend(state.next());
            }
        }
        (Finding { states: seen.len(), counter: None, exhausted: true }, most)
    }
}

/// Three who want the one slot.
pub fn three_for_one() -> Slots {
    Slots { clients: 3, permits: 1, waits: false, late: false, flaws: Flaws::default(), bounds: ALL }
}

/// Three who want one of two slots, one of whom may let go.
pub fn three_for_two() -> Slots {
    Slots { permits: 2, bounds: Bounds { attempts: 1, freed: 1, ..ALL }, ..three_for_one() }
}

/// The same, with an answer that is lost instead.
pub fn three_for_two_and_a_lost_answer() -> Slots {
    Slots { bounds: Bounds { attempts: 1, freed: 0, lost: 1, ..ALL }, ..three_for_two() }
}

/// Two who wait for one slot.
pub fn two_who_wait_for_one() -> Slots {
    Slots { clients: 2, waits: true, bounds: Bounds { pauses: 1, freed: 1, ..ALL }, ..three_for_one() }
}

/// Three who want one of two slots, one of whom may let go, and whose releases arrive at any time.
pub fn three_for_two_and_late_releases() -> Slots {
    Slots { late: true, ..three_for_two() }
}

/// Two slots on nodes that count permits, and give the same slot to two holders.
pub fn nodes_without_slots() -> Slots {
    Slots { flaws: Flaws { slotless: true, ..Flaws::default() }, ..three_for_two() }
}
