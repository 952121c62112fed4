//! Searches semaphores in every order of delivery, with two or three shipped clients and three shipped nodes: a
//! semaphore of k slots never has more than k holders.
//!
//! A request is delivered at any time, together with its reply unless the reply is lost. A holder releases at any time.
//! Releases arrive at once or, if the search allows it, at any time. Time passes only when no other event is possible.
//! A client makes one attempt, or several attempts until a majority grants it the same slot. If attempts lead to too
//! many states, the bounds limit their number. Nodes are interchangeable, and so are clients without tickets: the
//! search tries only one order in which they are first used. At every win, the search checks that there are at most k
//! holders, in different slots, and that no fence was granted twice.
//!
//! `tests/suite/waiting/random_schedules.rs` makes the same checks in longer schedules, which it draws at random, with
//! dead clients and lost messages.

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use quorlock_core::terms::Mode;

use crate::queue::world::{Action, Flaws, World};
use crate::search::SearchResult;
use crate::world::FixedBuildHasher;

/// The number of states after which a search stops. With all rules, every search ends earlier.
const STATES_MAX: usize = 200_000;

/// A search, and its bounds.
#[derive(Clone, Copy, Debug)]
pub struct SlotSearch {
    /// The number of clients that want a slot.
    pub clients: usize,
    /// The number of slots of the semaphore.
    pub slots: u32,
    /// Whether refused clients wait in the queue.
    pub clients_wait: bool,
    /// Whether releases arrive at any time. Otherwise they arrive at once.
    pub are_releases_late: bool,
    /// The flaws of the nodes.
    pub flaws: Flaws,
    /// The bounds of the search.
    pub bounds: Bounds,
}

/// The bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// How many attempts each client may make.
    pub attempts: usize,
    /// How many replies may be lost.
    pub lost_replies: u32,
    /// How many holders may release.
    pub releases: u32,
    /// How often time may pass when no other event is possible.
    pub time_steps: u32,
}

/// Unlimited attempts and releases, without lost replies. Time does not pass.
pub const WITHOUT_FAULTS: Bounds = Bounds { attempts: usize::MAX, lost_replies: 0, releases: u32::MAX, time_steps: 0 };

#[derive(Clone)]
struct State {
    world: World,
    bounds_left: Bounds,
    /// How many nodes and clients were used so far, in the order of their numbers. All others are interchangeable.
    used_nodes: usize,
    used_clients: usize,
}

impl State {
    fn key(&self) -> u64 {
        FixedBuildHasher.hash_one((self.world.key(), self.bounds_left))
    }

    /// All states that one event after this state leads to.
    fn successors(&self) -> Vec<Self> {
        let actions = self.world.next_actions();
        if self.world.max_attempts() > self.bounds_left.attempts {
            return Vec::new();
        }
        if actions.is_empty() && self.bounds_left.time_steps > 0 {
            let mut next = self.clone();
            next.bounds_left.time_steps -= 1;
            return if next.world.pass_time() { vec![next] } else { Vec::new() };
        }
        actions.into_iter().flat_map(|action| self.successors_after(action)).collect()
    }

    fn successors_after(&self, action: Action) -> Vec<Self> {
        let mut next = self.clone();
        match action {
            Action::Request(client, node) => {
                if client > self.used_clients || node > self.used_nodes {
                    return Vec::new();
                }
                (next.used_clients, next.used_nodes) =
                    (self.used_clients.max(client + 1), self.used_nodes.max(node + 1));
                next.world.act(action);
                let mut with_lost_reply = next.clone();
                next.world.act(Action::Reply(client, node));
                if self.bounds_left.lost_replies > 0 && with_lost_reply.world.lose(Action::Reply(client, node)) {
                    with_lost_reply.bounds_left.lost_replies -= 1;
                    return vec![next, with_lost_reply];
                }
            }
            Action::Release(_) => {
                let Some(releases) = self.bounds_left.releases.checked_sub(1) else { return Vec::new() };
                next.bounds_left.releases = if self.bounds_left.releases == u32::MAX { u32::MAX } else { releases };
                next.world.act(action);
            }
            Action::Reply(..) | Action::Hint(..) | Action::Tick(_) => next.world.act(action),
        }
        vec![next]
    }
}

impl SlotSearch {
    /// Visits every state within the bounds. Also returns the highest number of holders at the same time.
    ///
    /// # Panics
    /// If there are too many holders, two clients hold the same slot, or a fence is granted twice.
    pub fn search(self) -> (SearchResult, usize) {
        let modes = vec![Mode::Slot { permits: self.slots, slot: 0 }; self.clients];
        let world = World::new(3, &modes, self.clients_wait, self.flaws, None);
        // Tickets make waiters distinguishable from the start.
        let used_clients = if self.clients_wait { self.clients } else { 0 };
        let mut unexplored = vec![State { world, bounds_left: self.bounds, used_nodes: 0, used_clients }];
        let mut visited = HashSet::new();
        let mut max_holders = 0;
        while let Some(mut state) = unexplored.pop() {
            while let Some(release) = state.world.release_under_way().filter(|_| !self.are_releases_late) {
                state.world.act(release);
            }
            if visited.len() > STATES_MAX {
                return (
                    SearchResult { states: visited.len(), counter_example: None, is_complete: false },
                    max_holders,
                );
            }
            if visited.insert(state.key()) {
                max_holders = max_holders.max(state.world.holders().len());
                unexplored.extend(state.successors());
            }
        }
        (SearchResult { states: visited.len(), counter_example: None, is_complete: true }, max_holders)
    }
}

/// Three clients for one slot.
pub fn three_clients_for_one_slot() -> SlotSearch {
    SlotSearch {
        clients: 3,
        slots: 1,
        clients_wait: false,
        are_releases_late: false,
        flaws: Flaws::default(),
        bounds: WITHOUT_FAULTS,
    }
}

/// Three clients for two slots. One client may release.
pub fn three_clients_for_two_slots() -> SlotSearch {
    SlotSearch {
        slots: 2,
        bounds: Bounds { attempts: 1, releases: 1, ..WITHOUT_FAULTS },
        ..three_clients_for_one_slot()
    }
}

/// Three clients for two slots, with a lost reply.
pub fn three_clients_for_two_slots_and_a_lost_reply() -> SlotSearch {
    SlotSearch {
        bounds: Bounds { attempts: 1, releases: 0, lost_replies: 1, ..WITHOUT_FAULTS },
        ..three_clients_for_two_slots()
    }
}

/// Two waiters for one slot.
pub fn two_waiters_for_one_slot() -> SlotSearch {
    SlotSearch {
        clients: 2,
        clients_wait: true,
        bounds: Bounds { time_steps: 1, releases: 1, ..WITHOUT_FAULTS },
        ..three_clients_for_one_slot()
    }
}

/// Three clients for two slots. One client may release, and its releases arrive at any time.
pub fn three_clients_for_two_slots_and_late_releases() -> SlotSearch {
    SlotSearch { are_releases_late: true, ..three_clients_for_two_slots() }
}

/// Three clients for two slots, on nodes that only count holders and may give one slot to two of them.
pub fn nodes_that_count_permits() -> SlotSearch {
    SlotSearch { flaws: Flaws { counts_permits: true, ..Flaws::default() }, ..three_clients_for_two_slots() }
}
