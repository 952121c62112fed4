//! The state at one instant, and every next event.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::node::NodeTime;
use quorlock_core::node::roster::{Membership, Roster, RosterAnswer, RosterCommand};
use quorlock_core::roster::View;
use quorlock_core::time::Moment;

use super::client::Client;
use super::server::Server;
use super::setup::{Budget, Flaw, Setup, address};
use crate::world::{FixedBuildHasher, Shared, TraceLine, Violation};

/// The start of all clocks, in milliseconds.
const BASE_MILLIS: u64 = 1_000_000;

/// The next event. Its fields are a client, a client and a position in the client's list, or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client reads all servers that it reaches.
    ReadServers(usize),
    /// The client asks the server at this position for its vote.
    Ask(usize, usize),
    /// The client reads all servers, and starts the proposal that its view plans.
    Propose(usize),
    /// The client reads all servers, and starts to propose an operator's membership change.
    ProposeMembershipChange(usize, usize),
    /// The client sends the next command of its proposal to this position.
    Send(usize, usize),
    /// The proposer assumes that this seat has agreed.
    AssumeAgreement(usize, usize),
    /// The client installs its roster on the server at this position.
    Install(usize, usize),
    /// The client claims to a quarantined server that time has passed.
    Claim(usize, usize),
    /// The server restarts empty.
    Crash(usize),
    /// The server restarts with its data.
    Restart(usize),
    /// Time passes.
    PassTime,
}

/// The state at one instant.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) setup: Arc<Setup>,
    pub(super) time_step: u64,
    pub(super) servers: Vec<Shared<Server>>,
    pub(super) clients: Vec<Shared<Client>>,
    pub(super) budget_left: Budget,
    pub(super) highest_fence: Fence,
    /// The rosters that were decided.
    pub(super) decided: Vec<Arc<Roster>>,
    pub(super) violation: Option<Violation>,
    /// The events so far, if requested.
    pub(super) trace: Option<Vec<TraceLine>>,
}

impl World {
    /// The first state.
    pub fn new(setup: &Arc<Setup>) -> Self {
        let mut world = Self {
            setup: setup.clone(),
            time_step: 0,
            servers: (0..setup.servers).map(|index| Shared::new(Server::new(setup, index))).collect(),
            clients: Vec::new(),
            budget_left: setup.budget,
            highest_fence: Fence::default(),
            decided: Vec::new(),
            violation: None,
            trace: None,
        };
        let first = setup.first_roster(&setup.members);
        world.decided.extend(first.clone());
        for server in 0..setup.servers {
            let is_member = setup.members.contains(&server);
            // With this flaw, the list of each client replaces the roster.
            let own = if setup.has_flaw(Flaw::VotesOfListsCount) && !is_member {
                let two_lists_and_restart =
                    setup.clients.iter().map(|spec| spec.list.iter().map(|(_, server)| *server));
                two_lists_and_restart.map(Vec::from_iter).find(|list| list.contains(&server)).unwrap_or_default()
            } else {
                setup.members.clone()
            };
            let roster = setup.first_roster(&own).filter(|_| is_member || setup.has_flaw(Flaw::VotesOfListsCount));
            world.install_first(server, roster);
            if setup.members_without_memory.contains(&server) {
                let now = world.node_time();
                world.servers[server].crash(setup, now);
            }
        }
        for (index, spec) in setup.clients.iter().enumerate() {
            let own = spec.list.iter().map(|(_, server)| *server).collect::<Vec<_>>();
            let roster = if setup.has_flaw(Flaw::VotesOfListsCount) { setup.first_roster(&own) } else { first.clone() };
            world.clients.push(Shared::new(Client::new(setup, index, roster)));
        }
        world
    }

