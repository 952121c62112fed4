//! The state machine of an acquire. The machine asks all nodes for their votes. If a majority grants, the machine
//! raises their fences to one value (the seal) and wins. Otherwise the machine waits in the queue, or releases its
//! votes and retries.

mod settle;
mod wait;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::backoff::{DELAY_MIN, Schedule};
use crate::fence::{self, Fence};
use crate::hold::{Ack, Defeat, Hold, Step, Wait};
use crate::name::LeaseId;
use crate::nodes::NodeSet;
use crate::quorum::Electors;
use crate::request::{POLL_MAX, Parting, Request, Ticket, Waiter};
use crate::rng::Rng;
use crate::round::Attempt;
use crate::rules::Rule;
use crate::terms::{Mode, Terms};
use crate::time::Moment;
use crate::vote::{Outcome, Refusal, Tally, Verdict};

/// How often one attempt tries to raise the fences of a majority to one value (the seal) before the attempt fails.
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
    /// The highest fence that a node has reported.
    seen: Fence,
    /// Set once a node refused a proposal as too far ahead. From then on proposals come from the nodes' clocks only.
    by_clock_only: bool,
    /// The ticket, drawn with the first request and kept until the acquire ends.
    ticket: Option<Ticket>,
    /// The slot of a semaphore that nodes try first.
    slot: Option<u32>,
    /// How often the acquire has tried in a row to agree on one slot.
    settles: u8,
    /// The votes of the last round that found the lock held.
    last_held: Option<Tally>,
    /// The last state of the queue that was reported to the driver.
    reported: Option<Box<Wait>>,
    state: State,
}

#[derive(Clone, Debug, Hash)]
enum State {
    Resting { until: Option<Moment> },
    Asking(Attempt),
    Finished,
}

