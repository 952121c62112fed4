//! The state machine of a held lease: held, renewing, then released or lost. Also the steps that both state machines
//! return, [`Acquire`](crate::acquire::Acquire) and [`Hold`].

mod votes;

use alloc::vec::Vec;
use core::time::Duration;

use crate::fence::Fence;
use crate::name::{Holder, LeaseId};
use crate::nodes::NodeSet;
use crate::request::{Parting, Request};
use crate::rng::Rng;
use crate::round::Round;
use crate::rules::Rule;
use crate::terms::{Mode, Renewals, Terms};
use crate::time::{Moment, Ttl};
use crate::validity;
use crate::vote::{Outcome, Refusal, Silence, Tally, Verdict, Vote};

pub(crate) use votes::Ack;
use votes::majority_asked_at;

/// The state machine behind a lease, from the win to the release or loss.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    terms: Terms,
    attempt: LeaseId,
    fence: Option<Fence>,
    /// For each node, the newest vote that counts. A member has one vote, even if it was asked at two positions.
    pub(crate) acks: Vec<Option<Ack>>,
    /// When a majority was asked: it granted requests that were sent at this moment or later. The validity counts from
    /// here, and outlasts a change of the majority.
    asked_at: Moment,
    watchdog: Watchdog,
    /// Whether the lease is neither lost nor released.
    is_held: bool,
    loss: Option<Loss>,
    /// The number of renewals so far.
    rounds: u32,
    /// When the last round started.
    round_start: Moment,
    /// The replies to the current renewal.
    renewal: Option<Round>,
    /// Whether another renewal must follow the current one, because a hint arrived after the current one was sent.
    must_renew_again: bool,
    /// Whether a node reported a tombstone for the attempt, although the holder did not release the lease.
    broken: bool,
}

impl Hold {
    /// Creates the hold of a lock that the attempt wins at `now`. `acks` contains, for every node whose grant counts,
    /// its vote. Returns `None` if these nodes are no majority.
    pub(crate) fn new(
        terms: Terms,
        attempt: LeaseId,
        fence: Option<Fence>,
        acks: Vec<Option<Ack>>,
        now: Moment,
    ) -> Option<Self> {
        let asked_at = majority_asked_at(&acks, &terms)?;
        Some(Self {
            attempt,
            fence,
            acks,
            asked_at,
            watchdog: Watchdog::new(terms.renewals, terms.ttl, now),
            is_held: true,
            loss: None,
            rounds: 0,
            round_start: now,
            renewal: None,
            must_renew_again: false,
            broken: false,
            terms,
        })
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

    /// Returns the end of the validity by the grants so far, even if the lease is lost or released.
    pub fn valid_until(&self) -> Moment {
        validity::until(self.asked_at, self.terms.ttl, self.terms.drift)
    }

    /// Returns the validity left at `now`; zero if the lease is lost or released.
    pub fn validity(&self, now: Moment) -> Duration {
        if self.is_held { validity::left(self.valid_until(), now) } else { Duration::ZERO }
    }

    /// Returns the start and end of the validity; `None` if the lease is over. A majority granted requests that were
    /// sent at the start or later.
    pub fn span(&self) -> Option<(Moment, Moment)> {
        self.is_held.then_some((self.asked_at, self.valid_until()))
    }

    /// Returns the nodes that have granted the lease.
    pub fn nodes(&self) -> NodeSet {
        (0..self.acks.len()).filter(|node| self.acks[*node].is_some()).collect()
    }

    /// Returns why the lease was lost; `None` if the lease was not lost.
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
        let end = self.terms.rules.hold(Rule::LostIsFinal).then(|| self.valid_until());
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
            self.complete_renewal(now, rng, &mut steps);
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
        self.must_renew_again = self.renewal.is_some();
        self.extend(now).1
    }