    fn install_first(&mut self, server: usize, roster: Option<Arc<Roster>>) {
        let (Some(roster), now) = (roster, self.node_time()) else { return };
        let server = &mut self.servers[server];
        let setup = self.setup.clone();
        server.command(&setup, &RosterCommand::Install(roster), now);
        server.command(&setup, &RosterCommand::Settle { generation: 1 }, now);
        if let Some(membership) = &mut server.stored_membership {
            (membership.quarantine, membership.floor) = (None, Some(Fence::default()));
        }
    }

    /// Like [`World::new`], and records the events.
    pub fn with_trace(setup: &Arc<Setup>) -> Self {
        Self { trace: Some(Vec::new()), ..Self::new(setup) }
    }

    /// The events so far.
    pub fn into_trace(self) -> Vec<TraceLine> {
        self.trace.unwrap_or_default()
    }

    /// A hash of the state. Two states with the same hash have the same future.
    pub fn key(&self) -> u64 {
        let parts = (self.time_step, &self.servers, &self.clients, self.budget_left, self.highest_fence);
        FixedBuildHasher.hash_one((parts, &self.decided, self.violation))
    }

    /// The violation, if there is one.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    pub(super) fn node_time(&self) -> NodeTime {
        NodeTime::wall((BASE_MILLIS + self.time_step * self.setup.time_step_millis()) * 1_000)
    }

    pub(super) fn now(&self) -> Moment {
        Moment::from_nanos((BASE_MILLIS + self.time_step * self.setup.time_step_millis()) * 1_000_000)
    }

    /// The server at a position in the client's list, if the client can reach it.
    pub(super) fn server_at(&self, client: usize, position: usize) -> Option<usize> {
        let spec = &self.setup.clients[client];
        spec.list.get(position).filter(|_| !spec.unreachable.contains(&position)).map(|(_, server)| *server)
    }

    fn positions(&self, client: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.setup.clients[client].list.len())
            .filter_map(move |position| Some((position, self.server_at(client, position)?)))
    }

    pub(super) fn addresses(&self, client: usize) -> Vec<Arc<str>> {
        self.setup.clients[client].list.iter().map(|(position, _)| address(*position)).collect()
    }

    /// Every possible next event. Some events change nothing.
    pub fn next_actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.has_read_two_rosters) {
            let spec = &self.setup.clients[index];
            actions.push(Action::ReadServers(index));
            for (position, server) in self.positions(index) {
                actions.extend(self.may_ask(index, position, server).then_some(Action::Ask(index, position)));
                let proposer = client.proposer.as_deref();
                let has_command = proposer.is_some_and(|proposer| proposer.command(position).is_some());
                actions.extend(has_command.then_some(Action::Send(index, position)));
                let generation = self.servers[server].membership().map(Membership::generation);
                let is_behind = generation.is_some_and(|generation| generation < client.view.generation());
                actions.extend(is_behind.then_some(Action::Install(index, position)));
                let has_reading = client.quarantine_readings.iter().any(|(_, reading)| reading.server == server);
                actions.extend(has_reading.then_some(Action::Claim(index, position)));
            }
            let seats = (0..spec.list.len()).filter(|position| self.may_assume_agreement(index, *position));
            actions.extend(seats.map(|position| Action::AssumeAgreement(index, position)));
            let is_last = client.view.generation() >= self.setup.last_generation;
            actions.extend((client.proposals > 0 && !is_last).then_some(Action::Propose(index)));
            let membership_changes = (0..spec.membership_changes.len())
                .filter(|membership_change| client.membership_changes >> membership_change & 1 == 1 && !is_last);
            actions.extend(
                membership_changes.map(|membership_change| Action::ProposeMembershipChange(index, membership_change)),
            );
        }
        for server in self.setup.faulty_servers.iter().copied() {
            actions.extend((self.budget_left.crashes > 0).then_some(Action::Crash(server)));
            actions.extend((self.budget_left.restarts > 0).then_some(Action::Restart(server)));
        }
        actions.extend((self.budget_left.time_steps > 0).then_some(Action::PassTime));
        actions
    }

    /// Whether the client asks the server at this position, and the answer could be a grant that counts.
    fn may_ask(&self, client: usize, position: usize, server: usize) -> bool {
        let state = &self.clients[client];
        let vote = self.servers[server].record.vote.as_ref();
        self.setup.clients[client].wants_lock
            && self.budget_left.votes_requested > 0
            && vote.is_none_or(|vote| Some(vote.attempt) == state.attempt())
            && state.has_request(&self.setup, position, self.now())
            && self.counted_elector(client, position, server).is_some()
    }

    /// Carries out an event.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::ReadServers(client) => {
                self.read_servers(client);
                self.trace_client(client, || "reads all servers that it reaches".into());
            }
            Action::Ask(client, position) => {
                self.budget_left.votes_requested -= 1;
                self.ask(client, position);
            }
            Action::Propose(client) => {
                self.clients[client].proposals -= 1;
                self.read_and_propose(client);
            }
            Action::ProposeMembershipChange(client, membership_change) => {
                self.clients[client].membership_changes &= !(1 << membership_change);
                self.propose_membership_change(client, membership_change);
            }
            Action::Send(client, position) => self.send(client, position),
            Action::AssumeAgreement(client, position) => self.assume_agreement(client, position),
            Action::Install(client, position) => self.install_roster(client, position),
            Action::Claim(client, position) => self.claim(client, position),
            Action::Crash(server) => {
                self.budget_left.crashes -= 1;
                let (setup, now) = (self.setup.clone(), self.node_time());
                self.servers[server].crash(&setup, now);
                self.trace_server(server, "restarts empty");
            }
            Action::Restart(server) => {
                self.budget_left.restarts -= 1;
                let (setup, now) = (self.setup.clone(), self.node_time());
                self.servers[server].restart(&setup, now);
                self.trace_server(server, "restarts with its data");
            }
            Action::PassTime => {
                self.budget_left.time_steps -= 1;
                self.pass_time();
            }
        }
        self.check_guarantees();
    }

    /// Installs the client's roster on the server at this position.
    pub(super) fn install_roster(&mut self, client: usize, position: usize) {
        let roster = self.clients[client].view.roster().cloned();
        let Some((server, roster)) = self.server_at(client, position).zip(roster) else { return };
        self.command(server, &RosterCommand::Install(roster));
        self.trace_client(client, || format!("installs its roster on n{}", server + 1));
    }

    /// Lets time pass.
    pub(super) fn pass_time(&mut self) {
        self.time_step += 1;
        let (node_time, now) = (self.node_time(), self.now());
        for server in &mut self.servers {
            if server.record.vote.as_ref().is_some_and(|vote| node_time.life_millis > vote.until) {
                server.record.remove_expired(node_time);
            }
        }
        for client in 0..self.clients.len() {
            if self.clients[client].attempt().is_some() {
                let steps = self.clients[client].pass_time(now);
                self.perform(client, steps);
            }
        }
        self.trace_time();
    }

    pub(super) fn command(&mut self, server: usize, command: &RosterCommand) -> RosterAnswer {
        let (setup, now) = (self.setup.clone(), self.node_time());
        self.servers[server].command(&setup, command, now)
    }

    /// The membership of each server in the client's list that the client can reach.
    pub(super) fn reports(&self, client: usize) -> Vec<Option<Membership>> {
        let count = self.setup.clients[client].list.len();
        (0..count).map(|position| self.servers[self.server_at(client, position)?].membership().cloned()).collect()
    }

    /// Checks that at most one lease is valid.
    fn check_guarantees(&mut self) {
        let now = self.now();
        if self.clients.iter().filter(|client| client.holds(now)).count() > 1 {
            // This violation replaces an earlier violation of the fence order.
            self.violation = Some(Violation::TwoHolders);
        }
    }

    /// A client's view of the roster.
    pub(super) fn view(&self, client: usize) -> &View {
        &self.clients[client].view
    }
}
