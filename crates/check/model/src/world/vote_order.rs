//! Checks that fences differ and have the order of the votes, even if votes expire early. Two fences have the order of
//! the votes if no server has granted the lower fence after the higher one.

use std::cmp::Ordering;

use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;

/// An attempt, and the fence that a server granted to it or that it won.
type AttemptFence = (LeaseId, Fence);

/// The grants of each server in order, and all wins.
#[derive(Clone, Debug, Hash)]
pub(super) struct VoteOrder {
    grants: Vec<Vec<AttemptFence>>,
    wins: Vec<AttemptFence>,
}

impl VoteOrder {
    pub(super) fn new(servers: usize) -> Self {
        Self { grants: vec![Vec::new(); servers], wins: Vec::new() }
    }

    /// Records that a server granted a vote.
    pub(super) fn record_grant(&mut self, server: usize, attempt: LeaseId, fence: Fence) {
        let grants = &mut self.grants[server];
        if grants.last() != Some(&(attempt, fence)) {
            grants.push((attempt, fence));
        }
    }

    /// Records that an attempt has won with this fence. Returns whether the fence differs from the fences of all other
    /// wins, and has the order of the votes with each of them.
    pub(super) fn record_win(&mut self, attempt: LeaseId, fence: Fence) -> bool {
        let win = (attempt, fence);
        let are_ordered = |lower: &AttemptFence, higher: &AttemptFence| {
            self.grants.iter().all(|grants| {
                let first_higher = grants.iter().position(|grant| grant == higher).unwrap_or(grants.len());
                !grants[first_higher..].contains(lower)
            })
        };
        let other_wins = self.wins.iter().filter(|(other, _)| *other != attempt);
        let is_ordered = other_wins.into_iter().all(|other_win| match other_win.1.cmp(&fence) {
            Ordering::Less => are_ordered(other_win, &win),
            Ordering::Equal => false,
            Ordering::Greater => are_ordered(&win, other_win),
        });
        self.wins.push(win);
        is_ordered
    }
}
