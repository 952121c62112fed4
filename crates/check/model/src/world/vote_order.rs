//! Checks that fences differ and have the order of the votes, even if votes expire early.

use std::cmp::Ordering;

use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;

type Grant = (LeaseId, Fence);

/// The grants of each server in order, and all leases that were won.
#[derive(Clone, Debug, Hash)]
pub(super) struct VoteOrder {
    granted: Vec<Vec<Grant>>,
    won: Vec<Grant>,
}

impl VoteOrder {
    pub(super) fn new(servers: usize) -> Self {
        Self { granted: vec![Vec::new(); servers], won: Vec::new() }
    }

    /// Records that a server granted a vote.
    pub(super) fn record_grant(&mut self, server: usize, attempt: LeaseId, fence: Fence) {
        let granted = &mut self.granted[server];
        if granted.last() != Some(&(attempt, fence)) {
            granted.push((attempt, fence));
        }
    }

    /// Records a lease that was won. Returns whether its fence differs from all others and has the order of the votes.
    pub(super) fn record_win(&mut self, attempt: LeaseId, fence: Fence) -> bool {
        let mine = (attempt, fence);
        // Whether no server has granted the lower fence after the higher one.
        let are_ordered = |lower: &Grant, higher: &Grant| {
            self.granted.iter().all(|granted| {
                let first_higher = granted.iter().position(|grant| grant == higher).unwrap_or(granted.len());
                !granted[first_higher..].contains(lower)
            })
        };
        let others = self.won.iter().filter(|(other, _)| *other != attempt);
        let is_ordered = others.into_iter().all(|theirs| match theirs.1.cmp(&fence) {
            Ordering::Less => are_ordered(theirs, &mine),
            Ordering::Equal => false,
            Ordering::Greater => are_ordered(&mine, theirs),
        });
        self.won.push(mine);
        is_ordered
    }
}
