//! The guarantees that are checked in every state.

use quorlock_core::fence::Fence;
use quorlock_core::mode::Mode;
use quorlock_core::name::LeaseId;

use super::World;
use super::link::Link;
use super::server::Server;
use super::shared::Shared;

/// A violated guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breach {
    /// Two valid leases exclude each other.
    TwoHolders,
    /// A fence is not higher than all earlier ones.
    FenceOrder,
    /// A lost lease is valid again.
    Revived,
    /// A vote exists that belongs to no client, and nothing is in flight that releases it.
    GhostVote,
    /// A lease lasts for more than a ttl after a majority has broken it.
    Unbroken,
    /// A majority has broken a lease and all holders were notified, but its holder continues.
    Unaware,
    /// A lease is broken that was not targeted.
    Mistaken,
    /// An owner holds for more than a ttl after a majority has retired it.
    Unretired,
    /// A waiter is never served, although every client keeps asking and everything is delivered.
    Starved,
    /// A client sends requests without end, although nothing has changed.
    Restless,
    /// One generation has two rosters.
    TwoRosters,
    /// No client can ever acquire the lock again, although every server is up.
    Stuck,
}

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TwoHolders => "two holders",
            Self::FenceOrder => "fence out of order",
            Self::Revived => "a lost lease is valid again",
            Self::GhostVote => "a leftover vote",
            Self::Unbroken => "a broken lease stays valid",
            Self::Unaware => "a holder does not learn that its lease is broken",
            Self::Mistaken => "the wrong lease is broken",
            Self::Unretired => "a retired owner keeps holding",
            Self::Starved => "a waiter is never served",
            Self::Restless => "sends requests without end",
            Self::TwoRosters => "two rosters of one generation",
            Self::Stuck => "nobody can acquire the lock again",
        })
    }
}

impl World {
    /// Checks the guarantees.
    pub(super) fn judge(&mut self) {
        for index in 0..self.clients.len() {
            let now = self.moment(index);
            let client = &self.clients[index];
            let is_valid = client.is_valid(now);
            // The end of a detached lease is unknown, unless another client has held the lock since.
            let is_passed_by = client.detached.as_ref().is_none_or(|detached| Some(detached.fence) < self.highest);
            if is_valid && client.was_over && is_passed_by {
                self.breach = self.breach.or(Some(Breach::Revived));
            } else if !is_valid && client.has_lease() && !client.was_over {
                self.clients[index].was_over = true;
            }
        }
        let valid: Vec<Mode> = (0..self.clients.len())
            .filter(|index| self.clients[*index].is_valid(self.moment(*index)))
            .map(|index| self.clients[index].mode)
            .filter(|mode| !self.is_retired(*mode))
            .collect();
        let conflict =
            valid.iter().enumerate().any(|(at, mode)| valid[..at].iter().any(|other| excludes(*mode, *other)));
        if conflict && !self.setup.only_fences && !self.setup.expires_by_wall() {
            self.breach = Some(Breach::TwoHolders);
        }
        self.breach = self.breach.or_else(|| self.judge_broken()).or_else(|| self.judge_retired());
        let is_drained = self
            .clients
            .iter()
            .all(|client| client.machine.is_none() && !client.has_lease() && client.links.iter().all(Link::is_quiet));
        // Votes that came back with a snapshot expire while their node is quarantined, and broken ones by themselves.
        let stands = |server: &Shared<Server>| server.may_vote() && server.has_vote();
        if is_drained && self.servers.iter().any(stands) {
            self.breach = self.breach.or(Some(Breach::GhostVote));
        }
    }
}

impl World {
    /// Checks a new fence: it must be higher than all earlier ones. Readers that may hold together, and slots, have no
    /// order; entries of one owner share a fence. If votes vanish early, fences must have the order of the votes.
    pub(super) fn judge_fence(&mut self, mode: Mode, attempt: LeaseId, fence: Fence) {
        if let Some(order) = &mut self.order {
            if !order.decide(attempt, fence) {
                self.breach = self.breach.or(Some(Breach::FenceOrder));
            }
            return;
        }
        if let Mode::Slot { slot, .. } = mode {
            let of_slot = self.highest_in.iter_mut().find(|(of, _)| *of == slot);
            match of_slot {
                Some((_, highest)) if fence <= *highest => self.breach = self.breach.or(Some(Breach::FenceOrder)),
                Some((_, highest)) => *highest = fence,
                None => self.highest_in.push((slot, fence)),
            }
            return;
        }
        let is_among_others = mode.is_among_others();
        let before = if is_among_others { self.highest } else { self.highest.max(self.highest_among) };
        let owner = if let Mode::Reentrant { owner } = mode { Some(owner) } else { None };
        let is_shared = owner.is_some() && owner == self.highest_owner && Some(fence) == before;
        if Some(fence) <= before && !is_shared {
            self.breach = self.breach.or(Some(Breach::FenceOrder));
        }
        if is_among_others {
            self.highest_among = self.highest_among.max(Some(fence));
        } else {
            (self.highest, self.highest_owner) = (self.highest.max(Some(fence)), owner);
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
