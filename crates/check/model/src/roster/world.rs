//! The state at one instant, and every next event.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;
use quorlock_core::node::NodeTime;
use quorlock_core::node::roster::{Membership, Roster, RosterAnswer, RosterCommand};
use quorlock_core::roster::View;
use quorlock_core::time::Moment;

use super::client::Client;
use super::server::Server;
use super::setup::{Budget, Flaw, Setup, address};
use crate::world::{Breach, FixedBuildHasher, Line, Shared};

/// The start of all clocks, in milliseconds.
const BASE_MILLIS: u64 = 1_000_000;

/// The next event. Positions are those of the client's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client reads all servers that it reaches.
    Look(usize),
    /// The client asks the server at this position for its vote.
    Ask(usize, usize),
    /// The client looks, and begins the proposal that it then plans.
    Begin(usize),
    /// The client looks, and begins to carry out an order.
    Obey(usize, usize),
    /// The client's proposal goes one step further at this position.
    Send(usize, usize),
    /// The proposer acts as if this seat had agreed.
    Invent(usize, usize),
    /// The client installs the roster that it believes.
    Push(usize, usize),
    /// The client claims time for a quarantined server.
    Claim(usize, usize),
    /// The server restarts empty.
    Crash(usize),
    /// The server restarts with what it stored.
    Restart(usize),
    /// Time passes.
    Pass,
}

/// The state at one instant.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) setup: Arc<Setup>,
    pub(super) tick: u64,
    pub(super) servers: Vec<Shared<Server>>,
    pub(super) clients: Vec<Shared<Client>>,
    pub(super) left: Budget,
    pub(super) highest: Fence,
    /// The rosters that were decided.
    pub(super) decided: Vec<Arc<Roster>>,
    pub(super) breach: Option<Breach>,
    /// The events so far, if requested.
    pub(super) story: Option<Vec<Line>>,
}

impl World {
    /// The first state.
    pub fn new(setup: &Arc<Setup>) -> Self {
        let mut world = Self {
            setup: setup.clone(),
            tick: 0,
            servers: (0..setup.servers).map(|index| Shared::new(Server::blank(setup, index))).collect(),
            clients: Vec::new(),
            left: setup.budget,
            highest: Fence::default(),
            decided: Vec::new(),
            breach: None,
            story: None,
        };
        let first = setup.first_roster(&setup.members);
        world.decided.extend(first.clone());
        for server in 0..setup.servers {
            let is_member = setup.members.contains(&server);
            // Without rosters, each client counts on its own list.
            let own = if setup.lacks(Flaw::Lists) && !is_member {
                let lists = setup.clients.iter().map(|spec| spec.list.iter().map(|(_, server)| *server));
                lists.map(Vec::from_iter).find(|list| list.contains(&server)).unwrap_or_default()
            } else {
                setup.members.clone()
            };
            let roster = setup.first_roster(&own).filter(|_| is_member || setup.lacks(Flaw::Lists));
            world.install_first(server, roster);
            if setup.lost.contains(&server) {
                let now = world.node_time();
                world.servers[server].crash(setup, now);
            }
        }
        for spec in &setup.clients {
            let own = spec.list.iter().map(|(_, server)| *server).collect::<Vec<_>>();
            let roster = if setup.lacks(Flaw::Lists) { setup.first_roster(&own) } else { first.clone() };
            world.clients.push(Shared::new(Client::new(spec.orders.len(), spec.proposals, roster)));
        }
        world
    }

    fn install_first(&mut self, server: usize, roster: Option<Arc<Roster>>) {
        let (Some(roster), now) = (roster, self.node_time()) else { return };
        let server = &mut self.servers[server];
        let setup = self.setup.clone();
        server.command(&setup, &RosterCommand::Install(roster), now);
        server.command(&setup, &RosterCommand::Settle { generation: 1 }, now);
        if let Some(membership) = &mut server.stored {
            (membership.quarantine, membership.floor) = (None, Some(Fence::default()));
        }
    }

    /// The first state, with its story.
    pub fn told(setup: &Arc<Setup>) -> Self {
        Self { story: Some(Vec::new()), ..Self::new(setup) }
    }

    /// The story so far.
    pub fn into_story(self) -> Vec<Line> {
        self.story.unwrap_or_default()
    }

    /// A name that equivalent states share.
    pub fn key(&self) -> u64 {
        let parts = (self.tick, &self.servers, &self.clients, self.left, self.highest);
        FixedBuildHasher.hash_one((parts, &self.decided, self.breach))
    }

    /// The violation, if there is one.
    pub fn breach(&self) -> Option<Breach> {
        self.breach
    }

    pub(super) fn node_time(&self) -> NodeTime {
        NodeTime::wall((BASE_MILLIS + self.tick * self.setup.tick_millis()) * 1_000)
    }

    pub(super) fn now(&self) -> Moment {
        Moment::from_nanos((BASE_MILLIS + self.tick * self.setup.tick_millis()) * 1_000_000)
    }

    /// The server behind a position of a client's list, if the client reaches it.
    pub(super) fn behind(&self, client: usize, at: usize) -> Option<usize> {
        let spec = &self.setup.clients[client];
        spec.list.get(at).filter(|_| !spec.cut_off.contains(&at)).map(|(_, server)| *server)
    }

