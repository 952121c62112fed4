//! Connections: deliveries, breaks, and reconnects.

use std::sync::Arc;

use quorlock_core::delivery::Fate;
use quorlock_core::name::Channel;
use quorlock_core::node::NodeCommand;
use quorlock_core::request::{Request, Waiter};
use quorlock_core::vote::{Handoff, Outcome, Refusal, Silence, Vote};

use super::World;
use super::client::Client;
use super::link::{Connection, Letter, Link, Message, Reply, Seen};
use super::shared::Shared;
use super::tell::{client_name, server_name};
use crate::setup::{ClientSpec, Flaw, Setup};

impl World {
    fn behind(&self, index: usize, node: usize) -> usize {
        self.setup.clients[index].servers[node]
    }

    /// Delivers the next request.
    pub(super) fn deliver(&mut self, index: usize, node: usize) {
        let Some(letter) = self.clients[index].links[node].out.pop_front() else { return };
        let reply = self.vote(index, node, letter, false);
        self.clients[index].links[node].back.push_back(Message::Reply(Box::new(reply)));
    }

    pub(super) fn deliver_stray(&mut self, index: usize, node: usize) {
        if let Some(letter) = self.clients[index].links[node].strays.pop_front() {
            self.vote(index, node, letter, true);
        }
    }

    fn vote(&mut self, index: usize, node: usize, letter: Letter, is_stray: bool) -> Reply {
        let setup = Arc::clone(&self.setup);
        let behind = self.behind(index, node);
        let elsewhere = self.vote_elsewhere(index, &letter);
        let listener = |channel| listener(&setup, &self.clients, behind, channel);
        let server = &mut self.servers[behind];
        let answer = match elsewhere {
            Some(refusal) => refusal.into(),
            None => server.vote(&setup, self.now, &letter, |channel| listener(channel).is_some()),
        };
        let heard = answer.hint.and_then(|hint| Some((hint, listener(hint.channel)?)));
        let (vote, epoch) = (answer.vote, server.epoch());
        if let (Some(order), Request::Acquire { attempt, .. }, Vote::Grant { fence, .. }) =
            (&mut self.order, &letter.request, &vote)
        {
            order.grant(behind, *attempt, *fence);
        }
        self.say_vote(behind, index, &letter, &vote, is_stray);
        self.note_break(behind, &vote);
        self.note_retirement(behind, &letter.request);
        if let Some((hint, to)) = heard {
            self.tell_the_first(behind, hint, to, answer.handoff);
        }
        Reply { letter, vote, epoch }
    }

    /// Notifies the first waiter, on the connection where it listens.
    fn tell_the_first(&mut self, server: usize, waiter: Waiter, node: usize, handoff: Option<Handoff>) {
        let index = waiter.channel.0 as usize;
        if let Some(Handoff { fence, .. }) = handoff {
            let whose = client_name(index);
            self.say_of_server(server, || format!("hands its vote to {whose}, fence {fence}"));
            if let (Some(order), Some(vote)) = (&mut self.order, &self.servers[server].memory.record.vote) {
                order.grant(server, vote.attempt, fence);
            }
        }
        self.clients[index].links[node].back.push_back(Message::Hint(handoff));
    }

    /// Delivers the next reply or hint.
    pub(super) fn hear(&mut self, index: usize, node: usize) {
        let link = &mut self.clients[index].links[node];
        let Reply { letter, mut vote, epoch } = match link.back.pop_front() {
            Some(Message::Reply(reply)) => *reply,
            Some(Message::Hint(handoff)) => return self.hinted(index, node, handoff),
            Some(Message::Broken) => return self.doubt(index),
            // The following check of the node finds a new promotion.
            Some(Message::Changed) => return self.cut(index, node, true),
            None => return,
        };
        let told = link.delivery.replied([Fate::Done]).pop().flatten();
        let Some((attempt, round, _)) = told.filter(|_| letter.request.may_grant()) else { return };
        let is_checked = letter.request.is_plain() && !self.setup.lacks(Flaw::PlainUnchecked);
        if is_checked && epoch != Some(letter.epoch) {
            vote = Vote::Refusal(Refusal::WrongEpoch);
        }
        let is_lost = vote == Vote::Refusal(Refusal::WrongEpoch);
        let sent = letter.sent;
        self.take(index, node, (attempt, round), Outcome::Voted { vote, sent });
        if is_lost {
            self.cut(index, node, true);
        }
    }

    /// Ends the connection, and tells the client.
    pub(super) fn cut(&mut self, index: usize, node: usize, may_arrive: bool) {
        let behind = self.behind(index, node);
        let setup = Arc::clone(&self.setup);
        let link = &mut self.clients[index].links[node];
        let unanswered = link.cut(may_arrive);
        if setup.clients[index].reaches.contains(&node) {
            self.say_of_client(index, || format!("has lost its connection to {}", server_name(behind)));
        }
        for (attempt, round, _) in unanswered {
            let outcome = Outcome::Silent(Silence::Broken("the connection broke".into()));
            self.take(index, node, (attempt, round), outcome);
        }
    }

