//! The state machine of a held lease: held, renewing, then released or lost.

use alloc::vec::Vec;
use core::time::Duration;

use crate::fence::Fence;
use crate::mode::Mode;
use crate::name::LeaseId;
use crate::nodes::NodeSet;
use crate::rng::Rng;
use crate::round::Round;
use crate::rules::Rule;
use crate::step::{Loss, Step, Won};
use crate::terms::Terms;
use crate::time::Moment;
use crate::validity::{self, mth_largest};
use crate::vote::{Outcome, Refusal, Request, Silence, Vote};
use crate::watchdog::{Renewals, Watchdog};

/// The state machine behind a lease, from the win to the release or loss.
#[derive(Clone, Debug, Hash)]
pub struct Hold {
    terms: Terms,
    attempt: LeaseId,
    fence: Option<Fence>,
    acks: Vec<Option<Moment>>,
    valid_until: Moment,
    watchdog: Watchdog,
    /// Whether the lease is neither lost nor released.
    is_held: bool,
    loss: Option<Loss>,
    rounds: u32,
    /// When the last round began.
    begun: Moment,
    /// The replies to the current renewal.
    renewal: Option<Round>,
    /// Whether another renewal must follow the current one, because a hint arrived after the current one was sent.
    doubted: bool,
    /// Whether a node reported a tombstone for the attempt, although the holder did not release it.
    broken: bool,
}

impl Hold {
    /// Creates the hold of a lock that was won on these terms.
    pub fn new(terms: Terms, won: Won, now: Moment) -> Self {
        let watchdog = Watchdog::new(terms.renewals, terms.ttl, now);
        Self {
            terms: Terms { mode: won.mode, ..terms },
            attempt: won.attempt,
            fence: won.fence,
            acks: won.acks,
            valid_until: won.valid_until,
            watchdog,
            is_held: true,
            loss: None,
            rounds: 0,
            begun: now,
            renewal: None,
            doubted: false,
            broken: false,
        }
    }

    /// Returns the terms of the lease.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the lease id.
    pub fn attempt(&self) -> LeaseId {
        self.attempt
    }

    /// Returns the lease's fence; `None` for a plain lock.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Returns the validity left at `now`; zero if the lease is lost or released.
    pub fn validity(&self, now: Moment) -> Duration {
        if self.is_held { validity::left(self.valid_until, now) } else { Duration::ZERO }
    }

    /// Returns the start and end of the validity; `None` if the lease is over. The requests that a majority granted
    /// were sent at the start or later.
    pub fn span(&self) -> Option<(Moment, Moment)> {
        self.is_held.then_some((self.asked()?, self.valid_until))
    }

    /// Returns the nodes that have granted the lease.
    pub fn nodes(&self) -> NodeSet {
        (0..self.acks.len()).filter(|node| self.acks[*node].is_some()).collect()
    }

    /// Returns why the lease was lost; `None` if it was not lost.
    pub fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// Returns whether the lease was neither lost nor released at the last input.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Returns the next moment at which [`tick`](Self::tick) has work to do; `None` if the lease is over.
    pub fn next_tick(&self) -> Option<Moment> {
        if !self.is_held {
            return None;
        }
        let renewal = if self.renewal.is_some() { Some(self.deadline()) } else { self.watchdog.due() };
        let end = self.terms.rules.hold(Rule::LostIsFinal).then_some(self.valid_until);
        renewal.into_iter().chain(end).min()
    }

    /// Advances the state machine to `now`.
    pub fn tick(&mut self, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.still_valid(now, &mut steps) {
            return steps;
        }
        let deadline = self.deadline();
        if let Some(renewal) = self.renewal.as_mut().filter(|_| now >= deadline) {
            renewal.silence_the_rest(&Silence::Late);
            self.settle(now, rng, &mut steps);
        }
        if self.renewal.is_none() && self.watchdog.due().is_some_and(|due| now >= due) {
            steps.push(self.renew(now));
        }
        steps
    }

    /// Renews now, or joins the current renewal. Returns the number of the round to wait for; `None` if the lease is
    /// over.
    pub fn extend(&mut self, now: Moment) -> (Option<u32>, Vec<Step>) {
        let mut steps = Vec::new();
        if !self.still_valid(now, &mut steps) {
            return (None, steps);
        }
        if self.renewal.is_none() {
            steps.push(self.renew(now));
        }
        (Some(self.rounds), steps)
    }

    /// Handles a hint that the lease may be broken. A hint proves nothing, so the machine renews the lease, after the
    /// current renewal if there is one.
    pub fn doubt(&mut self, now: Moment) -> Vec<Step> {
        self.doubted = self.renewal.is_some();
        self.extend(now).1
    }

