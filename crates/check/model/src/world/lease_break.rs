//! An operator breaks a client's lease, and the search checks that the broken lease ends.

use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::request::{Request, Target};
use quorlock_core::vote::Vote;

use super::connections::listening_node;
use super::link::{Link, Message};
use super::trace::server_names;
use super::{Violation, World};
use crate::setup::{Flaw, TTL};

/// An operator's break of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseBreak {
    fence: Fence,
    attempt: LeaseId,
    /// The servers that have executed the break, in ascending order.
    servers: Vec<usize>,
    /// When a majority had executed the break, in microseconds.
    majority_at: Option<u64>,
}

impl World {
    /// The fence and attempt of the held lease with the highest fence, which the operator would see.
    fn breakable_lease(&self) -> Option<(Fence, LeaseId)> {
        let holds = self.clients.iter().filter_map(|client| client.hold.as_ref().filter(|hold| hold.is_held()));
        holds.filter_map(|hold| Some((hold.fence()?, hold.attempt()))).max()
    }

    /// Whether this client is an operator that has not broken a lease yet, and a lease is held.
    pub(super) fn can_break_lease(&self, index: usize) -> bool {
        let is_operator = self.setup.clients[index].break_mode.is_some();
        is_operator && self.lease_break.is_none() && self.breakable_lease().is_some()
    }

    /// Sends the break of the current lease to all nodes.
    pub(super) fn break_lease(&mut self, index: usize) {
        let (Some(mode), Some((fence, attempt))) = (self.setup.clients[index].break_mode, self.breakable_lease())
        else {
            return;
        };
        self.lease_break = Some(LeaseBreak { fence, attempt, servers: Vec::new(), majority_at: None });
        let request = Request::Break { target: Target::Fence(fence), mode };
        let now = self.client_now(index);
        let asked_nodes: Vec<usize> = self.clients[index]
            .links
            .iter_mut()
            .enumerate()
            .filter_map(|(node, link)| link.ask(&request, 0, now).then_some(node))
            .collect();
        self.trace_client(index, || {
            format!("asks {} to break the lease with fence {fence}", server_names(asked_nodes))
        });
    }

    /// If this vote shows that the server has executed a break, records the break, and notifies all clients that may
    /// hold a lease.
    pub(super) fn record_break(&mut self, server: usize, vote: &Vote) {
        let Vote::Broken { .. } = vote else { return };
        let (now, majority) = (self.now, quorlock_core::quorum::Quorum::majority_of(self.setup.servers));
        if let Some(lease_break) =
            self.lease_break.as_mut().filter(|lease_break| !lease_break.servers.contains(&server))
        {
            lease_break.servers.push(server);
            lease_break.servers.sort_unstable();
            if lease_break.servers.len() == majority {
                lease_break.majority_at = Some(now);
            }
        }
        let setup = self.setup.clone();
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.machine.is_none() && client.hold.is_none() {
                continue;
            }
            if let Some(node) = listening_node(&setup, &self.clients, server, Channel(index as u128)) {
                self.clients[index].links[node].to_client.push_back(Message::LeaseBroken);
            }
        }
    }

    /// Handles the message that a lease was broken. The lease may be this client's.
    pub(super) fn handle_break_message(&mut self, index: usize) {
        let (now, has_flaw) = (self.client_now(index), self.setup.has_flaw(Flaw::NoRenewalAfterBreak));
        let Some(hold) = &mut self.clients[index].hold else { return };
        let steps = if has_flaw { hold.extend(now).1 } else { hold.doubt(now) };
        self.perform(index, steps);
    }

    /// Checks the guarantees about broken leases.
    pub(super) fn check_break(&self) -> Option<Violation> {
        let lease_break = self.lease_break.as_ref()?;
        let majority_at = lease_break.majority_at?;
        let index = self.clients.iter().position(|client| {
            client.hold.as_ref().is_some_and(|hold| hold.attempt() == lease_break.attempt && hold.is_held())
        })?;
        let is_valid = self.clients[index].is_valid(self.client_now(index));
        if is_valid && self.now > majority_at + TTL.as_micros() as u64 {
            return Some(Violation::BrokenLeaseValid);
        }
        let is_quiet = self.clients.iter().all(|client| client.links.iter().all(Link::is_quiet));
        let is_notified = self.setup.notifies_of_every_break() && is_quiet;
        (is_valid && is_notified).then_some(Violation::HolderNotNotified)
    }

    /// When a holder has lost its lease by a break, checks that the break targeted this lease.
    pub(super) fn check_loss_by_break(&mut self, attempt: LeaseId) {
        if self.lease_break.as_ref().is_none_or(|lease_break| lease_break.attempt != attempt) {
            self.violation = self.violation.or(Some(Violation::WrongLeaseBroken));
        }
    }
}
