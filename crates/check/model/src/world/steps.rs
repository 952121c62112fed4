//! Calls the clients' state machines and performs their steps, as `lease/claim/steps.rs` does in the library.

use std::collections::VecDeque;
use std::sync::Arc;

use quorlock_core::acquire::Acquire;
use quorlock_core::hold::{Hold, Loss, Step};
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::quorum::Elector;
use quorlock_core::request::{Parting, Request};
use quorlock_core::vote::{Handoff, Outcome, Silence, Vote};

use super::World;
use super::client::{Client, ttl};
use super::clock::NODE_CLOCK_START;
use super::trace::server_names;
use crate::setup::{Flaw, Receiver};

impl World {
    pub(super) fn start(&mut self, index: usize) {
        let setup = Arc::clone(&self.setup);
        self.clients[index].acquires_left -= 1;
        let client = &mut *self.clients[index];
        client.machine = Some(Acquire::new(Client::terms(&setup, index), &mut client.rng));
        self.tick(index);
    }

    /// Fires the client's timers that are due.
    pub(super) fn tick(&mut self, index: usize) {
        let now = self.client_now(index);
        let clock_estimate = self.clock_estimate(index);
        let client = &mut *self.clients[index];
        if let Some(machine) = &mut client.machine {
            let steps = machine.tick(now, Some(clock_estimate), &mut client.rng);
            self.perform(index, steps);
        }
        let client = &mut *self.clients[index];
        if let Some(hold) = &mut client.hold {
            let steps = hold.tick(now, &mut client.rng);
            self.perform(index, steps);
        }
    }

    /// The client's estimate of the nodes' wall clocks, in microseconds.
    fn clock_estimate(&self, index: usize) -> i64 {
        (NODE_CLOCK_START + self.now).cast_signed() + self.setup.clients[index].clock_estimate_ahead_micros
    }

    pub(super) fn release(&mut self, index: usize) {
        let client = &mut *self.clients[index];
        let Some(mut hold) = client.hold.take() else { return };
        if hold.release() {
            let parting = client.parting;
            self.trace_client(index, || "releases".into());
            self.send_releases(index, hold.attempt(), None, parting);
        }
    }

    pub(super) fn cancel(&mut self, index: usize) {
        let Some(mut machine) = self.clients[index].machine.take() else { return };
        self.trace_client(index, || "cancels".into());
        let steps = machine.cancel();
        self.perform(index, steps);
    }

    /// The receiver of a detached lease asks all nodes to extend the lease.
    pub(super) fn extend(&mut self, index: usize) {
        let repair = self.setup.has_flaw(Flaw::ExtensionRepairs);
        let (now, mode) = (self.client_now(index), self.clients[index].mode);
        let Some(detached) = &mut self.clients[index].detached_lease else { return };
        detached.extensions_left -= 1;
        detached.extensions_sent.fill(None);
        let (attempt, fence) = (detached.attempt, detached.fence);
        let request = Request::Renew { attempt, fence, ttl: ttl(), repair, holder: "".into(), mode };
        for link in &mut self.clients[index].links {
            link.ask(&request, 1, now);
        }
        self.trace_client(index, || "detached a lease, and the receiver extends it".into());
    }

    /// The repair of its detached lease that the client may still make.
    pub(super) fn pending_repair(&self, index: usize) -> Option<Step> {
        self.clients[index].detached_lease.as_ref()?.winner.as_ref()?.repair(self.client_now(index))
    }

    pub(super) fn repair(&mut self, index: usize) {
        let Some(Step::Ask { nodes, request, .. }) = self.pending_repair(index) else { return };
        let now = self.client_now(index);
        let client = &mut *self.clients[index];
        let Some(detached) = &mut client.detached_lease else { return };
        detached.winner = None;
        for node in nodes.iter() {
            client.links[node].ask(&request, 0, now);
        }
        self.trace_client(index, || "repairs the lease on the other nodes".into());
    }

    /// Handles a hint, or a handoff.
    pub(super) fn handle_hint(&mut self, index: usize, node: usize, handoff: Option<Handoff>) {
        let now = self.client_now(index);
        let clock_estimate = Some(self.clock_estimate(index));
        let client = &mut *self.clients[index];
        let Some(machine) = &mut client.machine else { return };
        let steps = match handoff {
            Some(handoff) => {
                machine.take_handoff(node, Elector::at(node), handoff, now, clock_estimate, &mut client.rng)
            }
            None => machine.hint(node, now, clock_estimate),
        };
        self.perform(index, steps);
    }

    /// Passes the outcome of a request to the state machine that made the request.
    pub(super) fn handle_outcome(
        &mut self,
        index: usize,
        node: usize,
        attempt_and_round: (LeaseId, u32),
        outcome: Outcome,
    ) {
        let now = self.client_now(index);
        let setup = Arc::clone(&self.setup);
        let (_, round) = attempt_and_round;
        let (attempt, outcome) = self.counted_attempt_and_outcome(index, node, attempt_and_round, outcome);
        let client = &mut *self.clients[index];
        if let Some(detached) = client.detached_lease.as_mut().filter(|detached| detached.attempt == attempt) {
            if let (1, Outcome::Voted { vote: Vote::Grant { .. }, sent, .. }) = (round, &outcome) {
                // An obedient receiver stops at the end of the lease.
                if now < detached.valid_until || setup.clients[index].repair_receiver != Some(Receiver::Obedient) {
                    detached.record_extension(&setup, &setup.clients[index], node, *sent);
                }
            } else if let Some(winner) = detached.winner.as_mut().filter(|_| round == 0) {
                // The winner needs only the set of nodes that have granted the lease.
                let _ = winner.take(0, node, outcome, now, &mut client.rng);
            }
        } else if let Some(hold) = client.hold.as_mut().filter(|hold| hold.attempt() == attempt) {
            let steps = hold.take(round, node, outcome, now, &mut client.rng);
            self.perform(index, steps);
        } else if let Some(machine) = &mut client.machine {
            let steps = machine.take(attempt, node, outcome, now, &mut client.rng);
            self.perform(index, steps);
        }
    }

