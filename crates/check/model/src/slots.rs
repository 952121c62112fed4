//! Searches semaphores, with three shipped clients and three shipped nodes, in every order of delivery: a semaphore of
//! k slots never has more than k holders.
//!
//! A request is delivered at any time, together with its reply unless the reply is lost. A holder releases at any time.
//! Releases arrive at once or, if the search allows it, at any time. Time passes only when nothing else can happen, so
//! each client makes one attempt, and more attempts until it settles on a slot. Where the attempts lead to too many
//! states, the bounds limit their number. Nodes are interchangeable, and so are clients without tickets: the search
//! tries only one order of their first use. In every state, and at every win, the search checks that there are at
//! most k holders, in different slots, and that no fence was granted twice.
//!
//! `tests/suite/waiting/served.rs` draws longer runs at random, with settling, deaths and losses, and the same checks.

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use crate::queue::world::{Action, Flaws, World};
use crate::search::Finding;
use crate::world::FixedBuildHasher;

/// A limit above the states of every search, so that a search ends even if a rule fails.
const STATES_MAX: usize = 200_000;

/// A search, and its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// The number of clients that want a slot.
    pub clients: usize,
    /// The number of slots.
    pub permits: u32,
    /// Whether refused clients wait in the queue.
    pub are_waiters: bool,
    /// Whether releases arrive at any time, and not at once.
    pub are_releases_late: bool,
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
    pub lost_replies: u32,
    /// The number of releases.
    pub releases: u32,
    /// How often time may pass when nothing else can happen.
    pub pauses: u32,
}

/// Bounds with unlimited attempts and releases, but without lost replies and pauses.
pub const UNLIMITED: Bounds = Bounds { attempts: usize::MAX, lost_replies: 0, releases: u32::MAX, pauses: 0 };

#[derive(Clone)]
struct State {
    world: World,
    left: Bounds,
    /// The numbers of nodes and clients that were used so far. All others are interchangeable.
    nodes: usize,
    clients: usize,
}

impl State {
    fn key(&self) -> u64 {
        FixedBuildHasher.hash_one((self.world.key(), self.left))
    }

    /// All successors of this state.
    fn next(&self) -> Vec<Self> {
        let actions = self.world.enabled();
        if self.world.max_attempts() > self.left.attempts {
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
                let mut without_reply = next.clone();
                next.world.act(Action::Reply(client, node));
                if self.left.lost_replies > 0 && without_reply.world.lose(Action::Reply(client, node)) {
                    without_reply.left.lost_replies -= 1;
                    return vec![next, without_reply];
                }
            }
            Action::Free(_) => {
                let Some(releases) = self.left.releases.checked_sub(1) else { return Vec::new() };
                next.left.releases = if self.left.releases == u32::MAX { u32::MAX } else { releases };
                next.world.act(action);
            }
            Action::Reply(..) | Action::Hint(..) | Action::Tick(_) => next.world.act(action),
        }
        vec![next]
    }
}

impl Slots {
    /// Visits every state within the bounds. Also returns the highest number of holders at one time.
    ///
    /// # Panics
    /// If there are too many holders, two clients hold the same slot, or a fence is granted twice.
    pub fn search(self) -> (Finding, usize) {
        let modes = vec![Mode::Slot { permits: self.permits, slot: 0 }; self.clients];
        let world = World::new(3, &modes, self.are_waiters, self.flaws, None);
        let clients = if self.are_waiters { self.clients } else { 0 };
        let mut open = vec![State { world, left: self.bounds, nodes: 0, clients }];
        let mut seen = HashSet::new();
        let mut max_holders = 0;
        while let Some(mut state) = open.pop() {
            while let Some(release) = state.world.release_under_way().filter(|_| !self.are_releases_late) {
                state.world.act(release);
            }
            if seen.len() > STATES_MAX {
                return (Finding { states: seen.len(), counter: None, exhausted: false }, max_holders);
            }
            if seen.insert(state.key()) {
                max_holders = max_holders.max(state.world.holders().len());
                open.extend(state.next());
            }
        }
        (Finding { states: seen.len(), counter: None, exhausted: true }, max_holders)
    }
}

/// Three clients for one slot.
pub fn three_for_one() -> Slots {
    Slots {
        clients: 3,
        permits: 1,
        are_waiters: false,
        are_releases_late: false,
        flaws: Flaws::default(),
        bounds: UNLIMITED,
    }
}

/// Three clients for two slots. One client may release.
pub fn three_for_two() -> Slots {
    Slots { permits: 2, bounds: Bounds { attempts: 1, releases: 1, ..UNLIMITED }, ..three_for_one() }
}

/// Three clients for two slots, with a lost reply.
pub fn three_for_two_and_a_lost_reply() -> Slots {
    Slots { bounds: Bounds { attempts: 1, releases: 0, lost_replies: 1, ..UNLIMITED }, ..three_for_two() }
}

/// Two waiters for one slot.
pub fn two_waiters_for_one() -> Slots {
    Slots { clients: 2, are_waiters: true, bounds: Bounds { pauses: 1, releases: 1, ..UNLIMITED }, ..three_for_one() }
}

/// Three clients for two slots. One client may release, and its releases arrive at any time.
pub fn three_for_two_and_late_releases() -> Slots {
    Slots { are_releases_late: true, ..three_for_two() }
}

/// Three clients for two slots, on nodes that only count permits and may give one slot to two holders.
pub fn nodes_without_slots() -> Slots {
    Slots { flaws: Flaws { counts_permits: true, ..Flaws::default() }, ..three_for_two() }
}
