//! The shipped nodes and clients; the search controls the network, the clocks and the faults.
//!
//! Every node runs `node::apply` and `node::attend`, every client the state machines `Acquire` and `Hold`. Connections
//! between them are ordered in both directions and may break. Messages in flight may then arrive late or never. The
//! search chooses each next event, an [`Action`]. As long as it does not deliver a message, the message is late.
//!
//! In the functions of `World`, `index` is the index of a client, and `node` the index of one of its addresses.

mod client;
mod clock;
mod connections;
mod guarantees;
mod lease_break;
mod link;
mod next_actions;
mod retirement;
mod server;
mod shared;
mod steps;
mod trace;
mod vote_order;

use std::hash::BuildHasher as _;
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::OwnerId;
use quorlock_core::node::Epoch;
use quorlock_core::time::Moment;

use crate::setup::{Budget, Flaw, Setup};
use client::Client;
use clock::{client_time, true_time_after_node_millis, true_time_at_client};
pub use guarantees::Violation;
use lease_break::LeaseBreak;
use link::{Connection, Message};
use retirement::OwnerRetirement;
use server::{Memory, Server};
pub(crate) use shared::{FixedBuildHasher, Shared};
pub use trace::TraceLine;
use vote_order::VoteOrder;

/// A next event. Its fields are indexes: of a client and one of its addresses, of a client, or of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client starts to acquire the lock.
    Start(usize),
    /// The next request leaves the client's send queue.
    Send(usize, usize),
    /// The next request arrives, and its reply arrives at once.
    Exchange(usize, usize),
    /// The next request arrives; its reply is held back.
    Deliver(usize, usize),
    /// The next message from the server arrives.
    Receive(usize, usize),
    /// A request of a broken connection arrives.
    DeliverStray(usize, usize),
    /// A request of a broken connection is lost.
    LoseStray(usize, usize),
    /// The connection breaks.
    BreakConnection(usize, usize),
    /// The client notices that the server has restarted.
    NoticeRestart(usize, usize),
    /// The client connects and completes the handshake.
    Connect(usize, usize),
    /// The client tells a quarantined node how long the quarantine has lasted.
    Claim(usize, usize),
    /// The holder releases.
    Release(usize),
    /// The caller cancels.
    Cancel(usize),
    /// The receiver of the client's detached lease extends the lease.
    Extend(usize),
    /// The operator breaks the current lease.
    BreakLease(usize),
    /// The operator retires an owner.
    Retire(usize),
    /// The client that detached its lease asks the nodes that have not granted the lease yet.
    Repair(usize),
    /// The server restarts empty.
    Crash(usize),
    /// The server takes a snapshot.
    TakeSnapshot(usize),
    /// The server restarts with its snapshot.
    RestoreSnapshot(usize),
    /// The server is emptied while it runs.
    Flush(usize),
    /// The server loads an old copy of its data while it runs.
    RollBack(usize),
    /// The server's wall clock jumps.
    JumpClock(usize),
    /// Time passes until a timer or an expiry is due.
    PassTime,
}

/// The state of all servers, clients and messages at one moment.
#[derive(Clone, Debug)]
pub struct World {
    setup: Arc<Setup>,
    /// True time (the model's own time, see [`crate::setup`]), in microseconds.
    now: u64,
    servers: Vec<Shared<Server>>,
    clients: Vec<Shared<Client>>,
    budget_left: Budget,
    /// The highest fence so far of an exclusive or reentrant lease.
    highest_fence: Option<Fence>,
    /// The owner of the lease with `highest_fence`, if that lease is reentrant.
    highest_fence_owner: Option<OwnerId>,
    /// The highest fence so far of a reader's lease.
    highest_reader_fence: Option<Fence>,
    /// The highest fence so far of each slot.
    highest_slot_fences: Vec<(u32, Fence)>,
    /// The grants in order, if votes expire by the wall clock.
    vote_order: Option<VoteOrder>,
    /// The number of epochs so far.
    epochs: u64,
    lease_break: Option<LeaseBreak>,
    owner_retirement: Option<OwnerRetirement>,
    /// How many servers were used so far, in the order of their numbers. All other servers are interchangeable.
    used_servers: usize,
    violation: Option<Violation>,
    /// The events so far, if requested.
    trace: Option<Vec<TraceLine>>,
}

impl World {
    /// A state in which all clients are connected to voting nodes, and the first client has started to acquire.
    pub fn new(setup: &Arc<Setup>) -> Self {
        Self::begin(setup, None)
    }

