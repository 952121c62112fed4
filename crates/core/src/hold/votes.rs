//! The votes of a held lease: which of them count, and how the lease follows the roster.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Hold, Step};
use crate::quorum::{Elector, Electors};
use crate::rng::Rng;
use crate::terms::Terms;
use crate::time::Moment;
use crate::validity::mth_largest;

/// A vote for a held lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ack {
    pub(crate) elector: Elector,
    /// When the request was sent.
    pub(crate) sent: Moment,
}

impl Hold {
    /// Follows the roster that the client has read. Drops the votes that do not count any more before it counts a vote
    /// given under the new generation. The lease keeps its validity; from now on the new majority renews it. Asks again
    /// the nodes that had a newer roster than the client.
    ///
    /// The driver calls this whenever the client has read the roster, even if the roster has not changed: a node may
    /// have refused a renewal that named an older one.
    pub fn change_roster(&mut self, electors: &Arc<Electors>, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.still_valid(now, &mut steps) {
            return steps;
        }
        self.terms.electors = electors.clone();
        for ack in &mut self.acks {
            ack.take_if(|ack| !electors.counts(ack.elector));
        }
        self.asked_at = self.majority_asked_at().map_or(self.asked_at, |asked_at| asked_at.max(self.asked_at));
        let Some(renewal) = &mut self.renewal else { return steps };
        let (again, round) = (renewal.change_electors(electors), self.rounds);
        self.complete_renewal(now, rng, &mut steps);
        if self.renewal.is_some() && self.rounds == round && !again.is_empty() {
            steps.push(Step::Ask { nodes: again, round, request: self.request() });
        }
        steps
    }

    /// Counts a member's vote.
    pub(super) fn acknowledge(&mut self, node: usize, elector: Elector, sent: Moment) {
        if self.terms.electors.counts(elector) {
            let known = self.position_of(elector);
            let earlier = known.and_then(|known| self.acks[known]).map(|ack| ack.sent);
            self.acks[known.unwrap_or(node)] = Some(Ack { elector, sent: earlier.map_or(sent, |at| at.max(sent)) });
        }
    }

    /// Removes a member's vote. Returns whether it had one.
    pub(super) fn withdraw(&mut self, elector: Elector) -> bool {
        let known = self.position_of(elector);
        known.is_some_and(|known| self.acks[known].take().is_some())
    }

    /// Returns the position at which this member has granted.
    fn position_of(&self, elector: Elector) -> Option<usize> {
        self.acks.iter().position(|ack| ack.is_some_and(|ack| ack.elector.member == elector.member))
    }

    /// Returns the latest moment such that a majority granted requests that were sent at or after that moment.
    pub(super) fn majority_asked_at(&self) -> Option<Moment> {
        majority_asked_at(&self.acks, &self.terms)
    }
}

pub(super) fn majority_asked_at(acks: &[Option<Ack>], terms: &Terms) -> Option<Moment> {
    mth_largest(acks.iter().flatten().map(|ack| ack.sent), terms.electors.majority())
}
