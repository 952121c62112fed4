//! Checks that fences differ and are ordered like the votes, where votes may vanish early.

use std::cmp::Ordering;

use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;

type Grant = (LeaseId, Fence);

/// The grants of each server in order, and the decided leases.
#[derive(Clone, Debug, Hash)]
pub(super) struct Order {
    granted: Vec<Vec<Grant>>,
    decided: Vec<Grant>,
}

impl Order {
    pub(super) fn new(servers: usize) -> Self {
        Self { granted: vec![Vec::new(); servers], decided: Vec::new() }
    }

    pub(super) fn grant(&mut self, server: usize, attempt: LeaseId, fence: Fence) {
        let granted = &mut self.granted[server];
        if granted.last() != Some(&(attempt, fence)) {
            granted.push((attempt, fence));
        }
    }

    /// Records a new fence. Returns whether it is allowed.
    pub(super) fn decide(&mut self, attempt: LeaseId, fence: Fence) -> bool {
        let mine = (attempt, fence);
        // No server has granted the lower fence after the higher one.
        let are_ordered = |lower: &Grant, higher: &Grant| {
            self.granted.iter().all(|granted| {
                let since = granted.iter().position(|grant| grant == higher).unwrap_or(granted.len());
                !granted[since..].contains(lower)
            })
        };
        let others = self.decided.iter().filter(|(other, _)| *other != attempt);
        let is_right = others.map(|theirs| (theirs, theirs.1.cmp(&fence))).all(|(theirs, than)| match than {
            Ordering::Less => are_ordered(theirs, &mine),
            Ordering::Equal => false,
            Ordering::Greater => are_ordered(&mine, theirs),
        });
        self.decided.push(mine);
        is_right
    }
}
