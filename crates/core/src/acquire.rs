//! From wanting a lock to holding it: round, seal, held; or release, wait, round again.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::fence::{self, Fence};
use crate::mode::Mode;
use crate::name::LeaseId;
use crate::quorum::{Quorum, Tally, Verdict};
use crate::retry::{Dice, Retry, Schedule};
use crate::round::{Round, Slot};
use crate::rules::{Rule, Rules};
use crate::time::{Drift, Moment, Ttl};
use crate::validity::{self, valid_until};
use crate::vote::{Outcome, Refusal, Request, Silence};

/// How often one attempt tries to bring a majority to one fence before it starts over.
pub const SEALS_MAX: u8 = 3;

/// What to acquire, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All nodes, by configuration.
    pub quorum: Quorum,
    /// The lifetime asked of the nodes.
    pub ttl: Ttl,
    /// What is taken off it.
    pub drift: Drift,
    /// A lease with less than this left at the decision is not worth handing out.
    pub min_validity: Duration,
    /// How long to wait for a node.
    pub node_deadline: Duration,
    /// When to ask again.
    pub retry: Retry,
    /// When to stop, whatever is under way.
    pub give_up: Option<Moment>,
    /// The Redlock page to the letter: no fence.
    pub plain: bool,
    /// How it shall be held.
    pub mode: Mode,
    /// Who asks, as text for people.
    pub holder: String,
    /// The rules in force.
    pub rules: Rules,
}

/// What the driver has to do. Steps are to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the request to these nodes.
    Ask {
        /// Positions in the configuration.
        nodes: Vec<usize>,
        /// The same for all of them.
        request: Request,
    },
    /// Mark the attempt done, then take its votes back on these nodes.
    Release {
        /// The attempt that is over.
        attempt: LeaseId,
        /// All nodes: a lost reply may hide a grant.
        nodes: Vec<usize>,
    },
    /// Call [`Acquire::tick`] at this moment, if nothing has finished it before.
    Wake(Moment),
    /// It is over.
    Finish(Result<Won, Defeat>),
}

/// A lock that was won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Won {
    /// The attempt that won: the lease's id from now on.
    pub attempt: LeaseId,
    /// Its fence; `None` for a plain lock.
    pub fence: Option<Fence>,
    /// For every node that counts, when its granted request was sent.
    pub acks: Vec<Option<Moment>>,
    /// The end of validity.
    pub valid_until: Moment,
    /// Whether a majority had to be raised to one fence first.
    pub sealed_late: bool,
}

/// A lock that was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// Held, no quorum or too slow.
    pub verdict: Verdict,
    /// Who said what in the last round.
    pub tally: Tally,
    /// How many attempts were made.
    pub tried: u32,
}

/// The machine behind `acquire`. It starts with [`tick`](Self::tick).
#[derive(Debug)]
pub struct Acquire {
    plan: Plan,
    schedule: Schedule,
    seen: Fence,
    /// Set once a proposal was too far ahead: from then on only the nodes' clocks are proposed.
    by_clock_only: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Resting { until: Option<Moment> },
    Asking(Asking),
    Finished,
}

#[derive(Debug)]
struct Asking {
    attempt: LeaseId,
    round: Round,
    deadline: Moment,
    /// Nodes that have been asked to raise their fence and have not answered yet.
    sealing: Vec<usize>,
    seals: u8,
}

impl Acquire {
    /// A machine that has not asked anybody yet.
    pub fn new(plan: Plan) -> Self {
        // The last attempt begins early enough for slow nodes to answer before the caller has to be told.
        let last_call = plan.give_up.map(|end| end.before(plan.node_deadline));
        let schedule = Schedule::new(plan.retry, last_call);
        let state = State::Resting { until: None };
        Self { plan, schedule, seen: Fence::default(), by_clock_only: false, state }
    }