    /// Handles the outcome of a renewal on one node.
    ///
    /// An answer to an older round extends the vote of its node, counted from the time at which that request was sent,
    /// but never completes the majority of another round. Answers to the acquire that arrive after the win have round
    /// 0.
    pub fn take(&mut self, round: u32, node: usize, outcome: Outcome, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.still_valid(now, &mut steps) || node >= self.acks.len() {
            return steps;
        }
        let outcome = match outcome {
            Outcome::Voted { vote, .. } if !self.terms.rules.hold(Rule::CountFromSend) => {
                Outcome::Voted { vote, sent: now }
            }
            other => other,
        };
        match &outcome {
            // A late answer to the acquire may grant another slot. Such a grant is no vote for this lease.
            Outcome::Voted { vote: Vote::Grant { slot: Some(slot), .. }, .. } if !self.is_in(slot.index) => {}
            Outcome::Voted { vote: Vote::Grant { .. }, sent } => self.acks[node] = self.acks[node].max(Some(*sent)),
            // The node lost our vote with its memory, but its quarantine prevents other grants until our ttl is over.
            Outcome::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. } if !self.terms.trusting => {}
            // A node with a new roster keeps its votes.
            Outcome::Silent(_)
            | Outcome::Voted { vote: Vote::Refusal(Refusal::NewRoster), .. }
            | Outcome::Voted { vote: Vote::Report(_) | Vote::Standing { .. } | Vote::Broken { .. }, .. } => {}
            Outcome::Voted { vote: Vote::Refusal(why), .. } => {
                self.acks[node] = None;
                self.broken |= *why == Refusal::Tombstoned;
            }
        }
        let Some(asked) = self.asked() else {
            return alloc::vec![self.lose(if self.broken { Loss::Broken } else { Loss::Taken })];
        };
        self.valid_until = validity::until(asked, self.terms.ttl, self.terms.drift);
        if !self.still_valid(now, &mut steps) {
            return steps;
        }
        match &mut self.renewal {
            Some(renewal) if round == self.rounds => {
                renewal.take(node, outcome);
                self.settle(now, rng, &mut steps);
            }
            // The answer is too late for its round, but with it a majority has renewed, so no retry is needed.
            None if self.watchdog.has_failed() && asked >= self.begun => self.watchdog.renewed(asked),
            Some(_) | None => {}
        }
        steps
    }

    /// Returns the latest moment such that a majority granted requests that were sent at or after that moment.
    fn asked(&self) -> Option<Moment> {
        mth_largest(self.acks.iter().flatten().copied(), self.terms.quorum.majority())
    }

    /// Stops renewing, because another process that does not know this hold renews the lease from now on. Returns
    /// `false` if the lease was already over.
    pub fn detach(&mut self, now: Moment) -> bool {
        self.watchdog = Watchdog::new(Renewals::Off, self.terms.ttl, now);
        self.renewal = None;
        self.is_held
    }

    /// Returns the request for the nodes that have not granted the lease. Returns `None` if all nodes have granted it,
    /// or if the lock is plain (plain locks have no such request). Also returns `None` if the validity has ended: only
    /// a lease that was certainly never lost may restore a vote.
    pub fn repair(&self, now: Moment) -> Option<Step> {
        if self.validity(now).is_zero() {
            return None;
        }
        let nodes: NodeSet = (0..self.acks.len()).filter(|&node| self.acks[node].is_none()).collect();
        let request = self.request_of(self.fence?);
        (!nodes.is_empty()).then_some(Step::Ask { nodes, round: 0, request })
    }

    /// Ends the lease at the holder's request. Returns `false` if the lease was already over.
    pub fn release(&mut self) -> bool {
        self.renewal = None;
        core::mem::replace(&mut self.is_held, false)
    }

    fn is_in(&self, index: u32) -> bool {
        matches!(self.terms.mode, Mode::Slot { slot, .. } if slot == index)
    }

    /// Checks for expiry before any other input, because a lost lease stays lost.
    fn still_valid(&mut self, now: Moment, steps: &mut Vec<Step>) -> bool {
        let is_final = self.terms.rules.hold(Rule::LostIsFinal);
        if self.is_held && now >= self.valid_until && is_final {
            steps.push(self.lose(Loss::Expired));
        }
        self.is_held
    }

    fn lose(&mut self, loss: Loss) -> Step {
        self.is_held = false;
        self.loss = Some(loss);
        self.renewal = None;
        Step::Lost(loss)
    }

    fn renew(&mut self, now: Moment) -> Step {
        self.rounds = self.rounds.wrapping_add(1);
        self.begun = now;
        self.renewal = Some(Round::new(self.terms.quorum));
        let request = match self.fence {
            Some(fence) => self.request_of(fence),
            None => Request::PlainExtend { attempt: self.attempt, ttl: self.terms.ttl },
        };
        Step::Ask { nodes: NodeSet::first(self.acks.len()), round: self.rounds, request }
    }

    /// Returns when nodes that have not answered the renewal count as silent.
    fn deadline(&self) -> Moment {
        self.begun + self.terms.node_deadline
    }

    /// Returns a request that renews the vote, or restores the vote on a node that has lost it.
    fn request_of(&self, fence: Fence) -> Request {
        let (holder, mode) = (self.terms.holder.clone(), self.terms.mode);
        Request::Renew { attempt: self.attempt, fence, ttl: self.terms.ttl, repair: true, holder, mode }
    }

    fn settle(&mut self, now: Moment, rng: &mut dyn Rng, steps: &mut Vec<Step>) {
        let Some(renewal) = &self.renewal else { return };
        if renewal.grants().count() >= self.terms.quorum.majority() {
            self.watchdog.renewed(self.asked().unwrap_or(self.begun));
            steps.push(Step::Renewed { round: self.rounds });
        } else if renewal.is_out_of_reach() {
            self.watchdog.failed(now, self.terms.node_deadline, rng);
            steps.push(Step::Failed { round: self.rounds, tally: renewal.tally() });
        } else {
            return;
        }
        self.renewal = None;
        if core::mem::take(&mut self.doubted) {
            steps.push(self.renew(now));
        }
    }
}

#[cfg(test)]
mod tests;