    /// Handles the outcome of a renewal on one node.
    ///
    /// An answer to an earlier round extends the vote of its node, counted from the send time of the request, but never
    /// completes the majority of another round. Answers to the acquire that arrive after the win have round 0.
    pub fn take(&mut self, round: u32, node: usize, outcome: Outcome, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.still_valid(now, &mut steps) || node >= self.acks.len() {
            return steps;
        }
        let outcome = match outcome {
            Outcome::Voted { vote, elector, .. } if !self.terms.rules.hold(Rule::CountFromSend) => {
                Outcome::Voted { vote, elector, sent: now }
            }
            other => other,
        };
        let was_withdrawn = match &outcome {
            // A late answer to the acquire may grant another slot. Such a grant is no vote for this lease.
            Outcome::Voted { vote: Vote::Grant { slot: Some(slot), .. }, .. } if !self.has_slot(slot.index) => false,
            Outcome::Voted { vote: Vote::Grant { .. }, elector, sent } => {
                self.acknowledge(node, *elector, *sent);
                false
            }
            // The node lost our vote with its memory, but its quarantine prevents other grants for the whole ttl.
            Outcome::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. } if !self.terms.trusting => false,
            // A node with a new roster keeps its votes.
            Outcome::Silent(_)
            | Outcome::Voted { vote: Vote::Refusal(Refusal::NewRoster), .. }
            | Outcome::Voted { vote: Vote::Report(_) | Vote::Standing { .. } | Vote::Broken { .. }, .. } => false,
            Outcome::Voted { vote: Vote::Refusal(why), elector, .. } => {
                self.broken |= *why == Refusal::Tombstoned;
                self.withdraw(*elector)
            }
        };
        match self.majority_asked_at() {
            Some(asked_at) if was_withdrawn => self.asked_at = asked_at,
            Some(asked_at) => self.asked_at = self.asked_at.max(asked_at),
            None if was_withdrawn => return alloc::vec![self.lose_votes()],
            // The roster has changed. The validity from before stays until the new majority has granted.
            None => {}
        }
        if !self.still_valid(now, &mut steps) {
            return steps;
        }
        match &mut self.renewal {
            Some(renewal) if round == self.rounds => {
                renewal.take(node, outcome);
                self.complete_renewal(now, rng, &mut steps);
            }
            // The answer is too late for its round, but completes a majority that has renewed, so no retry is needed.
            None if self.watchdog.has_failed() && self.asked_at >= self.round_start => {
                self.watchdog.renewed(self.asked_at);
            }
            Some(_) | None => {}
        }
        steps
    }

    /// Stops renewing, because another process that does not know this hold renews the lease from now on. Returns
    /// `false` if the lease was already over.
    pub fn detach(&mut self, now: Moment) -> bool {
        self.watchdog = Watchdog::new(Renewals::Off, self.terms.ttl, now);
        self.renewal = None;
        self.is_held
    }

    /// Returns the request for the nodes that have not granted the lease. Returns `None` if all nodes have granted the
    /// lease, or if the lock is plain (plain locks have no such request). Also returns `None` if the validity has
    /// ended: only a lease that was certainly never lost may restore a vote.
    pub fn repair(&self, now: Moment) -> Option<Step> {
        if self.validity(now).is_zero() {
            return None;
        }
        let nodes: NodeSet = (0..self.acks.len()).filter(|&node| self.acks[node].is_none()).collect();
        let request = self.renewal_request(self.fence?);
        (!nodes.is_empty()).then_some(Step::Ask { nodes, round: 0, request })
    }

    /// Ends the lease at the holder's request. Returns `false` if the lease was already over.
    pub fn release(&mut self) -> bool {
        self.renewal = None;
        core::mem::replace(&mut self.is_held, false)
    }

    fn has_slot(&self, index: u32) -> bool {
        matches!(self.terms.mode, Mode::Slot { slot, .. } if slot == index)
    }

    /// Checks for expiry before any other input, because a lost lease stays lost.
    fn still_valid(&mut self, now: Moment, steps: &mut Vec<Step>) -> bool {
        let is_final = self.terms.rules.hold(Rule::LostIsFinal);
        if self.is_held && now >= self.valid_until() && is_final {
            steps.push(self.lose(Loss::Expired));
        }
        self.is_held
    }

    fn lose_votes(&mut self) -> Step {
        self.lose(if self.broken { Loss::Broken } else { Loss::Removed })
    }

    fn lose(&mut self, loss: Loss) -> Step {
        self.is_held = false;
        self.loss = Some(loss);
        self.renewal = None;
        Step::Lost(loss)
    }

    fn renew(&mut self, now: Moment) -> Step {
        self.rounds = self.rounds.wrapping_add(1);
        self.round_start = now;
        self.renewal = Some(Round::new(&self.terms.electors));
        Step::Ask { nodes: NodeSet::first(self.acks.len()), round: self.rounds, request: self.request() }
    }

    fn request(&self) -> Request {
        match self.fence {
            Some(fence) => self.renewal_request(fence),
            None => Request::PlainExtend { attempt: self.attempt, ttl: self.terms.ttl },
        }
    }

    /// Returns when nodes that have not answered the renewal count as silent.
    fn deadline(&self) -> Moment {
        self.round_start + self.terms.node_deadline
    }

    /// Returns a request that renews the vote, or restores the vote on a node that has lost the vote.
    fn renewal_request(&self, fence: Fence) -> Request {
        let (holder, mode) = (self.terms.holder.clone(), self.terms.mode);
        Request::Renew { attempt: self.attempt, fence, ttl: self.terms.ttl, repair: true, holder, mode }
    }

    /// Ends the current renewal, if its result is decided.
    fn complete_renewal(&mut self, now: Moment, rng: &mut dyn Rng, steps: &mut Vec<Step>) {
        let Some(renewal) = &self.renewal else { return };
        if renewal.grants().count() >= self.terms.electors.majority() {
            self.watchdog.renewed(self.asked_at);
            steps.push(Step::Renewed { round: self.rounds });
        } else if self.majority_asked_at().is_none()
            && !self.terms.electors.has_majority_despite(renewal.refusals().count())
        {
            // The votes under the old roster do not count any more, and the members of the new one refuse the lease.
            steps.push(self.lose_votes());
            return;
        } else if renewal.is_out_of_reach() {
            self.watchdog.failed(now, self.terms.node_deadline, rng);
            steps.push(Step::Failed { round: self.rounds, tally: renewal.tally() });
        } else {
            return;
        }
        self.renewal = None;
        if core::mem::take(&mut self.must_renew_again) {
            steps.push(self.renew(now));
        }
    }
}

