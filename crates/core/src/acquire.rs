//! The state machine of an acquire. It asks all nodes for their votes. If a majority grants, it raises their fences to
//! one value (the seal) and wins. If no majority grants, it waits in the queue, or releases its votes and retries.

mod settle;
mod wait;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::backoff::{DELAY_MIN, Schedule};
use crate::fence::{self, Fence};
use crate::hold::{Defeat, Step, Wait, Won};
use crate::name::LeaseId;
use crate::nodes::NodeSet;
use crate::request::{POLL_MAX, Parting, Request, Ticket, Waiter};
use crate::rng::Rng;
use crate::round::Asking;
use crate::rules::Rule;
use crate::terms::{Mode, Terms};
use crate::time::Moment;
use crate::validity::{self, valid_until};
use crate::vote::{Outcome, Refusal, Tally, Verdict};

/// How often one attempt tries to raise the fences of a majority to one value before the acquire starts over.
pub const SEALS_MAX: u8 = 3;
/// How often an acquire tries in a row to agree on one slot when the nodes granted different slots.
pub const SETTLES_MAX: u8 = 5;

/// The state machine behind `acquire`. The first call of [`tick`](Self::tick) starts it.
#[derive(Clone, Debug, Hash)]
pub struct Acquire {
    terms: Terms,
    /// The current attempt, or the next one while the machine rests.
    attempt: LeaseId,
    schedule: Schedule,
    seen: Fence,
    /// Set once a node refused a proposal as too far ahead. From then on proposals come from the nodes' clocks only.
    by_clock_only: bool,
    /// The ticket, drawn with the first request and kept until the acquire ends.
    ticket: Option<Ticket>,
    /// The slot of a semaphore that nodes try first.
    slot: Option<u32>,
    settles: u8,
    /// The votes of the last round that found the lock held.
    held: Option<Tally>,
    /// The last state of the queue that was reported to the driver.
    told: Option<Box<Wait>>,
    state: State,
}

#[derive(Clone, Debug, Hash)]
enum State {
    Resting { until: Option<Moment> },
    Asking(Asking),
    Finished,
}

impl Acquire {
    /// Creates a state machine that has sent no requests.
    pub fn new(terms: Terms, rng: &mut dyn Rng) -> Self {
        // Start the last attempt early enough for slow nodes to answer before the caller's deadline.
        let last_call = terms.give_up.map(|end| end.before(terms.node_deadline));
        let schedule = Schedule::new(terms.retry, last_call);
        Self {
            terms,
            attempt: fresh_id(rng),
            schedule,
            seen: Fence::default(),
            by_clock_only: false,
            ticket: None,
            slot: None,
            settles: 0,
            held: None,
            told: None,
            state: State::Resting { until: None },
        }
    }

    /// Returns whether the acquire has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// Returns the terms of the acquire.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the current attempt, or the next one while the machine rests.
    pub fn attempt(&self) -> LeaseId {
        self.attempt
    }

    /// Returns the next moment at which [`tick`](Self::tick) has work to do; `None` before the first call and after the
    /// end.
    pub fn next_tick(&self) -> Option<Moment> {
        match &self.state {
            State::Finished => None,
            State::Resting { until } => *until,
            State::Asking(asking) => [asking.deadline, asking.poll, self.terms.give_up].into_iter().flatten().min(),
        }
    }

    /// Returns the position in the queue, once there is one.
    pub fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Advances the state machine to `now`. `node_micros` is the median of the nodes' clocks, if known.
    pub fn tick(&mut self, now: Moment, node_micros: Option<i64>, rng: &mut dyn Rng) -> Vec<Step> {
        match &mut self.state {
            State::Finished => Vec::new(),
            State::Resting { until: Some(until) } if now < *until => Vec::new(),
            State::Resting { .. } => self.ask(now, node_micros, rng),
            State::Asking(asking) => {
                if self.terms.give_up.is_some_and(|end| now >= end) {
                    asking.give_up_on_the_rest(now);
                    let verdict = asking.round.defeat();
                    let mut steps = self.decide(now, rng);
                    if matches!(self.state, State::Asking(_)) {
                        steps.extend(self.defeat(self.last_heard(verdict), now, rng));
                    }
                    steps
                } else if asking.deadline.is_some_and(|at| now >= at) {
                    asking.give_up_on_the_rest(now);
                    let mut steps = self.decide(now, rng);
                    steps.extend(self.complete_the_turn(now));
                    steps
                } else if asking.poll.is_some_and(|at| now >= at) {
                    self.poll(now, node_micros, rng)
                } else {
                    Vec::new()
                }
            }
        }
    }

