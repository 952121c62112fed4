//! Connections: deliveries, breaks, and reconnects.

use std::sync::Arc;

use quorlock_core::delivery;
use quorlock_core::name::Channel;
use quorlock_core::node::NodeCommand;
use quorlock_core::quorum::Elector;
use quorlock_core::request::{Request, Waiter};
use quorlock_core::vote::{Handoff, Outcome, Refusal, Silence, Vote};

use super::World;
use super::client::Client;
use super::link::{Connection, ElapsedReport, Link, Message, Reply, RequestInFlight};
use super::shared::Shared;
use super::trace::{client_name, server_name};
use crate::setup::{ClientSpec, Flaw, Setup};

impl World {
    /// The index of the server behind one of a client's addresses.
    fn server_behind(&self, index: usize, node: usize) -> usize {
        self.setup.clients[index].servers[node]
    }

    /// Delivers the next request to the server, which puts its reply in flight.
    pub(super) fn deliver(&mut self, index: usize, node: usize) {
        let Some(in_flight) = self.clients[index].links[node].to_node.pop_front() else { return };
        let reply = self.vote(index, node, in_flight, false);
        self.clients[index].links[node].to_client.push_back(Message::Reply(Box::new(reply)));
    }

    /// Delivers a request of a broken connection. Its reply is lost.
    pub(super) fn deliver_stray(&mut self, index: usize, node: usize) {
        if let Some(in_flight) = self.clients[index].links[node].strays.pop_front() {
            self.vote(index, node, in_flight, true);
        }
    }

    /// Executes a request on the server. Returns the reply, and sends hints and handoffs to waiters.
    fn vote(&mut self, index: usize, node: usize, in_flight: RequestInFlight, is_stray: bool) -> Reply {
        let setup = Arc::clone(&self.setup);
        let server_index = self.server_behind(index, node);
        let refusal = self.refusal_for_another_name(index, &in_flight);
        let listener = |channel| listening_node(&setup, &self.clients, server_index, channel);
        let server = &mut self.servers[server_index];
        let answer = match refusal {
            Some(refusal) => refusal.into(),
            None => server.vote(&setup, self.now, &in_flight, |channel| listener(channel).is_some()),
        };
        let notified_waiter = answer.hint.and_then(|hint| Some((hint, listener(hint.channel)?)));
        let (vote, epoch) = (answer.vote, server.epoch());
        if let (Some(order), Request::Acquire { attempt, .. }, Vote::Grant { fence, .. }) =
            (&mut self.vote_order, &in_flight.request, &vote)
        {
            order.record_grant(server_index, *attempt, *fence);
        }
        self.trace_vote(server_index, index, &in_flight, &vote, is_stray);
        self.record_break(server_index, &vote);
        self.record_retirement(server_index, &in_flight.request);
        if let Some((waiter, waiter_node)) = notified_waiter {
            self.notify_first_waiter(server_index, waiter, waiter_node, answer.handoff);
        }
        Reply { request: in_flight, vote, epoch }
    }

    /// Sends a hint or a handoff to the first waiter, which listens on its connection to `node`.
    fn notify_first_waiter(&mut self, server: usize, waiter: Waiter, node: usize, handoff: Option<Handoff>) {
        let index = waiter.channel.0 as usize;
        if let Some(Handoff { fence, .. }) = handoff {
            let waiter_name = client_name(index);
            self.trace_server(server, || format!("hands its vote to {waiter_name}, fence {fence}"));
            if let (Some(order), Some(vote)) = (&mut self.vote_order, &self.servers[server].memory.record.vote) {
                order.record_grant(server, vote.attempt, fence);
            }
        }
        self.clients[index].links[node].to_client.push_back(Message::Hint(handoff));
    }

