//! Waiting in the queue: when to yield, when to ask again, and what to report to the driver.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Acquire, Attempt, DELAY_MIN, Moment, POLL_MAX, Parting, Rng, Rule, State, Step, Verdict, Wait, fresh_id};
use crate::digest::Digest;
use crate::nodes::NodeSet;
use crate::quorum::Elector;
use crate::round::Round;
use crate::validity::{self, valid_until};
use crate::vote::{Handoff, QueuePosition, Refusal};

impl Wait {
    fn of(round: &Round) -> Self {
        let mut wait = Self { fence: round.highest_fence(), ..Self::default() };
        for why in round.refusals() {
            let queue = match why {
                Refusal::Held { holder, remaining, queue, .. } => {
                    wait.holder = wait.holder.take().or_else(|| holder.clone());
                    wait.remaining = wait.remaining.max(*remaining);
                    queue
                }
                Refusal::Behind { queue, .. } => queue,
                _ => continue,
            };
            if wait.position <= queue.position {
                wait.position = queue.position;
                wait.waiting = wait.waiting.max(queue.waiting);
            }
        }
        wait
    }

    /// Returns whether two reports differ at most in the remaining time.
    fn is_same_queue(&self, other: &Self) -> bool {
        let Self { holder, fence, position, waiting, .. } = self;
        (holder, fence, position, waiting) == (&other.holder, &other.fence, &other.position, &other.waiting)
    }
}

impl Acquire {
    /// Returns whether the attempt's votes may prevent a waiter with a lower ticket from winning.
    pub(super) fn must_yield(&self, current: &Attempt) -> bool {
        let yields_to = |why: &Refusal| match why {
            Refusal::Held { queue, .. } => queue.lower && self.terms.rules.hold(Rule::YieldToVoters),
            Refusal::Behind { queue, .. } => queue.lower,
            _ => false,
        };
        self.ticket.is_some()
            && self.terms.rules.hold(Rule::Yield)
            && current.round.grants().next().is_some()
            && current.round.refusals().any(yields_to)
    }

    /// Releases the votes and keeps the queue position. Continues as a new attempt, which asks the nodes after a hint
    /// or at the next poll.
    pub(super) fn yield_votes(&mut self, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let State::Asking(current) = &self.state else { return Vec::new() };
        let mut steps = alloc::vec![self.release(current, self.waiter().map(Parting::Yield))];
        let (hinted, yielded) = (current.hinted(), current.unrefused());
        let (wait, tally, proposal) = (Wait::of(&current.round), current.round.tally(), current.proposal);
        self.remember_fence(wait.fence);
        let mut fresh = Attempt::new(&self.terms.electors, proposal);
        fresh.yielded = yielded;
        fresh.poll = Some(now + rng.between(self.poll_interval() * 3 / 4, self.poll_interval()));
        for node in hinted.iter() {
            fresh.note_prompt(node);
        }
        self.attempt = fresh_id(rng);
        self.state = State::Asking(fresh);
        self.last_held = Some(tally);
        steps.extend(self.report(wait));
        // The hints are still valid, but the requests that they caused belong to the old attempt.
        if !hinted.is_empty() {
            steps.extend(self.ask_nodes(hinted, now));
            steps.extend(self.ask_yielded_nodes(now));
        }
        steps
    }

    /// Asks the nodes whose votes were yielded, because a hint or handoff shows that the queue has moved.
    pub(super) fn ask_yielded_nodes(&mut self, now: Moment) -> Vec<Step> {
        let is_over = self.is_over(now);
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        let yielded = core::mem::take(&mut current.yielded);
        let nodes: NodeSet =
            yielded.iter().filter(|node| !current.is_granted(*node) && !current.is_pending(*node)).collect();
        if is_over || nodes.is_empty() { Vec::new() } else { self.ask_nodes(nodes, now) }
    }

