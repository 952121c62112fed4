//! The guarantees that the search checks in every state.

use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;
use quorlock_core::terms::Mode;

use super::World;
use super::link::Link;
use super::server::Server;
use super::shared::Shared;

/// A violated guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    /// Two leases that exclude each other are valid.
    TwoHolders,
    /// A fence is not higher than all earlier fences.
    FenceOrder,
    /// A lost lease is valid again.
    LostLeaseRevived,
    /// A node has a vote that belongs to no client, and no release of that vote is in flight.
    LeftoverVote,
    /// A lease is valid more than a ttl after a majority has broken the lease.
    BrokenLeaseValid,
    /// A majority has broken a lease and every message about the break has arrived, but the holder still has the lease.
    HolderNotNotified,
    /// A break ended a lease that it did not target.
    WrongLeaseBroken,
    /// An owner holds the lock more than a ttl after a majority has retired the owner.
    RetiredOwnerHolds,
    /// A waiter is never served, although every client keeps sending requests and every message arrives.
    WaiterStarved,
    /// A client sends requests without end, although nothing has changed.
    EndlessRequests,
    /// One generation has two rosters.
    TwoRosters,
    /// No client can ever acquire the lock again, although every server is up.
    Stuck,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TwoHolders => "two holders",
            Self::FenceOrder => "fence out of order",
            Self::LostLeaseRevived => "a lost lease is valid again",
            Self::LeftoverVote => "a leftover vote",
            Self::BrokenLeaseValid => "a broken lease stays valid",
            Self::HolderNotNotified => "a holder does not learn that its lease is broken",
            Self::WrongLeaseBroken => "the wrong lease is broken",
            Self::RetiredOwnerHolds => "a retired owner keeps holding",
            Self::WaiterStarved => "a waiter is never served",
            Self::EndlessRequests => "sends requests without end",
            Self::TwoRosters => "two rosters of one generation",
            Self::Stuck => "nobody can acquire the lock again",
        })
    }
}

impl World {
    /// Checks the guarantees, and records the first violation.
    pub(super) fn check_guarantees(&mut self) {
        for index in 0..self.clients.len() {
            let now = self.client_now(index);
            let client = &self.clients[index];
            let is_valid = client.is_valid(now);
            // A detached lease may be extended after its end, unless another client has held the lock since.
            let must_stay_lost =
                client.detached_lease.as_ref().is_none_or(|detached| Some(detached.fence) < self.highest_fence);
            if is_valid && client.was_seen_expired && must_stay_lost {
                self.violation = self.violation.or(Some(Violation::LostLeaseRevived));
            } else if !is_valid && client.has_lease() && !client.was_seen_expired {
                self.clients[index].was_seen_expired = true;
            }
        }
        let valid_modes: Vec<Mode> = (0..self.clients.len())
            .filter(|index| self.clients[*index].is_valid(self.client_now(*index)))
            .map(|index| self.clients[index].mode)
            .filter(|mode| !self.is_retired(*mode))
            .collect();
        let has_conflict = valid_modes
            .iter()
            .enumerate()
            .any(|(at, mode)| valid_modes[..at].iter().any(|other| excludes(*mode, *other)));
        if has_conflict && !self.setup.checks_only_fences && !self.setup.expires_by_wall_clock() {
            self.violation = Some(Violation::TwoHolders);
        }
        self.violation = self.violation.or_else(|| self.check_break()).or_else(|| self.check_retirement());
        let is_idle = self
            .clients
            .iter()
            .all(|client| client.machine.is_none() && !client.has_lease() && client.links.iter().all(Link::is_quiet));
        // Votes from a snapshot expire during the node's quarantine, and votes of broken leases expire by themselves.
        let has_leftover_vote = |server: &Shared<Server>| server.may_vote() && server.has_vote();
        if is_idle && self.servers.iter().any(has_leftover_vote) {
            self.violation = self.violation.or(Some(Violation::LeftoverVote));
        }
    }
}

impl World {
    /// Checks that a new fence is higher than all earlier fences. The fences of readers that hold the lock together and
    /// the fences of different slots need no order, and all entries of an owner have the same fence. If votes expire by
    /// the wall clock, fences must have the order of the votes ([`super::vote_order`]).
    pub(super) fn check_fence(&mut self, mode: Mode, attempt: LeaseId, fence: Fence) {
        if let Some(order) = &mut self.vote_order {
            if !order.record_win(attempt, fence) {
                self.violation = self.violation.or(Some(Violation::FenceOrder));
            }
            return;
        }
        if let Mode::Slot { slot, .. } = mode {
            let slot_fence = self.highest_slot_fences.iter_mut().find(|(other_slot, _)| *other_slot == slot);
            match slot_fence {
                Some((_, highest)) if fence <= *highest => {
                    self.violation = self.violation.or(Some(Violation::FenceOrder));
                }
                Some((_, highest)) => *highest = fence,
                None => self.highest_slot_fences.push((slot, fence)),
            }
            return;
        }
        let is_reader = mode.is_shared();
        let highest_earlier_fence =
            if is_reader { self.highest_fence } else { self.highest_fence.max(self.highest_reader_fence) };
        let owner = if let Mode::Reentrant { owner } = mode { Some(owner) } else { None };
        let is_fence_of_same_owner =
            owner.is_some() && owner == self.highest_fence_owner && Some(fence) == highest_earlier_fence;
        if Some(fence) <= highest_earlier_fence && !is_fence_of_same_owner {
            self.violation = self.violation.or(Some(Violation::FenceOrder));
        }
        if is_reader {
            self.highest_reader_fence = self.highest_reader_fence.max(Some(fence));
        } else {
            (self.highest_fence, self.highest_fence_owner) = (self.highest_fence.max(Some(fence)), owner);
        }
    }
}

/// Whether two modes exclude each other.
fn excludes(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared { .. }, Mode::Shared { .. }) => false,
        (Mode::Reentrant { owner: one }, Mode::Reentrant { owner: other }) => one != other,
        (Mode::Slot { slot: one, .. }, Mode::Slot { slot: other, .. }) => one == other,
        _ => true,
    }
}
