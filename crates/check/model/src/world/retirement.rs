//! An operator retires an owner, and the search checks that the owner stops holding the lock.

use quorlock_core::request::Request;
use quorlock_core::terms::Mode;
use quorlock_core::vote::Refusal;

use super::link::RequestInFlight;
use super::trace::server_names;
use super::{Violation, World};
use crate::setup::{Flaw, Retirement, TTL};

/// An operator's retirement of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnerRetirement {
    spec: Retirement,
    /// The servers that have executed the retirement, in ascending order.
    servers: Vec<usize>,
    /// When a majority had executed the retirement, in microseconds.
    majority_at: Option<u64>,
}

impl World {
    /// Whether this client is an operator that has not retired its owner yet.
    pub(super) fn can_retire(&self, index: usize) -> bool {
        self.setup.clients[index].retirement.is_some() && self.owner_retirement.is_none()
    }

    /// Sends the retirement to all nodes.
    pub(super) fn retire(&mut self, index: usize) {
        let Some(retirement) = self.setup.clients[index].retirement else { return };
        self.owner_retirement = Some(OwnerRetirement { spec: retirement, servers: Vec::new(), majority_at: None });
        let request = Request::Retire { owner: retirement.owner, tombstone: 2 * TTL.as_millis() as u64 };
        let now = self.client_now(index);
        let links = self.clients[index].links.iter_mut().enumerate();
        let asked_nodes: Vec<usize> =
            links.filter_map(|(node, link)| link.ask(&request, 0, now).then_some(node)).collect();
        let name = if retirement.is_other_name { "another name" } else { "this name" };
        self.trace_client(index, || format!("asks {} to retire the owner from {name}", server_names(asked_nodes)));
    }

    /// If this request retires an owner from another name: the node's refusal, because nobody holds that name.
    pub(super) fn refusal_for_another_name(&self, index: usize, in_flight: &RequestInFlight) -> Option<Refusal> {
        let is_other_name = self.setup.clients[index].retirement.is_some_and(|retirement| retirement.is_other_name);
        let is_retirement = matches!(in_flight.request, Request::Retire { .. });
        (is_retirement && is_other_name && !self.setup.has_flaw(Flaw::RetirementFromAllNames))
            .then_some(Refusal::Absent)
    }

    /// If this request is a retirement, records that the server has executed it.
    pub(super) fn record_retirement(&mut self, server: usize, request: &Request) {
        let Request::Retire { .. } = request else { return };
        let (now, majority) = (self.now, self.setup.servers / 2 + 1);
        let unrecorded = self.owner_retirement.as_mut().filter(|retirement| !retirement.servers.contains(&server));
        if let Some(retirement) = unrecorded {
            retirement.servers.push(server);
            retirement.servers.sort_unstable();
            if retirement.servers.len() == majority {
                retirement.majority_at = Some(now);
            }
        }
    }

    /// Whether an operator retires the owner of this mode. The owner may hold the lock for another ttl. Other clients
    /// need not wait for the end of that ttl, so their leases may overlap with the owner's.
    pub(super) fn is_retired(&self, mode: Mode) -> bool {
        self.owner_retirement
            .as_ref()
            .is_some_and(|retirement| !retirement.spec.is_other_name && mode.owner() == Some(retirement.spec.owner))
    }

    /// Checks that an owner stops holding the lock within a ttl after a majority has retired the owner.
    pub(super) fn check_retirement(&self) -> Option<Violation> {
        let majority_at = self.owner_retirement.as_ref()?.majority_at?;
        let mut clients = 0..self.clients.len();
        let is_holding = clients.any(|index| {
            self.is_retired(self.clients[index].mode) && self.clients[index].is_valid(self.client_now(index))
        });
        (is_holding && self.now > majority_at + TTL.as_micros() as u64).then_some(Violation::RetiredOwnerHolds)
    }
}