    fn begin(setup: &Arc<Setup>, trace: Option<Vec<TraceLine>>) -> Self {
        let mut world = Self {
            setup: Arc::clone(setup),
            now: 0,
            servers: (0..setup.servers).map(|index| Shared::new(Server::new_voting(setup, index))).collect(),
            clients: (0..setup.clients.len()).map(|index| Shared::new(Client::new(setup, index))).collect(),
            budget_left: setup.budget,
            highest_fence: None,
            highest_fence_owner: None,
            highest_reader_fence: None,
            highest_slot_fences: Vec::new(),
            vote_order: setup.expires_by_wall_clock().then(|| VoteOrder::new(setup.servers)),
            epochs: 0,
            lease_break: None,
            owner_retirement: None,
            used_servers: if setup.are_servers_interchangeable { 0 } else { setup.servers },
            violation: None,
            trace: None,
        };
        for (index, spec) in setup.clients.iter().enumerate() {
            for &node in &spec.reachable {
                world.connect(index, node);
            }
        }
        // The trace begins when the first client starts.
        world.trace = trace;
        world.start(0);
        world
    }

    /// Like [`World::new`], and records the events.
    pub fn with_trace(setup: &Arc<Setup>) -> Self {
        Self::begin(setup, Some(Vec::new()))
    }

    /// The violation, if there is one.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// The events so far.
    pub fn into_trace(self) -> Vec<TraceLine> {
        self.trace.unwrap_or_default()
    }

    /// A hash of the state. Two states with the same hash have the same future.
    pub fn key(&self) -> u64 {
        let fences = (
            self.highest_fence,
            self.highest_fence_owner,
            self.highest_reader_fence,
            &self.highest_slot_fences,
            &self.vote_order,
        );
        let (lease_break, owner_retirement) = (&self.lease_break, &self.owner_retirement);
        let other_data =
            (self.budget_left, fences, self.epochs, lease_break, owner_retirement, self.used_servers, self.violation);
        FixedBuildHasher.hash_one((self.now, &self.servers, &self.clients, other_data))
    }

    /// Carries out an action.
    pub fn act(&mut self, action: Action) {
        if let Some(server) = self.server_of(action) {
            self.used_servers = self.used_servers.max(server + 1);
        }
        match action {
            Action::Start(index) => self.start(index),
            Action::Send(index, node) => {
                let now = self.client_now(index);
                self.clients[index].links[node].send(now);
            }
            Action::Exchange(index, node) => {
                self.deliver(index, node);
                self.receive(index, node);
            }
            Action::Deliver(index, node) => {
                self.budget_left.slow_replies -= 1;
                self.deliver(index, node);
            }
            Action::Receive(index, node) => {
                let server = trace::server_name(self.setup.clients[index].servers[node]);
                let is_break = matches!(self.clients[index].links[node].to_client.front(), Some(Message::LeaseBroken));
                let topic = if is_break { " about a break" } else { "" };
                self.trace_client(index, || format!("receives a message{topic} from {server}"));
                self.receive(index, node);
            }
            Action::DeliverStray(index, node) => self.deliver_stray(index, node),
            Action::LoseStray(index, node) => {
                self.budget_left.lost_requests -= 1;
                self.clients[index].links[node].strays.pop_front();
            }
            Action::BreakConnection(index, node) => {
                self.budget_left.connection_breaks -= 1;
                self.disconnect(index, node, true);
            }
            Action::NoticeRestart(index, node) => self.disconnect(index, node, false),
            Action::Connect(index, node) => self.connect(index, node),
            Action::Claim(index, node) => self.claim_elapsed_time(index, node),
            Action::Release(index) => {
                self.budget_left.releases -= 1;
                self.release(index);
            }
            Action::Cancel(index) => {
                self.budget_left.cancellations -= 1;
                self.cancel(index);
            }
            Action::Extend(index) => self.extend(index),
            Action::BreakLease(index) => self.break_lease(index),
            Action::Retire(index) => self.retire(index),
            Action::Repair(index) => self.repair(index),
            Action::Crash(server) => {
                self.budget_left.crashes -= 1;
                self.restart(server, Memory::default(), "restarts empty");
            }
            Action::TakeSnapshot(server) => {
                self.budget_left.snapshots -= 1;
                self.servers[server].snapshot = Some(Box::new(self.servers[server].memory.clone()));
                self.trace_server(server, || "takes a snapshot".into());
            }
            Action::RestoreSnapshot(server) => {
                self.budget_left.restored_snapshots -= 1;
                let memory = self.servers[server].snapshot.take().map(|memory| *memory).unwrap_or_default();
                self.restart(server, memory, "restarts with its snapshot");
            }
            Action::Flush(server) => {
                self.budget_left.flushes -= 1;
                self.servers[server].memory = Memory::default();
                self.trace_server(server, || "is emptied (FLUSHALL); its connections stay".into());
            }
            Action::RollBack(server) => {
                self.budget_left.rollbacks -= 1;
                self.roll_back(server);
            }
            Action::JumpClock(server) => {
                self.budget_left.clock_jumps -= 1;
                let by = self.setup.jump_micros;
                self.servers[server].jump(by);
                self.trace_server(server, || format!("has its wall clock set by {} ms", by / 1_000));
                self.run_due_timers();
            }
            Action::PassTime => self.pass_time(),
        }
        self.remove_stale_data();
        self.check_guarantees();
    }