    /// Handles the outcome of a request to a node. Ignores outcomes of other attempts.
    pub fn take(
        &mut self,
        attempt: LeaseId,
        node: usize,
        outcome: Outcome,
        now: Moment,
        rng: &mut dyn Rng,
    ) -> Vec<Step> {
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        if self.attempt != attempt {
            return Vec::new();
        }
        let outcome = match outcome {
            // The validity is counted from the time of sending, because the ttl of a grant may have started then.
            Outcome::Voted { vote, .. } if !self.terms.rules.hold(Rule::CountFromSend) => {
                Outcome::Voted { vote, sent: now }
            }
            other => other,
        };
        let hinted = asking.take(node, outcome);
        let mut steps = self.decide(now, rng);
        // The node may have become free right after it sent the refusal.
        if hinted {
            steps.extend(self.ask_again(node, now));
        }
        steps
    }

    /// Handles a hint that the lock may be free on a node. A hint proves nothing, so the machine asks the node again.
    pub fn hint(&mut self, node: usize, now: Moment, node_micros: Option<i64>) -> Vec<Step> {
        let (proposal, pace) = (self.proposal(node_micros), self.pace());
        let waits = self.ticket.is_some();
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        if !waits || node >= self.terms.quorum.nodes() {
            return Vec::new();
        }
        if asking.is_pending(node) {
            asking.note_hint(node);
            return Vec::new();
        }
        asking.begin_turn(proposal);
        asking.poll.get_or_insert(now + pace);
        let mut steps = self.ask_again(node, now);
        steps.extend(self.ask_what_was_given_back(now));
        steps
    }