    /// Whether another connection of this client leads to the same server.
    pub(super) fn is_twin(&self, index: usize, node: usize) -> bool {
        let ClientSpec { servers, .. } = &self.setup.clients[index];
        let links = &self.clients[index].links;
        let is_there =
            |other: usize| other != node && servers[other] == servers[node] && links[other].connection.is_some();
        !self.setup.lacks(Flaw::ServerTwice) && (0..servers.len()).any(is_there)
    }

    /// Connects and completes the handshake.
    pub(super) fn connect(&mut self, index: usize, node: usize) {
        if self.is_twin(index, node) {
            return;
        }
        let setup = Arc::clone(&self.setup);
        let behind = self.behind(index, node);
        let now = self.moment(index);
        let fresh = self.fresh_epoch();
        let server = &mut self.servers[behind];
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
        let recorded = link.record.filter(|(of, _)| *of == epoch).map(|(_, seen)| seen);
        let seen = elapsed.map(|elapsed_micros| {
            let seen = Seen { elapsed_micros, at: now };
            recorded.map_or(seen, |recorded| recorded.better(seen, now))
        });
        link.record = seen.map(|seen| (epoch, seen));
        let claimed = seen.filter(|_| setup.claims_often).map(|_| now);
        link.connected(Connection { epoch, is_voting, seen, claimed, is_dead: false }, now);
        let how = if is_voting { "" } else { ", which is in quarantine" };
        self.say_of_client(index, || format!("connects to {}{how}", server_name(behind)));
        // Hints that the node sent meanwhile were lost.
        self.hinted(index, node, None);
    }

    /// Whether a claim to a quarantined node would change anything.
    pub(super) fn would_claim(&self, index: usize, node: usize, connection: &Connection) -> bool {
        let behind = self.behind(index, node);
        let server = &self.servers[behind];
        let Some(life) = server.memory.life.as_ref().filter(|life| life.epoch == Some(connection.epoch)) else {
            return true;
        };
        let is_old = self.setup.lacks(Flaw::Uptime) && server.uptime(&self.setup, self.now) >= life.quarantine_micros;
        let is_due = self.quarantine_ends(connection, behind).is_some_and(|moment| self.moment(index) >= moment);
        let has_more = connection.claimed.is_some_and(|claimed| self.moment(index) > claimed);
        life.floor.is_some() || is_old || is_due || has_more
    }

    /// Claims the time that has passed.
    pub(super) fn watch(&mut self, index: usize, node: usize) {
        let setup = Arc::clone(&self.setup);
        let (now, behind) = (self.moment(index), self.behind(index, node));
        let Some(Connection { epoch, seen, .. }) = self.clients[index].links[node].connection.clone() else { return };
        let server = &mut self.servers[behind];
        if setup.lacks(Flaw::Uptime) {
            let uptime = server.uptime(&setup, self.now);
            if let Some(life) = &mut server.memory.life {
                life.elapsed_micros = uptime;
            }
        }
        if let Some(seen) = seen {
            server.attend(&setup, self.now, &NodeCommand::Claim { epoch, elapsed_micros: seen.claim(now) });
        }
        if server.epoch() != Some(epoch) {
            self.cut(index, node, true);
            return;
        }
        let is_voting = server.is_voting();
        let elapsed = server.memory.life.as_ref().filter(|_| !is_voting).map(|life| life.elapsed_micros);
        let link = &mut self.clients[index].links[node];
        link.record = link.record.filter(|_| !is_voting);
        if let Some(connection) = &mut link.connection {
            connection.is_voting = is_voting;
            connection.claimed = connection.claimed.filter(|_| !is_voting).map(|_| now);
            let reported = elapsed.map(|elapsed_micros| Seen { elapsed_micros, at: now });
            connection.seen = reported.map(|reported| seen.map_or(reported, |seen| seen.better(reported, now)));
        }
        let what = if is_voting { "ends the quarantine of" } else { "claims that time has passed to" };
        self.say_of_client(index, || format!("{what} {}", server_name(behind)));
    }
}

/// The connection on which a client listens to this server.
pub(super) fn listener(setup: &Setup, clients: &[Shared<Client>], server: usize, channel: Channel) -> Option<usize> {
    let index = channel.0 as usize;
    let listens = |link: &Link| link.connection.as_ref().is_some_and(|connection| !connection.is_dead);
    let servers = &setup.clients[index].servers;
    (0..servers.len()).find(|node| servers[*node] == server && listens(&clients[index].links[*node]))
}
