//! The client side of the roster: which roster a client believes, and how it decides the next one.
//!
//! A generation decides its successor by single-decree Paxos among its own members ([`Proposer`]). A [`View`] is what
//! one client knows. The node side is [`node::roster`](crate::node::roster).
//!
//! When a client learns a roster it does three things in this order: it publishes the roster ([`View::learn`]), drops
//! the votes that do not count any more (`change_roster` of each machine), and only then counts a vote given under the
//! new generation. A lease keeps the validity that it has earned.

mod plan;
mod proposer;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::node::roster::{Change, ChangeError, Membership, Roster};
use crate::quorum::{Electors, MemberId, Quorum};
use crate::rng::Rng;
use crate::time::Moment;

pub use plan::Plan;
pub use proposer::{End, Proposer, Stop};

/// The longest first wait before a client finishes the proposal of another one.
pub const DUEL_DELAY: Duration = Duration::from_secs(2);
/// The longest wait between two proposals.
pub const DUEL_DELAY_MAX: Duration = Duration::from_secs(60);

/// What a client knows about the roster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    roster: Option<Arc<Roster>>,
    /// The members of the generation before that were seen to have installed the roster or a later one. If every seat
    /// agreed on the roster: its own members. Empty once the roster is settled.
    moved: Vec<MemberId>,
    /// When the client has seen that the roster is settled: no earlier generation can get a majority any more.
    settled: Option<Moment>,
}

/// Two different rosters of one generation: an assumption is broken, and neither may be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two different rosters of generation {}: the memory of a node was copied or restored unseen", known.generation)]
pub struct Conflict {
    /// The roster that the client believes.
    pub known: Arc<Roster>,
    /// The roster that a node reports.
    pub other: Arc<Roster>,
}

impl View {
    /// Creates the view of a client that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the roster that the client believes.
    pub fn roster(&self) -> Option<&Arc<Roster>> {
        self.roster.as_ref()
    }

    /// Returns the believed generation; 0 if there is none.
    pub fn generation(&self) -> u64 {
        self.roster.as_ref().map_or(0, |roster| roster.generation)
    }

    /// Returns when the client saw that the roster is settled; `None` if it has not seen that.
    pub fn settled(&self) -> Option<Moment> {
        self.settled
    }

    /// Learns from what nodes report about themselves, and returns whether the client now believes a newer roster.
    /// `listed` is the number of nodes in the client's list.
    ///
    /// A single report is enough: a node installs only what was decided, and a client that believes too old a roster
    /// gets no majority. If nodes of several clusters answer at first contact, a majority of the list must agree.
    ///
    /// # Errors
    /// [`Conflict`] if a node reports another roster of the same generation.
    pub fn learn<'a>(
        &mut self,
        reports: impl IntoIterator<Item = &'a Membership>,
        listed: usize,
        now: Moment,
    ) -> Result<bool, Conflict> {
        let reports: Vec<&Membership> = reports.into_iter().collect();
        let installed = || reports.iter().filter_map(|report| report.roster.as_ref());
        let of_one = |cluster| installed().filter(move |roster| roster.cluster == cluster);
        let cluster = match &self.roster {
            Some(roster) => Some(roster.cluster),
            None => installed().map(|roster| roster.cluster).find(|cluster| {
                let count = of_one(*cluster).count();
                count == installed().count() || count >= Quorum::majority_of(listed)
            }),
        };
        let newest = cluster.and_then(|cluster| of_one(cluster).max_by_key(|roster| roster.generation)).cloned();
        let is_newer = newest.is_some_and(|newest| self.believe(newest));
        if let Some(known) = &self.roster {
            let is_other = |other: &&Arc<Roster>| other.generation == known.generation && *other != known;
            if let Some(other) = of_one(known.cluster).find(is_other) {
                return Err(Conflict { known: known.clone(), other: other.clone() });
            }
            let known = known.clone();
            if self.settled.is_none() {
                self.note_moved(&known, &reports, now);
            }
        }
        Ok(is_newer)
    }

    /// Believes a roster that was decided, if it is newer than the known one.
    pub fn believe(&mut self, roster: Arc<Roster>) -> bool {
        let is_newer = roster.generation > self.generation();
        if is_newer {
            *self = Self { roster: Some(roster), ..Self::default() };
        }
        is_newer
    }

    /// Notes which members have moved to the believed generation. That stays true: a member that then loses its memory
    /// gets another id.
    fn note_moved(&mut self, roster: &Roster, reports: &[&Membership], now: Moment) {
        let is_here = |report: &&&Membership| {
            report.roster.as_ref().is_some_and(|theirs| theirs.cluster == roster.cluster)
                && report.generation() >= roster.generation
        };
        for report in reports.iter().filter(is_here) {
            for id in [report.member, report.former].into_iter().flatten() {
                let counts =
                    if roster.before.is_empty() { roster.member(id).is_some() } else { roster.before.contains(&id) };
                if counts && !self.moved.contains(&id) {
                    self.moved.push(id);
                }
            }
        }
        self.moved.sort_unstable();
        let needed = match roster.before.len() {
            0 => roster.members.len(),
            before => Quorum::majority_of(before),
        };
        let is_told = reports.iter().filter(is_here).any(|report| report.is_settled);
        if is_told || self.moved.len() >= needed {
            (self.settled, self.moved) = (Some(now), Vec::new());
        }
    }

    /// Returns who may vote, for a list of this many nodes; `None` if the client knows no roster.
    pub fn electors(&self, listed: usize) -> Option<Arc<Electors>> {
        self.roster.as_ref().map(|roster| Arc::new(roster.electors(listed)))
    }

    /// Returns whether the client may count time towards a quarantine that this generation ordered.
    pub fn may_count(&self, since: u64) -> bool {
        // The next generation is proposed only after this one is settled.
        since < self.generation() || since == self.generation() && self.settled.is_some()
    }

    /// Returns the next roster with this change.
    ///
    /// # Errors
    /// [`ChangeError`] if the change is impossible, or must wait.
    pub fn successor(&self, change: &Change, now: Moment) -> Result<Arc<Roster>, ChangeError> {
        let (Some(roster), Some(settled)) = (&self.roster, self.settled) else { return Err(ChangeError::Unsettled) };
        let wait = Duration::from_micros(roster.quarantine_micros());
        // Two majorities overlap in spite of one change of N. After a second one they need not.
        if change.must_wait() && now.since(settled) < wait {
            return Err(ChangeError::TooEarly);
        }
        roster.successor(change).map(Arc::new)
    }
}

/// How long to wait before the next proposal, so that proposers do not outbid each other forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Duel {
    reach: Duration,
}

impl Default for Duel {
    fn default() -> Self {
        Self { reach: DUEL_DELAY }
    }
}

impl Duel {
    /// Returns the wait before a client finishes a proposal that it found.
    pub fn delay(&self, rng: &mut dyn Rng) -> Duration {
        rng.between(Duration::ZERO, self.reach)
    }

    /// Doubles the wait after a lost duel.
    pub fn lost(&mut self) {
        self.reach = self.reach.saturating_mul(2).min(DUEL_DELAY_MAX);
    }
}

#[cfg(test)]
mod tests;
