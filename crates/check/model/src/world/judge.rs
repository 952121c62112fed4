//! What must not be, whatever happens.

use quorlock_core::fence::Fence;
use quorlock_core::mode::Mode;
use quorlock_core::name::LeaseId;

use super::World;
use super::link::Link;
use super::server::Server;
use super::shared::Shared;

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breach {
    /// Two leases are valid that exclude each other.
    TwoHolders,
    /// A fence is not above all that were handed out before.
    FenceOrder,
    /// A lease that was over is valid again.
    Revived,
    /// A vote stands that nobody has, and nothing is under way to take it back.
    GhostVote,
    /// A lease goes on for more than a ttl after a majority has broken it.
    Unbroken,
    /// A majority has broken a lease, everybody was told, and its holder goes on.
    Unaware,
    /// A lease is broken that nobody meant.
    Mistaken,
    /// An owner holds for more than a ttl after a majority has retired it.
    Unretired,
    /// A waiter is never served, though everyone goes on asking and everything is delivered.
    Starved,
    /// Somebody asks without end, though nothing has changed.
    Restless,
}

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TwoHolders => "two holders",
            Self::FenceOrder => "fence out of order",
            Self::Revived => "a lost lease is valid again",
            Self::GhostVote => "ghost vote",
            Self::Unbroken => "a broken lease goes on",
            Self::Unaware => "a holder does not learn that its lease is broken",
            Self::Mistaken => "another lease is broken than was meant",
            Self::Unretired => "a retired owner goes on",
            Self::Starved => "a waiter is never served",
            Self::Restless => "asks without end",
        })
    }
}

impl World {
    /// Looks for what must not be.
    pub(super) fn judge(&mut self) {
        for index in 0..self.clients.len() {
            let now = self.moment(index);
            let client = &self.clients[index];
            let is_valid = client.is_valid(now);
            // Of a lease that was detached nobody knows whether it was over, unless somebody else has had the lock.
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
        // What came back with a snapshot lapses while its node is quarantined, and what was broken by itself.
        let stands = |server: &Shared<Server>| server.may_vote() && server.has_vote();
        if is_drained && self.servers.iter().any(stands) {
            self.breach = self.breach.or(Some(Breach::GhostVote));
        }
    }
}

impl World {
    /// Looks at a fence that is handed out: it is above all earlier ones. Only readers who may hold together are in no order, nor
    /// are slots, and entries of one owner share one. Where votes vanish before their time, it is in the order of the votes.
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

/// Whether two may not hold at the same time.
fn excludes(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared { .. }, Mode::Shared { .. }) => false,
        (Mode::Reentrant { owner: one }, Mode::Reentrant { owner: other }) => one != other,
        (Mode::Slot { slot: one, .. }, Mode::Slot { slot: other, .. }) => one == other,
        _ => true,
    }
}