/// The schedule of one lease's renewals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watchdog {
    /// The time between renewals; zero if renewals are off.
    every: Duration,
    /// The time after which no renewal is sent.
    end: Moment,
    /// The time of the next renewal.
    due: Option<Moment>,
    /// The longest delay before the next try after a failed renewal; zero after a successful one.
    delay_max: Duration,
}

/// The delay between tries grows up to the time between renewals divided by this number. A lease therefore gets about
/// ten tries before it is lost.
const DELAY_DIVISOR: u32 = 8;

impl Watchdog {
    /// Creates the schedule of a lease that was won at `now`.
    pub fn new(renewals: Renewals, ttl: Ttl, now: Moment) -> Self {
        match renewals {
            Renewals::Off => Self { every: Duration::ZERO, end: now, due: None, delay_max: Duration::ZERO },
            Renewals::Watchdog { every, lifetime } => {
                let every = every.unwrap_or(ttl.duration() / 3);
                let mut watchdog = Self { every, end: now + lifetime, due: None, delay_max: Duration::ZERO };
                watchdog.set(now + every);
                watchdog
            }
        }
    }

    /// Returns when to send the next renewal; `None` if renewals are off or have ended.
    pub fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Returns whether the last round failed.
    pub fn has_failed(&self) -> bool {
        self.delay_max > Duration::ZERO
    }

    /// Records a successful renewal: a majority was asked at `asked` or later and granted.
    pub fn renewed(&mut self, asked: Moment) {
        self.delay_max = Duration::ZERO;
        self.set(asked + self.every);
    }

    /// Records a failed renewal, and schedules the next try soon. The delay grows with every failure, because faster
    /// retries would not help an overloaded node.
    pub fn failed(&mut self, now: Moment, node_deadline: Duration, rng: &mut dyn Rng) {
        let longest = node_deadline.max(self.every / DELAY_DIVISOR);
        let delay_max = self.delay_max.clamp(node_deadline, longest);
        self.delay_max = (delay_max * 2).min(longest);
        self.set(now + rng.between(node_deadline / 2, delay_max));
    }

    fn set(&mut self, due: Moment) {
        let is_on = self.every > Duration::ZERO;
        self.due = (is_on && due <= self.end).then_some(due);
    }
}

/// An instruction to the driver of a state machine. The driver must carry out steps in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would cost an allocation for each lease")]
pub enum Step {
    /// Send the request to these nodes.
    Ask {
        /// Positions in the configuration.
        nodes: NodeSet,
        /// The number of the renewal, which is returned with the answers; 0 for other requests.
        round: u32,
        /// The request, the same for all nodes.
        request: Request,
    },
    /// Mark the attempt as done, then release its votes on these nodes.
    Release {
        /// The attempt that is over.
        attempt: LeaseId,
        /// All nodes, because a lost reply may hide a grant.
        nodes: NodeSet,
        /// What happens to the position in the queue.
        parting: Option<Parting>,
    },
    /// Another client holds the lock, and the state of the queue has changed.
    Waits(Wait),
    /// The lock is won: the acquire ends, and the hold begins.
    Won {
        /// The state machine of the lease.
        hold: Hold,
        /// Whether the acquire had to seal: a majority did not grant one fence at first.
        sealed_late: bool,
    },
    /// The acquire has failed.
    Defeated(Defeat),
    /// The renewal succeeded.
    Renewed {
        /// The number of the renewal.
        round: u32,
    },
    /// The renewal failed; the lease may still be valid for a while.
    Failed {
        /// The number of the renewal.
        round: u32,
        /// Each node's vote.
        tally: Tally,
    },
    /// The lease is lost. This is final.
    Lost(Loss),
}

/// The state of the queue as a waiter sees it, for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Wait {
    /// The holder, if a node knows the holder.
    pub holder: Option<Holder>,
    /// The time until the holder's lease expires, unless the lease is renewed.
    pub remaining: Option<Duration>,
    /// The highest fence that any node reported.
    pub fence: Fence,
    /// The waiter's own position, from 1, on the node where it is furthest back.
    pub position: Option<u32>,
    /// The number of waiters on the same node.
    pub waiting: u32,
}

/// An acquire that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// The reason: held, no quorum, cut off, too slow, or a mismatch.
    pub verdict: Verdict,
    /// Each node's vote in the last round, or in the last round that named a holder.
    pub tally: Tally,
    /// The number of attempts.
    pub tried: u32,
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The validity ended before a renewal succeeded.
    Expired,
    /// So many nodes refused the lease that no majority of grants remains.
    Removed,
    /// So many nodes refused the lease that no majority of grants remains, and one of them reported a broken lease.
    Broken,
}

#[cfg(test)]
mod tests;
