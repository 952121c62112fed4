//! A client: its view of the roster, the votes that it counts, and its proposal.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::{self, Fence};
use quorlock_core::name::LeaseId;
use quorlock_core::node::roster::{Life, Roster};
use quorlock_core::quorum::MemberId;
use quorlock_core::request::Request;
use quorlock_core::roster::{Proposer, View};
use quorlock_core::terms::Mode;
use quorlock_core::time::{Drift, Moment, Ttl};
use quorlock_core::validity::valid_until;

use super::setup::{Flaw, Setup, TTL_MILLIS};

/// A vote that a client counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CountedVote {
    pub(super) member: MemberId,
    pub(super) fence: Fence,
    pub(super) sent: Moment,
}

/// The elapsed time of a quarantine that a client has read, and when it read the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QuarantineReading {
    pub(super) server: usize,
    pub(super) since: u64,
    pub(super) elapsed_micros: u64,
    pub(super) position: Moment,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Client {
    pub(super) view: View,
    /// The generation in which the client last counted votes.
    pub(super) counted_generation: u64,
    pub(super) votes: Vec<CountedVote>,
    pub(super) lease: Option<(Fence, Moment)>,
    pub(super) proposer: Option<Box<Proposer>>,
    /// For flaws that do not need the answers of all seats: how often the proposer has assumed that a seat agrees.
    pub(super) assumed_agreements: u8,
    pub(super) quarantine_readings: Vec<(Life, QuarantineReading)>,
    pub(super) proposals: u8,
    /// The membership changes that the client has not proposed yet, as bits.
    pub(super) membership_changes: u8,
    /// Whether the client has read two rosters of one generation, and therefore uses neither.
    pub(super) has_read_two_rosters: bool,
}

impl Client {
    pub(super) fn new(membership_changes: usize, proposals: u8, roster: Option<Arc<Roster>>) -> Self {
        let mut view = View::new();
        if let Some(roster) = roster {
            view.believe(roster);
        }
        let counted_generation = view.generation();
        Self {
            view,
            counted_generation,
            votes: Vec::new(),
            lease: None,
            proposer: None,
            assumed_agreements: 0,
            quarantine_readings: Vec::new(),
            proposals,
            membership_changes: ((1_u16 << membership_changes) - 1) as u8,
            has_read_two_rosters: false,
        }
    }

    /// Whether the lease is valid.
    pub(super) fn holds(&self, now: Moment) -> bool {
        self.lease.is_some_and(|(_, until)| now < until)
    }

    /// After a change of the view, drops the votes that no longer count.
    pub(super) fn drop_votes(&mut self, setup: &Setup) {
        let (view, counted_generation) = (&self.view, self.counted_generation);
        self.votes.retain(|vote| {
            let member = view.roster().and_then(|roster| roster.member(vote.member));
            let keeps_all = setup.has_flaw(Flaw::VotesOfLeaversCount) || setup.has_flaw(Flaw::VotesOfListsCount);
            let ignores_quarantine = setup.has_flaw(Flaw::VotesBeforeQuarantineCount);
            keeps_all || member.is_some_and(|member| ignores_quarantine || member.since <= counted_generation)
        });
        self.counted_generation = self.view.generation();
    }

    /// Drops expired votes and an expired lease, so that equivalent states are equal.
    pub(super) fn drop_expired(&mut self, now: Moment) {
        let ttl = Duration::from_millis(TTL_MILLIS);
        self.votes.retain(|vote| now < vote.sent + ttl);
        self.lease.take_if(|(_, until)| now >= *until);
    }

    /// The highest fence of the client's votes.
    pub(super) fn fence(&self) -> Fence {
        self.votes.iter().map(|vote| vote.fence).max().unwrap_or_default()
    }

    /// The next request for a vote: a renewal if the client holds the lock, and an acquire otherwise.
    pub(super) fn request(&self, index: usize) -> Option<Request> {
        let attempt = LeaseId::from_bits(index as u128 + 1);
        let ttl = Ttl::new(Duration::from_millis(TTL_MILLIS), Duration::MAX).ok()?;
        let (holder, mode) = (Arc::from(""), Mode::EXCLUSIVE);
        Some(match self.lease {
            Some((fence, _)) => Request::Renew { attempt, fence, ttl, repair: true, holder, mode },
            None => Request::Acquire { attempt, proposal: self.fence(), ttl, holder, mode, waiter: None },
        })
    }

    /// Counts a vote.
    pub(super) fn count(&mut self, vote: CountedVote) {
        self.votes.retain(|other| other.member != vote.member);
        self.votes.push(vote);
        self.votes.sort_unstable();
    }

    /// Wins or extends the lease if a majority has granted one fence.
    pub(super) fn evaluate(&mut self, majority: usize, now: Moment) {
        let Ok(ttl) = Ttl::new(Duration::from_millis(TTL_MILLIS), Duration::MAX) else { return };
        let fence = match self.lease {
            Some((fence, _)) => Some(fence),
            None => fence::sealed(self.votes.iter().map(|vote| vote.fence), majority),
        };
        let Some(fence) = fence else { return };
        let sends = self.votes.iter().filter(|vote| self.lease.is_some() || vote.fence == fence).map(|vote| vote.sent);
        let until = valid_until(sends, majority, ttl, Drift::SLEWING.of(ttl)).filter(|until| now < *until);
        if let Some(until) = until {
            // A renewal never shortens the validity.
            let latest = self.lease.map_or(until, |(_, earlier)| earlier.max(until));
            if self.lease.is_none() {
                self.votes.retain(|vote| vote.fence == fence);
            }
            self.lease = Some((fence, latest));
        }
    }
}