impl Acquire {
    /// Creates a state machine that has sent no requests.
    pub fn new(terms: Terms, rng: &mut dyn Rng) -> Self {
        // Start the last attempt early enough for slow nodes to answer before the caller's deadline.
        let latest_start = terms.give_up.map(|end| end.before(terms.node_deadline));
        let schedule = Schedule::new(terms.retry, latest_start);
        Self {
            terms,
            attempt: fresh_id(rng),
            schedule,
            seen: Fence::default(),
            by_clock_only: false,
            ticket: None,
            slot: None,
            settles: 0,
            last_held: None,
            reported: None,
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
            State::Asking(current) => [current.deadline, current.poll, self.terms.give_up].into_iter().flatten().min(),
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
            State::Asking(current) => {
                if self.terms.give_up.is_some_and(|end| now >= end) {
                    current.silence_pending(now);
                    let verdict = current.round.defeat();
                    let mut steps = self.decide(now, rng);
                    if matches!(self.state, State::Asking(_)) {
                        steps.extend(self.defeat(self.final_verdict(verdict), now, rng));
                    }
                    steps
                } else if current.deadline.is_some_and(|at| now >= at) {
                    current.silence_pending(now);
                    let mut steps = self.decide(now, rng);
                    steps.extend(self.ask_rest_of_turn(now));
                    steps
                } else if current.poll.is_some_and(|at| now >= at) {
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
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        if self.attempt != attempt {
            return Vec::new();
        }
        let outcome = match outcome {
            // The validity is counted from the time of sending, because the ttl of a grant may have started then.
            Outcome::Voted { vote, elector, .. } if !self.terms.rules.hold(Rule::CountFromSend) => {
                Outcome::Voted { vote, elector, sent: now }
            }
            other => other,
        };
        let must_ask_again = current.take(node, outcome);
        let mut steps = self.decide(now, rng);
        // The node may have become free right after it sent the refusal.
        if must_ask_again {
            steps.extend(self.ask_again(node, now));
        }
        steps
    }

    /// Handles a hint that the lock may be free on a node. A hint proves nothing, so the machine asks the node again.
    pub fn hint(&mut self, node: usize, now: Moment, node_micros: Option<i64>) -> Vec<Step> {
        let (proposal, interval) = (self.proposal(node_micros), self.poll_interval());
        let waits = self.ticket.is_some();
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        if !waits || node >= self.terms.electors.nodes() {
            return Vec::new();
        }
        if current.is_pending(node) {
            current.note_hint(node);
            return Vec::new();
        }
        current.begin_turn(proposal);
        current.poll.get_or_insert(now + interval);
        let mut steps = self.ask_again(node, now);
        steps.extend(self.ask_yielded_nodes(now));
        steps
    }

    /// Follows the roster that the client has read. Drops the votes that do not count any more before it counts a vote
    /// given under the new generation, and asks again the nodes that had a newer roster than the client.
    ///
    /// The driver calls this whenever the client has read the roster, even if the roster has not changed: a node may
    /// have refused a request that named an older one.
    pub fn change_roster(&mut self, electors: &Arc<Electors>, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        self.terms.electors = electors.clone();
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        let (again, attempt) = (current.change_electors(electors), self.attempt);
        let mut steps = self.decide(now, rng);
        if self.attempt == attempt && !again.is_empty() && !self.is_over(now) {
            steps.extend(self.ask_nodes(again, now));
        }
        steps
    }

    /// Cancels the acquire, and releases every vote and queue position that was requested.
    pub fn cancel(&mut self) -> Vec<Step> {
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Asking(current) => alloc::vec![self.release(&current, self.waiter().map(Parting::Leave))],
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
        self.state = State::Asking(Attempt::new(&self.terms.electors, proposal));
        self.ask_all(now)
    }

    /// Sends the same attempt again to all nodes that do not owe an answer.
    fn poll(&mut self, now: Moment, node_micros: Option<i64>, rng: &mut dyn Rng) -> Vec<Step> {
        if self.schedule.is_last() {
            return self.defeat(Verdict::Held, now, rng);
        }
        self.schedule.count();
        let proposal = self.proposal(node_micros);
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        current.begin_poll(proposal);
        self.ask_all(now)
    }

    fn ask_all(&mut self, now: Moment) -> Vec<Step> {
        let State::Asking(current) = &self.state else { return Vec::new() };
        let nodes = (0..self.terms.electors.nodes()).filter(|node| !current.is_pending(*node)).collect();
        self.ask_nodes(nodes, now)
    }

    /// Asks a node again after its hint, unless the node has granted or owes an answer.
    fn ask_again(&mut self, node: usize, now: Moment) -> Vec<Step> {
        let is_over = self.is_over(now);
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        if is_over || current.is_granted(node) || current.is_pending(node) {
            return Vec::new();
        }
        current.round.forget(node);
        current.note_prompt(node);
        self.ask_nodes([node].into_iter().collect(), now)
    }

    /// If the attempt has votes, asks the nodes that were not asked in this turn (since the last hint), because their
    /// own hints may be lost.
    fn ask_rest_of_turn(&mut self, now: Moment) -> Vec<Step> {
        let is_over = self.is_over(now);
        let State::Asking(current) = &self.state else { return Vec::new() };
        let rest = current.unasked();
        let is_idle = rest.is_empty() || current.round.grants().next().is_none();
        if is_over || is_idle { Vec::new() } else { self.ask_nodes(rest, now) }
    }

    fn ask_nodes(&mut self, nodes: NodeSet, now: Moment) -> Vec<Step> {
        let deadline = self.deadline(now);
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        current.set_pending(nodes, deadline);
        let proposal = current.proposal;
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

    /// Returns the position in the queue, once there is one, and the channel for hints.
    pub fn waiter(&self) -> Option<Waiter> {
        let (ticket, channel) = (self.ticket?, self.terms.channel?);
        Some(Waiter { ticket, channel, shared: self.terms.mode.is_shared() })
    }

    fn deadline(&self, now: Moment) -> Moment {
        now + self.terms.node_deadline
    }

    /// Ends or continues the attempt as soon as its result is decided.
    fn decide(&mut self, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let State::Asking(current) = &self.state else { return Vec::new() };
        let majority = self.terms.electors.majority();
        if let Some(hold) = self.won(current, now) {
            let (left, sealed_late) = (hold.validity(now), current.seals > 0);
            if left.is_zero() || left < self.terms.min_validity {
                return self.defeat(Verdict::TooSlow, now, rng);
            }
            self.state = State::Finished;
            return alloc::vec![Step::Won { hold, sealed_late }];
        }
        let is_over = self.is_over(now);
        if !is_over && self.must_yield(current) {
            return self.yield_votes(now, rng);
        }
        if current.round.is_out_of_reach() {
            let verdict = current.round.defeat();
            let must_repeat = !self.by_clock_only && current.is_too_far_ahead();
            let may_wait = verdict == Verdict::Held && self.ticket.is_some() && !is_over && !must_repeat;
            let verdict = if is_over { self.final_verdict(verdict) } else { verdict };
            return if may_wait { self.wait(now, rng) } else { self.defeat(verdict, now, rng) };
        }
        let best = current.round.grants_of(current.round.best_slot()).count();
        if best + current.round.unanswered() < majority {
            return self.settle(now, rng);
        }
        // After a failed seal, nodes that have not answered yet may still complete the majority.
        let is_stuck = current.seals == 0 || current.round.unanswered() == 0;
        if best >= majority && current.sealing.is_empty() && is_stuck {
            let seals_left = current.seals < SEALS_MAX && !is_over;
            return if seals_left { self.seal(now) } else { self.defeat(Verdict::TooSlow, now, rng) };
        }
        Vec::new()
    }

    /// Returns whether the caller's deadline has passed.
    fn is_over(&self, now: Moment) -> bool {
        self.terms.give_up.is_some_and(|end| now >= end)
    }

    /// Returns the hold if a majority has granted one fence and one slot.
    fn won(&self, current: &Attempt, now: Moment) -> Option<Hold> {
        let majority = self.terms.electors.majority();
        let slot = current.round.best_slot();
        let fences = || current.round.grants_of(slot).map(|grant| grant.fence);
        let (fence, counts_all) = if self.terms.plain {
            (Fence::default(), true)
        } else if self.terms.rules.hold(Rule::EqualFences) {
            (fence::sealed(fences(), majority)?, false)
        } else {
            (fences().max()?, true)
        };
        let mut acks = alloc::vec![None; self.terms.electors.nodes()];
        for grant in current.round.grants_of(slot).filter(|grant| counts_all || grant.fence == fence) {
            acks[grant.node] = Some(Ack { elector: grant.elector, sent: grant.sent });
        }
        let mode = match (self.terms.mode, slot) {
            (Mode::Slot { permits, .. }, Some(slot)) => Mode::Slot { permits, slot },
            (mode, _) => mode,
        };
        let fence = (!self.terms.plain).then_some(fence);
        Hold::new(Terms { mode, ..self.terms.clone() }, self.attempt, fence, acks, now)
    }

    /// Asks the nodes with the lower fences to raise them, after a majority has granted unequal fences.
    fn seal(&mut self, now: Moment) -> Vec<Step> {
        let deadline = self.deadline(now);
        let majority = self.terms.electors.majority();
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        let slot = current.round.best_slot();
        let Some(target) = fence::seal_at(current.round.grants_of(slot).map(|grant| grant.fence), majority) else {
            return Vec::new();
        };
        let mut lower: NodeSet =
            current.round.grants_of(slot).filter(|grant| grant.fence < target).map(|grant| grant.node).collect();
        if !self.terms.rules.hold(Rule::RaiseOwnVotes) {
            lower.extend(current.round.refused());
        }
        current.seals += 1;
        current.sealing = lower;
        current.set_pending(lower, deadline);
        // Nodes that are asked later should grant the same fence.
        current.proposal = target;
        alloc::vec![self.request(lower, target)]
    }

    fn defeat(&mut self, verdict: Verdict, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let State::Asking(current) = core::mem::replace(&mut self.state, State::Finished) else { return Vec::new() };
        // Votes and queue positions of a failed attempt would only delay other clients.
        let mut steps = alloc::vec![self.release(&current, self.waiter().map(Parting::Leave))];
        let is_held = current.round.refusals().any(|why| matches!(why, Refusal::Held { .. } | Refusal::Behind { .. }));
        let tally = match self.last_held.take() {
            Some(held) if verdict == Verdict::Held && !is_held => held,
            _ => current.round.tally(),
        };
        let is_too_far_ahead = current.is_too_far_ahead();
        // A fence that only one node has seen must not make all proposals too high for the other nodes.
        let must_repeat = is_too_far_ahead && !self.by_clock_only && !self.is_over(now);
        self.by_clock_only |= is_too_far_ahead;
        self.remember_fence(current.round.highest_fence());
        let next = match verdict {
            _ if must_repeat => Some(now),
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

    fn remember_fence(&mut self, fence: Fence) {
        self.seen = if self.by_clock_only { Fence::default() } else { self.seen.max(fence) };
    }

    fn release(&self, current: &Attempt, parting: Option<Parting>) -> Step {
        let nodes = if self.terms.rules.hold(Rule::ReleaseEverywhere) {
            NodeSet::first(self.terms.electors.nodes())
        } else {
            current.round.grants().map(|grant| grant.node).collect()
        };
        Step::Release { attempt: self.attempt, nodes, parting }
    }
}

fn fresh_id(rng: &mut dyn Rng) -> LeaseId {
    LeaseId::from_bits(rng.wide_bits())
}

#[cfg(test)]
mod tests;