    fn positions(&self, client: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.setup.clients[client].list.len()).filter_map(move |at| Some((at, self.behind(client, at)?)))
    }

    pub(super) fn addresses(&self, client: usize) -> Vec<Arc<str>> {
        self.setup.clients[client].list.iter().map(|(at, _)| address(*at)).collect()
    }

    /// Every possible next event. Some change nothing.
    pub fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.is_confused) {
            let spec = &self.setup.clients[index];
            actions.push(Action::Look(index));
            for (at, server) in self.positions(index) {
                actions.extend(self.may_ask(index, server).then_some(Action::Ask(index, at)));
                let proposer = client.proposer.as_deref();
                let has_command = proposer.is_some_and(|proposer| proposer.command(at).is_some());
                actions.extend(has_command.then_some(Action::Send(index, at)));
                let generation = self.servers[server].membership().map(Membership::generation);
                let is_behind = generation.is_some_and(|generation| generation < client.view.generation());
                actions.extend(is_behind.then_some(Action::Push(index, at)));
                let is_sighted = client.sightings.iter().any(|(_, sighting)| sighting.server == server);
                actions.extend(is_sighted.then_some(Action::Claim(index, at)));
            }
            let seats = (0..spec.list.len()).filter(|at| self.may_invent(index, *at));
            actions.extend(seats.map(|at| Action::Invent(index, at)));
            let is_last = client.view.generation() >= self.setup.generations;
            actions.extend((client.proposals > 0 && !is_last).then_some(Action::Begin(index)));
            let orders = (0..spec.orders.len()).filter(|order| client.orders >> order & 1 == 1 && !is_last);
            actions.extend(orders.map(|order| Action::Obey(index, order)));
        }
        for server in self.setup.fragile.iter().copied() {
            actions.extend((self.left.crashes > 0).then_some(Action::Crash(server)));
            actions.extend((self.left.restarts > 0).then_some(Action::Restart(server)));
        }
        actions.extend((self.left.ticks > 0).then_some(Action::Pass));
        actions
    }

    /// Whether a request could change anything.
    fn may_ask(&self, client: usize, server: usize) -> bool {
        let (spec, now) = (&self.setup.clients[client], self.now());
        let state = &self.clients[client];
        let holds = state.holds(now);
        if !spec.locks
            || self.left.asks == 0
            || (holds && !self.setup.renews)
            || self.counted_as(client, server).is_none()
        {
            return false;
        }
        let Some(membership) = self.servers[server].membership().filter(|membership| membership.is_voting()) else {
            return false;
        };
        let attempt = LeaseId::from_bits(client as u128 + 1);
        if self.servers[server].record.vote.as_ref().is_some_and(|vote| vote.attempt != attempt) {
            return false;
        }
        let vote = membership.member.and_then(|id| state.votes.iter().find(|vote| vote.member == id));
        match vote {
            Some(vote) if holds => vote.sent < now,
            Some(vote) => vote.fence < state.fence() || vote.sent < now,
            None => true,
        }
    }

    /// Carries out an event.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Look(client) => {
                self.look(client);
                self.say(client, || "looks at all servers that it reaches".into());
            }
            Action::Ask(client, at) => {
                self.left.asks -= 1;
                self.ask(client, at);
            }
            Action::Begin(client) => {
                self.clients[client].proposals -= 1;
                self.begin(client);
            }
            Action::Obey(client, order) => {
                self.clients[client].orders &= !(1 << order);
                self.obey(client, order);
            }
            Action::Send(client, at) => self.send(client, at),
            Action::Invent(client, at) => self.invent(client, at),
            Action::Push(client, at) => self.push(client, at),
            Action::Claim(client, at) => self.claim(client, at),
            Action::Crash(server) => {
                self.left.crashes -= 1;
                let (setup, now) = (self.setup.clone(), self.node_time());
                self.servers[server].crash(&setup, now);
                self.say_of_server(server, "restarts empty");
            }
            Action::Restart(server) => {
                self.left.restarts -= 1;
                let (setup, now) = (self.setup.clone(), self.node_time());
                self.servers[server].restart(&setup, now);
                self.say_of_server(server, "restarts with what it stored");
            }
            Action::Pass => {
                self.left.ticks -= 1;
                self.pass();
            }
        }
        self.judge();
    }

    /// Installs the roster that the client believes.
    pub(super) fn push(&mut self, client: usize, at: usize) {
        let roster = self.clients[client].view.roster().cloned();
        let Some((server, roster)) = self.behind(client, at).zip(roster) else { return };
        self.command(server, &RosterCommand::Install(roster));
        self.say(client, || format!("installs its roster on n{}", server + 1));
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self) {
        self.tick += 1;
        let (node_time, now) = (self.node_time(), self.now());
        for server in &mut self.servers {
            if server.record.vote.as_ref().is_some_and(|vote| node_time.life_millis > vote.until) {
                server.record.remove_expired(node_time);
            }
        }
        for client in &mut self.clients {
            if !client.votes.is_empty() || client.lease.is_some() {
                client.lapse(now);
            }
        }
        self.say_of_time();
    }

    pub(super) fn command(&mut self, server: usize, command: &RosterCommand) -> RosterAnswer {
        let (setup, now) = (self.setup.clone(), self.node_time());
        self.servers[server].command(&setup, command, now)
    }

    /// What each server stores, by position in the client's list.
    pub(super) fn reports(&self, client: usize) -> Vec<Option<Membership>> {
        let count = self.setup.clients[client].list.len();
        (0..count).map(|at| self.servers[self.behind(client, at)?].membership().cloned()).collect()
    }

    /// Checks that at most one lease is valid.
    fn judge(&mut self) {
        let now = self.now();
        if self.clients.iter().filter(|client| client.holds(now)).count() > 1 {
            // Their fences may also be out of order.
            self.breach = Some(Breach::TwoHolders);
        }
    }

    /// What a client believes.
    pub(super) fn view(&self, client: usize) -> &View {
        &self.clients[client].view
    }
}