    /// Whether there is nothing left to do.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// Time has passed. `node_micros` is the middle of the nodes' clocks now, where known.
    pub fn tick(&mut self, now: Moment, node_micros: Option<i64>, dice: &mut dyn Dice) -> Vec<Step> {
        match &mut self.state {
            State::Finished => Vec::new(),
            State::Resting { until: Some(until), .. } if now < *until => alloc::vec![Step::Wake(*until)],
            State::Resting { .. } => self.ask(now, node_micros, dice),
            State::Asking(asking) if now < asking.deadline => alloc::vec![Step::Wake(asking.deadline)],
            State::Asking(asking) => {
                asking.round.silence_the_rest(&Silence::Late);
                asking.sealing.clear();
                self.decide(now, dice)
            }
        }
    }

    /// A node answered the attempt, or will not. Answers to other attempts are ignored.
    pub fn take(
        &mut self,
        attempt: LeaseId,
        node: usize,
        outcome: Outcome,
        now: Moment,
        dice: &mut dyn Dice,
    ) -> Vec<Step> {
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        if asking.attempt != attempt {
            return Vec::new();
        }
        let outcome = match outcome {
            // Count from before sending: a grant may be as old as its request.
            Outcome::Voted { vote, .. } if !self.plan.rules.hold(Rule::CountFromSend) => {
                Outcome::Voted { vote, sent: now }
            }
            other => other,
        };
        asking.sealing.retain(|&sealed| sealed != node);
        asking.round.take(node, outcome);
        self.decide(now, dice)
    }