    /// Removes data that no longer affects the future, so that states with the same future are equal.
    fn remove_stale_data(&mut self) {
        for index in 0..self.clients.len() {
            for node in 0..self.clients[index].links.len() {
                while self.is_release_without_effect(index, node) {
                    self.deliver(index, node);
                    self.receive(index, node);
                }
            }
            if self.clients[index].has_stale_data() {
                self.clients[index].remove_stale_data();
            }
        }
    }

    /// Whether the next request is a release that changes nothing: the server has no vote of the release's attempt, and
    /// no other request of this attempt can still arrive.
    fn is_release_without_effect(&self, index: usize, node: usize) -> bool {
        let link = &self.clients[index].links[node];
        let server = &self.servers[self.setup.clients[index].servers[node]];
        let is_live = link.connection.as_ref().is_some_and(|connection| !connection.is_dead);
        is_live
            && link.to_client.is_empty()
            && link
                .to_node
                .front()
                .is_some_and(|in_flight| !link.has_stray_of(in_flight) && server.is_release_without_effect(in_flight))
    }

    fn roll_back(&mut self, server: usize) {
        self.trace_server(server, || "loads an old copy of its data; its connections stay".into());
        let setup = Arc::clone(&self.setup);
        if !self.servers[server].roll_back(&setup) {
            return;
        }
        for (client, spec) in self.clients.iter_mut().zip(&setup.clients) {
            for (link, _) in client.links.iter_mut().zip(&spec.servers).filter(|(_, index)| **index == server) {
                if link.connection.as_ref().is_some_and(|connection| !connection.is_dead) {
                    link.to_client.push_back(Message::DataChanged);
                }
            }
        }
    }

    /// Restarts the server with this memory. `trace_text` describes the restart.
    fn restart(&mut self, server: usize, memory: Memory, trace_text: &str) {
        self.trace_server(server, || trace_text.into());
        let setup = Arc::clone(&self.setup);
        // A restart takes at least a millisecond.
        self.now += 1_000;
        self.servers[server].restart(&setup, self.now, memory);
        self.run_due_timers();
        if setup.has_flaw(Flaw::HandshakeSkipped) {
            return;
        }
        for (client, spec) in self.clients.iter_mut().zip(&setup.clients) {
            for (link, _) in client.links.iter_mut().zip(&spec.servers).filter(|(_, index)| **index == server) {
                // The restarted process has not read these requests.
                link.strays.clear();
                if let Some(connection) = &mut link.connection {
                    connection.is_dead = true;
                }
            }
        }
    }

    /// The next time, up to the horizon, at which a timer or an expiry is due or a time step ends, in microseconds.
    fn next_due_time(&self) -> Option<u64> {
        let setup = &self.setup;
        let mut due = vec![(self.now / 1_000 / setup.time_step_millis + 1) * setup.time_step_millis * 1_000];
        for server in &self.servers {
            due.extend(server.expiries(setup).map(|millis| true_time_after_node_millis(setup.clock_rate_ppm, millis)));
        }
        for (client, spec) in self.clients.iter().zip(&setup.clients) {
            let moments = client.next_tick().into_iter().chain(client.detached_end());
            due.extend(moments.map(|moment| true_time_at_client(spec.clock_rate_ppm, moment)));
            for (link, server) in client.links.iter().zip(&spec.servers) {
                let end = link.connection.as_ref().and_then(|connection| self.quarantine_end(connection, *server));
                due.extend(end.map(|moment| true_time_at_client(spec.clock_rate_ppm, moment)));
            }
        }
        due.into_iter().filter(|at| *at > self.now && *at <= setup.horizon_millis * 1_000).min()
    }

    /// When the client of this connection can tell the server that the quarantine is over, by the client's clock.
    fn quarantine_end(&self, connection: &Connection, server: usize) -> Option<Moment> {
        let life = self.servers[server].memory.life.as_ref()?;
        let is_pending = !connection.is_voting && !connection.is_dead;
        let report = connection.report.filter(|_| is_pending)?;
        let left = life.quarantine_micros.saturating_sub(report.elapsed_micros);
        Some(report.at + std::time::Duration::from_micros(left))
    }

    fn pass_time(&mut self) {
        if let Some(next) = self.next_due_time() {
            self.now = next;
        }
        self.run_due_timers();
    }

    /// Expires votes and fires timers that are due.
    fn run_due_timers(&mut self) {
        let setup = Arc::clone(&self.setup);
        for server in &mut self.servers {
            if server
                .expiries(&setup)
                .any(|millis| true_time_after_node_millis(setup.clock_rate_ppm, millis) <= self.now)
            {
                server.remove_expired(&setup, self.now);
            }
        }
        for index in 0..self.clients.len() {
            if self.clients[index].next_tick().is_some_and(|at| at <= self.client_now(index)) {
                self.tick(index);
            }
        }
    }

    /// The current reading of a client's clock.
    fn client_now(&self, index: usize) -> Moment {
        client_time(self.setup.clients[index].clock_rate_ppm, self.now)
    }

    fn fresh_epoch(&mut self) -> Epoch {
        self.epochs += 1;
        Epoch(u128::from(self.epochs))
    }
}