    /// Takes a handoff: a node's grant of a request that it had refused. Treats the handoff as a hint, unless it
    /// is for the current attempt, counts as a vote and leaves enough validity. `elector` names the generation under which
    /// the node gave the vote.
    ///
    /// The driver must deliver a node's messages in the order in which the node sent them: a handoff comes after the
    /// refusal that it revokes, and before the answer to any later request.
    pub fn take_handoff(
        &mut self,
        node: usize,
        elector: Elector,
        handoff: Handoff,
        now: Moment,
        node_micros: Option<i64>,
        rng: &mut dyn Rng,
    ) -> Vec<Step> {
        let Some(sent) = self.handoff_send_time(node, elector, handoff, now) else {
            return self.hint(node, now, node_micros);
        };
        let (interval, deadline) = (self.poll_interval(), self.deadline(now));
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        // Nodes that are asked later should grant the same fence.
        current.begin_turn(handoff.fence);
        current.poll.get_or_insert(now + interval);
        current.take_handoff(node, elector, handoff.fence, sent, deadline);
        let mut steps = self.decide(now, rng);
        steps.extend(self.ask_yielded_nodes(now));
        steps
    }

    /// Returns the send time of the request that the handoff grants, if the handoff counts as a vote.
    fn handoff_send_time(&self, node: usize, elector: Elector, handoff: Handoff, now: Moment) -> Option<Moment> {
        let State::Asking(current) = &self.state else { return None };
        let is_ours = handoff.attempt == Digest::of(self.attempt) && self.terms.electors.counts(elector);
        if !is_ours || self.is_over(now) {
            return None;
        }
        // The validity counts from the refused request, which was sent before the wait.
        let sent =
            current.refused(node).map(|sent| if self.terms.rules.hold(Rule::CountFromSend) { sent } else { now })?;
        let valid_until = valid_until([sent], 1, self.terms.ttl, self.terms.drift)?;
        let left = validity::left(valid_until, now);
        (!left.is_zero() && left >= self.terms.min_validity).then_some(sent)
    }

    /// Stays in the queue and keeps the votes until a hint or the next poll.
    pub(super) fn wait(&mut self, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        let interval = self.poll_interval();
        let State::Asking(current) = &mut self.state else { return Vec::new() };
        let (wait, tally) = (Wait::of(&current.round), current.round.tally());
        let is_first = |queue: &QueuePosition| queue.position == Some(1);
        let (mut pause, mut expiry) = (POLL_MAX, POLL_MAX);
        for why in current.round.refusals() {
            match why {
                // A node sends no hint when a vote expires.
                Refusal::Held { remaining, queue, .. } if is_first(queue) => {
                    pause = interval;
                    expiry = remaining.map_or(expiry, |left| expiry.min(left + DELAY_MIN));
                }
                Refusal::Behind { queue, .. } if is_first(queue) => pause = interval,
                _ => {}
            }
        }
        let poll = now + rng.between(pause * 3 / 4, pause).min(expiry);
        current.poll = Some(current.poll.map_or(poll, |at| at.min(poll)));
        self.remember_fence(wait.fence);
        self.last_held = Some(tally);
        self.report(wait)
    }

    /// Returns the longest time between polls of the first waiter.
    pub(super) fn poll_interval(&self) -> Duration {
        (self.terms.ttl.duration() / 3).min(POLL_MAX)
    }

    /// Reports the state of the queue if it differs from the last report.
    fn report(&mut self, wait: Wait) -> Vec<Step> {
        if self.reported.as_ref().is_some_and(|reported| reported.is_same_queue(&wait)) {
            return Vec::new();
        }
        self.reported = Some(Box::new(wait.clone()));
        alloc::vec![Step::Waits(wait)]
    }

    /// Returns the final verdict. If the deadline cut off the last answers, an earlier report that the lock is held
    /// still counts.
    pub(super) fn final_verdict(&self, verdict: Verdict) -> Verdict {
        if matches!(verdict, Verdict::NoQuorum | Verdict::CutOff) && self.last_held.is_some() {
            Verdict::Held
        } else {
            verdict
        }
    }
}