    /// Cancels the acquire, and releases every vote and queue position that was requested.
    pub fn cancel(&mut self) -> Vec<Step> {
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Asking(asking) => alloc::vec![self.release(&asking, self.waiter().map(Parting::Leave))],
            State::Resting { .. } | State::Finished => Vec::new(),
        }
    }

    /// Sends a new attempt to all nodes.
    fn ask(&mut self, now: Moment, node_micros: Option<i64>, rng: &mut dyn Rng) -> Vec<Step> {
        if let (None, Some(at), Some(_), false) = (self.ticket, node_micros, self.terms.channel, self.terms.plain) {
            self.ticket = u64::try_from(at).ok().map(|at| Ticket { at, id: rng.bits() });
        }
        if let Mode::Slot { permits, .. } = self.terms.mode {
            self.slot.get_or_insert_with(|| (rng.bits() % u64::from(permits.max(1))) as u32);
        }
        let proposal = self.proposal(node_micros);
        self.state = State::Asking(Asking::new(self.terms.quorum, proposal));
        self.ask_all(now)
    }

    /// Sends the same attempt again to all nodes that do not owe an answer.
    fn poll(&mut self, now: Moment, node_micros: Option<i64>, rng: &mut dyn Rng) -> Vec<Step> {
        if self.schedule.is_last() {
            return self.defeat(Verdict::Held, now, rng);
        }
        self.schedule.count();
        let proposal = self.proposal(node_micros);
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        asking.begin_poll(proposal);
        self.ask_all(now)
    }

    fn ask_all(&mut self, now: Moment) -> Vec<Step> {
        let State::Asking(asking) = &self.state else { return Vec::new() };
        let nodes = (0..self.terms.quorum.nodes()).filter(|node| !asking.is_pending(*node)).collect();
        self.ask_nodes(nodes, now)
    }

    /// Asks a node again after its hint, unless it has granted or owes an answer.
    fn ask_again(&mut self, node: usize, now: Moment) -> Vec<Step> {
        let over = self.is_over(now);
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        if over || asking.is_granted(node) || asking.is_pending(node) {
            return Vec::new();
        }
        asking.round.forget(node);
        asking.note_prompt(node);
        self.ask_nodes([node].into_iter().collect(), now)
    }

    /// If the attempt has votes, asks the nodes that were not asked since the last hint (in this turn), because their
    /// own hints may be lost.
    fn complete_the_turn(&mut self, now: Moment) -> Vec<Step> {
        let over = self.is_over(now);
        let State::Asking(asking) = &self.state else { return Vec::new() };
        let rest = asking.unasked();
        let idle = rest.is_empty() || asking.round.grants().next().is_none();
        if over || idle { Vec::new() } else { self.ask_nodes(rest, now) }
    }

    fn ask_nodes(&mut self, nodes: NodeSet, now: Moment) -> Vec<Step> {
        let deadline = self.deadline(now);
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        asking.set_pending(nodes, deadline);
        let proposal = asking.proposal;
        alloc::vec![self.request(nodes, proposal)]
    }

    fn proposal(&self, node_micros: Option<i64>) -> Fence {
        fence::propose(node_micros, self.seen)
    }

    fn request(&self, nodes: NodeSet, proposal: Fence) -> Step {
        let (attempt, ttl, holder) = (self.attempt, self.terms.ttl, self.terms.holder.clone());
        let request = if self.terms.plain {
            Request::PlainAcquire { attempt, ttl }
        } else {
            Request::Acquire { attempt, proposal, ttl, holder, mode: self.mode(), waiter: self.waiter() }
        };
        Step::Ask { nodes, round: 0, request }
    }

    fn waiter(&self) -> Option<Waiter> {
        let (ticket, channel) = (self.ticket?, self.terms.channel?);
        Some(Waiter { ticket, channel, shared: self.terms.mode.is_shared() })
    }

    fn deadline(&self, now: Moment) -> Moment {
        now + self.terms.node_deadline
    }

    /// Ends or continues the attempt as soon as its result is decided.
    fn decide(&mut self, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let State::Asking(asking) = &self.state else { return Vec::new() };
        let majority = self.terms.quorum.majority();
        if let Some(won) = self.won(asking) {
            let left = validity::left(won.valid_until, now);
            if left.is_zero() || left < self.terms.min_validity {
                return self.defeat(Verdict::TooSlow, now, rng);
            }
            self.state = State::Finished;
            return alloc::vec![Step::Won(won)];
        }
        let over = self.is_over(now);
        if !over && self.must_yield(asking) {
            return self.yield_votes(now, rng);
        }
        if asking.round.is_out_of_reach() {
            let verdict = asking.round.defeat();
            let again = !self.by_clock_only && asking.is_too_far_ahead();
            let waits = verdict == Verdict::Held && self.ticket.is_some() && !over && !again;
            let verdict = if over { self.last_heard(verdict) } else { verdict };
            return if waits { self.wait(now, rng) } else { self.defeat(verdict, now, rng) };
        }
        let best = asking.round.grants_of(asking.round.best_slot()).count();
        if best + asking.round.open() < majority {
            return self.settle(now, rng);
        }
        // After a failed seal, nodes that have not answered yet may still complete the majority.
        let stuck = asking.seals == 0 || asking.round.open() == 0;
        if best >= majority && asking.sealing.is_empty() && stuck {
            let seals_left = asking.seals < SEALS_MAX && !over;
            return if seals_left { self.seal(now) } else { self.defeat(Verdict::TooSlow, now, rng) };
        }
        Vec::new()
    }

    fn is_over(&self, now: Moment) -> bool {
        self.terms.give_up.is_some_and(|end| now >= end)
    }

    fn won(&self, asking: &Asking) -> Option<Won> {
        let majority = self.terms.quorum.majority();
        let slot = asking.round.best_slot();
        let fences = || asking.round.grants_of(slot).map(|(_, fence, _)| fence);
        let (fence, any) = if self.terms.plain {
            (Fence::default(), true)
        } else if self.terms.rules.hold(Rule::EqualFences) {
            (fence::sealed(fences(), majority)?, false)
        } else {
            (fences().max()?, true)
        };
        let mut acks = alloc::vec![None; self.terms.quorum.nodes()];
        for (node, granted, sent) in asking.round.grants_of(slot) {
            if any || granted == fence {
                acks[node] = Some(sent);
            }
        }
        let valid_until = valid_until(acks.iter().flatten().copied(), majority, self.terms.ttl, self.terms.drift)?;
        Some(Won {
            attempt: self.attempt,
            fence: (!self.terms.plain).then_some(fence),
            mode: match (self.terms.mode, slot) {
                (Mode::Slot { permits, .. }, Some(slot)) => Mode::Slot { permits, slot },
                (mode, _) => mode,
            },
            acks,
            valid_until,
            sealed_late: asking.seals > 0,
            waiter: self.waiter(),
        })
    }

    /// After a majority granted unequal fences, asks the nodes with the lower ones to raise them.
    fn seal(&mut self, now: Moment) -> Vec<Step> {
        let deadline = self.deadline(now);
        let majority = self.terms.quorum.majority();
        let State::Asking(asking) = &mut self.state else { return Vec::new() };
        let slot = asking.round.best_slot();
        let Some(target) = fence::seal_at(asking.round.grants_of(slot).map(|(_, fence, _)| fence), majority) else {
            return Vec::new();
        };
        let mut lower: NodeSet =
            asking.round.grants_of(slot).filter(|(_, fence, _)| *fence < target).map(|(node, ..)| node).collect();
        if !self.terms.rules.hold(Rule::RaiseOwnVotes) {
            lower.extend(asking.round.refused());
        }
        asking.seals += 1;
        asking.sealing = lower;
        asking.set_pending(lower, deadline);
        // Nodes that are asked later should grant the same fence.
        asking.proposal = target;
        alloc::vec![self.request(lower, target)]
    }

    fn defeat(&mut self, verdict: Verdict, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let State::Asking(asking) = core::mem::replace(&mut self.state, State::Finished) else { return Vec::new() };
        // Votes and queue positions of a failed attempt would only delay other clients.
        let mut steps = alloc::vec![self.release(&asking, self.waiter().map(Parting::Leave))];
        let is_told = asking.round.refusals().any(|why| matches!(why, Refusal::Held { .. } | Refusal::Behind { .. }));
        let tally = match self.held.take() {
            Some(held) if verdict == Verdict::Held && !is_told => held,
            _ => asking.round.tally(),
        };
        let ahead = asking.is_too_far_ahead();
        // A fence that only one node has seen must not make all proposals too high for the other nodes.
        let again = ahead && !self.by_clock_only && !self.is_over(now);
        self.by_clock_only |= ahead;
        self.see(asking.round.highest_fence());
        let next = match verdict {
            _ if again => Some(now),
            Verdict::Mismatch => None,
            _ => self.schedule.next(now, rng),
        };
        if next.is_some() {
            self.attempt = fresh_id(rng);
            self.state = State::Resting { until: next };
        } else {
            let tried = self.schedule.tried();
            steps.push(Step::Defeated(Defeat { verdict, tally, tried }));
        }
        steps
    }

    fn see(&mut self, fence: Fence) {
        self.seen = if self.by_clock_only { Fence::default() } else { self.seen.max(fence) };
    }

    fn release(&self, asking: &Asking, parting: Option<Parting>) -> Step {
        let nodes = if self.terms.rules.hold(Rule::ReleaseEverywhere) {
            NodeSet::first(self.terms.quorum.nodes())
        } else {
            asking.round.grants().map(|(node, ..)| node).collect()
        };
        Step::Release { attempt: self.attempt, nodes, parting }
    }
}

fn fresh_id(rng: &mut dyn Rng) -> LeaseId {
    LeaseId::from_bits(rng.wide_bits())
}

#[cfg(test)]
mod tests;