    /// Delivers the next message to the client.
    pub(super) fn receive(&mut self, index: usize, node: usize) {
        let link = &mut self.clients[index].links[node];
        let Reply { request: in_flight, mut vote, epoch } = match link.to_client.pop_front() {
            Some(Message::Reply(reply)) => *reply,
            Some(Message::Hint(handoff)) => return self.handle_hint(index, node, handoff),
            Some(Message::LeaseBroken) => return self.handle_break_message(index),
            // The client reconnects, and its handshake finds that the node has another identity.
            Some(Message::DataChanged) => return self.disconnect(index, node, true),
            None => return,
        };
        let replies = [delivery::Reply::Voted { vote: vote.clone(), at_micros: None }];
        let completion = link.delivery.replied(&replies).pop().flatten();
        let Some((attempt, round, _)) = completion.filter(|_| in_flight.request.may_grant()) else { return };
        let checks_epoch = in_flight.request.is_plain() && !self.setup.has_flaw(Flaw::PlainEpochUnchecked);
        if checks_epoch && epoch != Some(in_flight.epoch) {
            vote = Vote::Refusal(Refusal::WrongEpoch);
        }
        let has_wrong_epoch = vote == Vote::Refusal(Refusal::WrongEpoch);
        let sent = in_flight.sent;
        self.handle_outcome(index, node, (attempt, round), Outcome::Voted { vote, elector: Elector::at(node), sent });
        if has_wrong_epoch {
            self.disconnect(index, node, true);
        }
    }

    /// Ends the connection, and notifies the client's state machines. If `requests_may_arrive`, requests in flight may
    /// still arrive.
    pub(super) fn disconnect(&mut self, index: usize, node: usize, requests_may_arrive: bool) {
        let server_index = self.server_behind(index, node);
        let setup = Arc::clone(&self.setup);
        let link = &mut self.clients[index].links[node];
        let unanswered = link.disconnect(requests_may_arrive);
        if setup.clients[index].reachable.contains(&node) {
            self.trace_client(index, || format!("has lost its connection to {}", server_name(server_index)));
        }
        for (attempt, round, _) in unanswered {
            let outcome = Outcome::Silent(Silence::Broken("the connection broke".into()));
            self.handle_outcome(index, node, (attempt, round), outcome);
        }
    }

    /// Whether this client is connected to the same server through another address.
    pub(super) fn is_second_address(&self, index: usize, node: usize) -> bool {
        let ClientSpec { servers, .. } = &self.setup.clients[index];
        let links = &self.clients[index].links;
        let is_connected =
            |other: usize| other != node && servers[other] == servers[node] && links[other].connection.is_some();
        !self.setup.has_flaw(Flaw::ServerCountedTwice) && (0..servers.len()).any(is_connected)
    }

    /// Connects and completes the handshake.
    pub(super) fn connect(&mut self, index: usize, node: usize) {
        if self.is_second_address(index, node) {
            return;
        }
        let setup = Arc::clone(&self.setup);
        let server_index = self.server_behind(index, node);
        let now = self.client_now(index);
        let fresh = self.fresh_epoch();
        let server = &mut self.servers[server_index];
        let (identity, constants) = (server.identity(), setup.constants());
        let founders = String::new();
        let hello = NodeCommand::Hello { identity, fresh, constants, founders, trust: setup.trust() };
        server.attend(&setup, self.now, &hello);
        let Some(epoch) = server.epoch() else { return };
        if epoch != fresh {
            self.epochs -= 1;
        }
        let is_voting = server.is_voting();
        let elapsed = server.memory.life.as_ref().filter(|_| !is_voting).map(|life| life.elapsed_micros);
        let link = &mut self.clients[index].links[node];
        let recorded_report =
            link.quarantine_record.filter(|(record_epoch, _)| *record_epoch == epoch).map(|(_, report)| report);
        let report = elapsed.map(|elapsed_micros| {
            let report = ElapsedReport { elapsed_micros, at: now };
            recorded_report.map_or(report, |recorded| recorded.longer_of(report, now))
        });
        link.quarantine_record = report.map(|report| (epoch, report));
        let last_claim = report.filter(|_| setup.has_frequent_claims).map(|_| now);
        link.connected(Connection { epoch, is_voting, report, last_claim, is_dead: false }, now);
        let quarantine = if is_voting { "" } else { ", which is in quarantine" };
        self.trace_client(index, || format!("connects to {}{quarantine}", server_name(server_index)));
        // The node may have sent a hint while the client was disconnected, so the client acts as if it had received a
        // hint.
        self.handle_hint(index, node, None);
    }