    /// The caller has lost interest: whatever is under way is taken back.
    pub fn cancel(&mut self) -> Vec<Step> {
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Asking(asking) => alloc::vec![self.release(&asking)],
            State::Resting { .. } | State::Finished => Vec::new(),
        }
    }

    fn ask(&mut self, now: Moment, node_micros: Option<i64>, dice: &mut dyn Dice) -> Vec<Step> {
        let attempt = LeaseId::from_bits(u128::from(dice.bits()) << 64 | u128::from(dice.bits()));
        let request = if self.plan.plain {
            Request::PlainAcquire { attempt, ttl: self.plan.ttl }
        } else {
            self.request(attempt, fence::propose(node_micros, self.seen))
        };
        let deadline = self.deadline(now);
        let round = Round::new(self.plan.quorum);
        self.state = State::Asking(Asking { attempt, round, deadline, sealing: Vec::new(), seals: 0 });
        alloc::vec![Step::Wake(deadline), Step::Ask { nodes: self.everyone(), request }]
    }

    fn request(&self, attempt: LeaseId, proposal: Fence) -> Request {
        let (ttl, holder, mode) = (self.plan.ttl, self.plan.holder.clone(), self.plan.mode);
        Request::Acquire { attempt, proposal, ttl, holder, mode, waiter: None }
    }

    fn deadline(&self, now: Moment) -> Moment {
        let deadline = now + self.plan.node_deadline;
        self.plan.give_up.map_or(deadline, |end| deadline.min(end.max(now)))
    }

    fn everyone(&self) -> Vec<usize> {
        (0..self.plan.quorum.nodes()).collect()
    }

    /// The verdict falls the moment it is certain.
    fn decide(&mut self, now: Moment, dice: &mut dyn Dice) -> Vec<Step> {
        let State::Asking(asking) = &self.state else { return Vec::new() };
        if let Some(won) = self.won(asking) {
            let left = validity::left(won.valid_until, now);
            if left.is_zero() || left < self.plan.min_validity {
                return self.defeat(Verdict::TooSlow, now, dice);
            }
            self.state = State::Finished;
            return alloc::vec![Step::Finish(Ok(won))];
        }
        if asking.round.is_out_of_reach() {
            let verdict = asking.round.defeat();
            return self.defeat(verdict, now, dice);
        }
        let unequal = asking.round.grants().count() >= self.plan.quorum.majority();
        // After a seal that did not help, whoever has not answered yet may still complete the majority.
        let stuck = asking.seals == 0 || !asking.round.slots().contains(&Slot::Waiting);
        if unequal && asking.sealing.is_empty() && stuck {
            let seals_left = asking.seals < SEALS_MAX && !self.is_over(now);
            return if seals_left { self.seal(now) } else { self.defeat(Verdict::TooSlow, now, dice) };
        }
        Vec::new()
    }

    fn is_over(&self, now: Moment) -> bool {
        self.plan.give_up.is_some_and(|end| now >= end)
    }

    fn won(&self, asking: &Asking) -> Option<Won> {
        let majority = self.plan.quorum.majority();
        let fences = || asking.round.grants().map(|(_, fence, _)| fence);
        let (fence, any) = if self.plan.plain {
            (Fence::default(), true)
        } else if self.plan.rules.hold(Rule::EqualFences) {
            (fence::sealed(fences(), majority)?, false)
        } else {
            (fences().max()?, true)
        };
        let mut acks = alloc::vec![None; self.plan.quorum.nodes()];
        for (node, granted, sent) in asking.round.grants() {
            if any || granted == fence {
                acks[node] = Some(sent);
            }
        }
        let valid_until = valid_until(acks.iter().flatten().copied(), majority, self.plan.ttl, self.plan.drift)?;
        let fence = (!self.plan.plain).then_some(fence);
        Some(Won { attempt: asking.attempt, fence, acks, valid_until, sealed_late: asking.seals > 0 })
    }

    /// A majority granted, with unequal fences: raise the lower ones, under our own votes.
    fn seal(&mut self, now: Moment) -> Vec<Step> {
        let deadline = self.deadline(now);
        let majority = self.plan.quorum.majority();
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        let Some(target) = fence::seal_at(asking.round.grants().map(|(_, fence, _)| fence), majority) else {
            return Vec::new();
        };
        let lower: Vec<usize> =
            asking.round.grants().filter(|(_, fence, _)| *fence < target).map(|(node, ..)| node).collect();
        asking.seals += 1;
        asking.sealing.clone_from(&lower);
        asking.deadline = deadline;
        let attempt = asking.attempt;
        alloc::vec![Step::Wake(deadline), Step::Ask { nodes: lower, request: self.request(attempt, target) }]
    }

    fn defeat(&mut self, verdict: Verdict, now: Moment, dice: &mut dyn Dice) -> Vec<Step> {
        let State::Asking(asking) = core::mem::replace(&mut self.state, State::Finished) else { return Vec::new() };
        let mut steps = alloc::vec![self.release(&asking)];
        let tally = asking.round.tally();
        let ahead = asking.round.slots().iter().any(|slot| matches!(slot, Slot::Refused(Refusal::TooFarAhead)));
        // A fence that one node is alone in having seen must not keep the others out of reach.
        let again = ahead && !self.by_clock_only && !self.is_over(now);
        self.by_clock_only |= ahead;
        self.seen = if self.by_clock_only { Fence::default() } else { self.seen.max(asking.round.highest_fence()) };
        if again {
            self.state = State::Resting { until: Some(now) };
            steps.push(Step::Wake(now));
            return steps;
        }
        if let Some(at) = self.schedule.next(now, dice) {
            self.state = State::Resting { until: Some(at) };
            steps.push(Step::Wake(at));
        } else {
            let tried = self.schedule.tried();
            steps.push(Step::Finish(Err(Defeat { verdict, tally, tried })));
        }
        steps
    }

    fn release(&self, asking: &Asking) -> Step {
        let nodes = if self.plan.rules.hold(Rule::ReleaseEverywhere) {
            self.everyone()
        } else {
            asking.round.grants().map(|(node, ..)| node).collect()
        };
        Step::Release { attempt: asking.attempt, nodes }
    }
}

#[cfg(test)]
mod tests;
