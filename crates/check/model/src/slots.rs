//! Searches semaphores: never more than k holders, with the shipped clients and nodes, three of each, in every order of
//! delivery.
//!
//! A request is delivered at any time together with its reply, unless that is lost; a holder releases at any time.
//! Releases arrive at once, or at any time if the search allows it. Time stands still while anything else can happen,
//! so each client makes one attempt, and as many more as it needs to settle on a slot; where that would be too many
//! states, the bounds limit it. Nodes are interchangeable, and so are clients without tickets: the search tries only
//! one order of their first use. In every state, and at every win, there are at most k holders, in different slots, and
//! no fence is granted twice.
//!
//! `tests/suite/waiting/served.rs` draws longer runs at random, with settling, deaths and losses, and the same checks.

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use crate::queue::world::{Action, Flaws, World};
use crate::search::Finding;
use crate::world::Mixed;

/// More than any of the searches needs, so that they end even if a rule is broken.
const STATES_MAX: usize = 200_000;

/// A search, and its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// The number of clients that want a slot.
    pub clients: usize,
    /// The number of slots.
    pub permits: u32,
    /// Whether clients queue.
    pub waits: bool,
    /// Whether releases arrive at any time, and not at once.
    pub late: bool,
    /// The flaws of the nodes.
    pub flaws: Flaws,
    /// The bounds of the search.
    pub bounds: Bounds,
}

/// The bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// The number of attempts of each client.
    pub attempts: usize,
    /// The number of lost replies.
    pub lost: u32,
    /// The number of holders that release.
    pub freed: u32,
    /// How often time may pass when nothing else can happen.
    pub pauses: u32,
}

/// Unlimited attempts, and every holder may release.
pub const ALL: Bounds = Bounds { attempts: usize::MAX, lost: 0, freed: u32::MAX, pauses: 0 };

#[derive(Clone)]
struct State {
    world: World,
    left: Bounds,
    /// The number of nodes and clients that were used so far; the others are interchangeable.
    nodes: usize,
    clients: usize,
}

impl State {
    fn key(&self) -> u64 {
        Mixed.hash_one((self.world.key(), self.left))
    }

    /// All successors of this state.
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
    /// Visits every state within the bounds. Returns also the highest number of holders at one time.
    ///
    /// # Panics
    /// If there are too many holders, two hold the same slot, or a fence is granted twice.
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

/// Three clients for one slot.
pub fn three_for_one() -> Slots {
    Slots { clients: 3, permits: 1, waits: false, late: false, flaws: Flaws::default(), bounds: ALL }
}

/// Three clients for two slots, one of which may release.
pub fn three_for_two() -> Slots {
    Slots { permits: 2, bounds: Bounds { attempts: 1, freed: 1, ..ALL }, ..three_for_one() }
}

/// The same, with a lost reply instead.
pub fn three_for_two_and_a_lost_reply() -> Slots {
    Slots { bounds: Bounds { attempts: 1, freed: 0, lost: 1, ..ALL }, ..three_for_two() }
}

/// Two waiters for one slot.
pub fn two_who_wait_for_one() -> Slots {
    Slots { clients: 2, waits: true, bounds: Bounds { pauses: 1, freed: 1, ..ALL }, ..three_for_one() }
}

/// Three clients for two slots, one of which may release, with releases that arrive at any time.
pub fn three_for_two_and_late_releases() -> Slots {
    Slots { late: true, ..three_for_two() }
}

/// Two slots on nodes that only count permits, and give one slot to two holders.
pub fn nodes_without_slots() -> Slots {
    Slots { flaws: Flaws { counts_permits: true, ..Flaws::default() }, ..three_for_two() }
}
