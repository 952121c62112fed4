//! A client: what it knows about the roster, the votes that it counts, and its proposal.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::{self, Fence};
use quorlock_core::name::LeaseId;
use quorlock_core::node::roster::{Life, MemberId, Roster};
use quorlock_core::request::Request;
use quorlock_core::roster::{Proposer, View};
use quorlock_core::terms::Mode;
use quorlock_core::time::{Drift, Moment, Ttl};
use quorlock_core::validity::valid_until;

use super::setup::{Flaw, Setup, TTL_MILLIS};

/// A vote that a client counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Counted {
    pub(super) member: MemberId,
    pub(super) fence: Fence,
    pub(super) sent: Moment,
}

/// What a client read of a quarantine, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Sighting {
    pub(super) server: usize,
    pub(super) since: u64,
    pub(super) elapsed_micros: u64,
    pub(super) at: Moment,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Client {
    pub(super) view: View,
    /// The generation in which it last counted votes.
    pub(super) counted: u64,
    pub(super) votes: Vec<Counted>,
    pub(super) lease: Option<(Fence, Moment)>,
    pub(super) proposer: Option<Box<Proposer>>,
    /// The positions whose answers were invented, for the flaws that need no answers of all seats.
    pub(super) invented: u8,
    pub(super) sightings: Vec<(Life, Sighting)>,
    pub(super) proposals: u8,
    /// The orders that are left, as bits.
    pub(super) orders: u8,
    /// Whether it has seen two rosters of one generation, and uses none.
    pub(super) is_confused: bool,
}

impl Client {
    pub(super) fn new(orders: usize, proposals: u8, roster: Option<Arc<Roster>>) -> Self {
        let mut view = View::new();
        roster.map(|roster| view.believe(roster));
        let counted = view.generation();
        Self {
            view,
            counted,
            votes: Vec::new(),
            lease: None,
            proposer: None,
            invented: 0,
            sightings: Vec::new(),
            proposals,
            orders: ((1_u16 << orders) - 1) as u8,
            is_confused: false,
        }
    }

    /// Whether the lease is valid.
    pub(super) fn holds(&self, now: Moment) -> bool {
        self.lease.is_some_and(|(_, until)| now < until)
    }

    /// Drops the votes that do not count any more, after the view has changed.
    pub(super) fn drop_votes(&mut self, setup: &Setup) {
        let (view, counted) = (&self.view, self.counted);
        self.votes.retain(|vote| {
            let is_member = view.roster().is_some_and(|roster| roster.member(vote.member).is_some());
            let lacks_drop = setup.lacks(Flaw::LeaversCount) || setup.lacks(Flaw::Lists);
            let keeps = if setup.lacks(Flaw::QuarantinedVotesCount) {
                is_member
            } else {
                view.keeps_votes_of(vote.member, counted)
            };
            lacks_drop || keeps
        });
        self.counted = self.view.generation();
    }

    /// Drops what has expired, so that equivalent states are equal.
    pub(super) fn lapse(&mut self, now: Moment) {
        let ttl = Duration::from_millis(TTL_MILLIS);
        self.votes.retain(|vote| now < vote.sent + ttl);
        self.lease.take_if(|(_, until)| now >= *until);
    }

    /// The highest fence of its votes.
    pub(super) fn fence(&self) -> Fence {
        self.votes.iter().map(|vote| vote.fence).max().unwrap_or_default()
    }

    /// The request for the next vote: for a holder a renewal, for others the acquire.
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
    pub(super) fn count(&mut self, vote: Counted) {
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
            // A lease keeps the validity that it has earned.
            let earned = self.lease.map_or(until, |(_, earned)| earned.max(until));
            if self.lease.is_none() {
                self.votes.retain(|vote| vote.fence == fence);
            }
            self.lease = Some((fence, earned));
        }
    }
}