    /// The attempt for which the client counts an outcome, and the outcome that it counts. With all rules, these are the
    /// attempt that made the request, and `outcome`.
    fn counted_attempt_and_outcome(
        &self,
        index: usize,
        node: usize,
        (attempt, round): (LeaseId, u32),
        outcome: Outcome,
    ) -> (LeaseId, Outcome) {
        let client = &self.clients[index];
        let latest = client.attempts.last().copied().unwrap_or(attempt);
        let assumed_send_time = match outcome {
            Outcome::Voted { .. } if self.setup.has_flaw(Flaw::RepliesUnmatched) => client.links[node].last_sent,
            Outcome::Voted { .. } if self.setup.has_flaw(Flaw::RenewalsMixed) && round > 0 => client.last_renewal,
            _ => return (attempt, outcome),
        };
        match outcome {
            Outcome::Voted { vote, elector, sent } => {
                (latest, Outcome::Voted { vote, elector, sent: assumed_send_time.unwrap_or(sent) })
            }
            silent @ Outcome::Silent(_) => (attempt, silent),
        }
    }

    pub(super) fn perform(&mut self, index: usize, steps: Vec<Step>) {
        let mut steps = VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Ask { nodes, round, request } => steps.extend(self.ask(index, nodes, round, &request)),
                Step::Release { attempt, nodes, parting } => self.send_releases(index, attempt, Some(nodes), parting),
                Step::Waits(_) => {}
                Step::Won { hold, .. } => self.win(index, hold),
                Step::Defeated(defeat) => {
                    self.trace_client(index, || format!("gives up: {}", defeat.tally));
                    self.clients[index].machine = None;
                }
                Step::Renewed { .. } => self.trace_client(index, || "has renewed".into()),
                Step::Failed { tally, .. } => self.trace_client(index, || format!("could not renew: {tally}")),
                Step::Lost(why) => {
                    self.trace_client(index, || format!("has lost the lease: {why:?}"));
                    let client = &mut *self.clients[index];
                    let Some(hold) = client.hold.take() else { return };
                    let parting = client.parting;
                    if why == Loss::Broken {
                        self.check_loss_by_break(hold.attempt());
                    }
                    self.send_releases(index, hold.attempt(), None, parting);
                }
            }
        }
    }

    fn ask(&mut self, index: usize, nodes: NodeSet, round: u32, request: &Request) -> Vec<Step> {
        let (now, attempt) = (self.client_now(index), request.attempt());
        let client = &mut *self.clients[index];
        if client.attempts.last() != Some(&attempt) {
            client.attempts.push(attempt);
        }
        if round > 0 {
            client.last_renewal = Some(now);
        }
        let mut steps = Vec::new();
        let mut asked_nodes = Vec::new();
        for node in nodes.iter() {
            let outcome = Outcome::Silent(Silence::Unreachable("no connection".into()));
            if client.links[node].ask(request, round, now) {
                asked_nodes.push(node);
            } else if let Some(hold) = client.hold.as_mut().filter(|_| round > 0) {
                steps.extend(hold.take(round, node, outcome, now, &mut client.rng));
            } else if let Some(machine) = &mut client.machine {
                steps.extend(machine.take(attempt, node, outcome, now, &mut client.rng));
            }
        }
        let name = self.attempt_name(attempt);
        let renewal = if round > 0 { "for a renewal " } else { "" };
        self.trace_client(index, || format!("asks {} {renewal}as {name}", server_names(asked_nodes)));
        steps
    }

    fn win(&mut self, index: usize, hold: Hold) {
        let setup = Arc::clone(&self.setup);
        let (now, fence, name) = (self.client_now(index), hold.fence(), self.attempt_name(hold.attempt()));
        let (validity, mode) = (hold.validity(now), hold.terms().mode);
        let fence_text = fence.map_or_else(|| "no fence".into(), |fence| format!("fence {fence}"));
        self.trace_client(index, || {
            format!("holds as {name}, with {fence_text}, for another {validity:.1?} by its clock")
        });
        if let Some(fence) = fence.filter(|_| !self.is_retired(mode)) {
            self.check_fence(mode, hold.attempt(), fence);
        }
        let client = &mut *self.clients[index];
        let Some(machine) = client.machine.take() else { return };
        client.parting = machine.waiter().map(Parting::Leave);
        client.start_hold(&setup.clients[index], hold, now);
    }

    fn send_releases(&mut self, index: usize, attempt: LeaseId, nodes: Option<NodeSet>, parting: Option<Parting>) {
        let setup = Arc::clone(&self.setup);
        let (now, is_plain) = (self.client_now(index), setup.clients[index].uses_plain_locks);
        for (node, link) in self.clients[index].links.iter_mut().enumerate() {
            if nodes.is_none_or(|nodes| nodes.contains(node)) {
                link.release(attempt, parting, is_plain, now);
            }
        }
        let name = self.attempt_name(attempt);
        self.trace_client(index, || format!("sends releases of {name}"));
    }
}