    /// Whether the state would change if the client told a quarantined node how long the quarantine has lasted.
    pub(super) fn claim_has_effect(&self, index: usize, node: usize, connection: &Connection) -> bool {
        let server_index = self.server_behind(index, node);
        let server = &self.servers[server_index];
        let Some(life) = server.memory.life.as_ref().filter(|life| life.epoch == Some(connection.epoch)) else {
            return true;
        };
        let is_over_by_wall_clock = self.setup.has_flaw(Flaw::QuarantineByWallClock)
            && server.uptime(&self.setup, self.now) >= life.quarantine_micros;
        let is_due =
            self.quarantine_end(connection, server_index).is_some_and(|moment| self.client_now(index) >= moment);
        let is_after_last_claim = connection.last_claim.is_some_and(|last_claim| self.client_now(index) > last_claim);
        life.floor.is_some() || is_over_by_wall_clock || is_due || is_after_last_claim
    }

    /// Tells a quarantined node how long the quarantine has lasted: the time in the node's report, and the time since
    /// that report.
    pub(super) fn claim_elapsed_time(&mut self, index: usize, node: usize) {
        let setup = Arc::clone(&self.setup);
        let (now, server_index) = (self.client_now(index), self.server_behind(index, node));
        let Some(Connection { epoch, report, .. }) = self.clients[index].links[node].connection.clone() else { return };
        let server = &mut self.servers[server_index];
        if setup.has_flaw(Flaw::QuarantineByWallClock) {
            let uptime = server.uptime(&setup, self.now);
            if let Some(life) = &mut server.memory.life {
                life.elapsed_micros = uptime;
            }
        }
        if let Some(report) = report {
            server.attend(&setup, self.now, &NodeCommand::Claim { epoch, elapsed_micros: report.elapsed_at(now) });
        }
        if server.epoch() != Some(epoch) {
            self.disconnect(index, node, true);
            return;
        }
        let is_voting = server.is_voting();
        let elapsed = server.memory.life.as_ref().filter(|_| !is_voting).map(|life| life.elapsed_micros);
        let link = &mut self.clients[index].links[node];
        link.quarantine_record = link.quarantine_record.filter(|_| !is_voting);
        if let Some(connection) = &mut link.connection {
            connection.is_voting = is_voting;
            connection.last_claim = connection.last_claim.filter(|_| !is_voting).map(|_| now);
            let latest = elapsed.map(|elapsed_micros| ElapsedReport { elapsed_micros, at: now });
            connection.report = latest.map(|latest| report.map_or(latest, |report| report.longer_of(latest, now)));
        }
        let effect = if is_voting { "ends the quarantine of" } else { "reports the elapsed time of the quarantine to" };
        self.trace_client(index, || format!("{effect} {}", server_name(server_index)));
    }
}

/// The address on which the client of this channel receives messages of this server, if it is connected.
pub(super) fn listening_node(
    setup: &Setup,
    clients: &[Shared<Client>],
    server: usize,
    channel: Channel,
) -> Option<usize> {
    let index = channel.0 as usize;
    let listens = |link: &Link| link.connection.as_ref().is_some_and(|connection| !connection.is_dead);
    let servers = &setup.clients[index].servers;
    (0..servers.len()).find(|node| servers[*node] == server && listens(&clients[index].links[*node]))
}
