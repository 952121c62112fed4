//! The shipped nodes and clients; the search controls the network, the clocks and the faults.
//!
//! Every node runs `node::apply` and `node::attend`, every client the state machines `Acquire` and `Hold`. Connections
//! between them are ordered in both directions and may break; messages in flight may then arrive late or never. Nothing
//! moves by itself: an [`Action`] is the next event. A message that is not delivered is late or lost.

mod breaking;
mod choices;
mod client;
mod clock;
mod drive;
mod judge;
mod link;
mod order;
mod retiring;
mod server;
mod shared;
mod tell;
mod wire;

use std::hash::BuildHasher as _;
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::mode::OwnerId;
use quorlock_core::node::Epoch;
use quorlock_core::time::Moment;

use crate::setup::{Budget, Flaw, Setup};
use breaking::Broken;
use client::Client;
use clock::{client_time, when_client, when_past};
pub use judge::Breach;
use link::{Connection, Message};
use order::Order;
use retiring::Retired;
use server::{Memory, Server};
pub(crate) use shared::{Mixed, Shared};
pub use tell::Line;

/// The next event: of a client, of a client's connection to one of its addresses, or of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client starts to acquire the lock.
    Start(usize),
    /// The next request leaves the client's queue.
    Send(usize, usize),
    /// The next request arrives, and the reply comes back at once.
    Exchange(usize, usize),
    /// The next request arrives; its reply is held back.
    Deliver(usize, usize),
    /// The next reply arrives.
    Hear(usize, usize),
    /// A request of a broken connection arrives.
    Stray(usize, usize),
    /// A request of a connection that has broken never arrives.
    Lose(usize, usize),
    /// The connection breaks.
    Break(usize, usize),
    /// The client notices that the server is gone.
    Notice(usize, usize),
    /// The client connects and completes the handshake.
    Connect(usize, usize),
    /// The client claims time for a quarantined node.
    Watch(usize, usize),
    /// The holder releases.
    Free(usize),
    /// The caller cancels.
    Cancel(usize),
    /// The receiver of a detached lease extends it.
    Extend(usize),
    /// The operator breaks the current lease.
    End(usize),
    /// The operator retires an owner.
    Retire(usize),
    /// The winner of a detached lease asks the nodes that have not granted it yet.
    Mend(usize),
    /// The server restarts empty.
    Crash(usize),
    /// The server takes a snapshot.
    Save(usize),
    /// The server restarts with its snapshot.
    Restore(usize),
    /// The server is emptied while it runs.
    Flush(usize),
    /// The server loads an old copy of its data while it runs.
    RollBack(usize),
    /// The server's wall clock jumps.
    Jump(usize),
    /// Time passes until something is due.
    Pass,
}

/// The state at one instant.
#[derive(Clone, Debug)]
pub struct World {
    setup: Arc<Setup>,
    /// Real time, in microseconds.
    now: u64,
    servers: Vec<Shared<Server>>,
    clients: Vec<Shared<Client>>,
    left: Budget,
    /// The highest fence so far.
    highest: Option<Fence>,
    /// The owner of that fence, for a reentrant lock.
    highest_owner: Option<OwnerId>,
    /// The highest fence of a lock that several hold together.
    highest_among: Option<Fence>,
    /// The highest fence of each slot.
    highest_in: Vec<(u32, Fence)>,
    /// Used if votes expire by the wall clock.
    order: Option<Order>,
    epochs: u64,
    broken: Option<Broken>,
    retired: Option<Retired>,
    /// The number of servers that were used so far; the others are interchangeable.
    touched: usize,
    breach: Option<Breach>,
    /// The events so far, if requested.
    story: Option<Vec<Line>>,
}

impl World {
    /// All clients are connected to nodes that vote, and the first client starts.
    pub fn new(setup: &Arc<Setup>) -> Self {
        Self::begin(setup, None)
    }

    fn begin(setup: &Arc<Setup>, story: Option<Vec<Line>>) -> Self {
        let mut world = Self {
            setup: Arc::clone(setup),
            now: 0,
            servers: (0..setup.servers).map(|index| Shared::new(Server::voting(setup, index))).collect(),
            clients: (0..setup.clients.len()).map(|index| Shared::new(Client::new(setup, index))).collect(),
            left: setup.budget,
            highest: None,
            highest_owner: None,
            highest_among: None,
            highest_in: Vec::new(),
            order: setup.expires_by_wall().then(|| Order::new(setup.servers)),
            epochs: 0,
            broken: None,
            retired: None,
            touched: if setup.alike { 0 } else { setup.servers },
            breach: None,
            story: None,
        };
        for (index, spec) in setup.clients.iter().enumerate() {
            for &node in &spec.reaches {
                world.connect(index, node);
            }
        }
        world.story = story;
        // Time counts from the first start.
        world.start(0);
        world
    }

    /// The same, with a recorded story.
    pub fn told(setup: &Arc<Setup>) -> Self {
        Self::begin(setup, Some(Vec::new()))
    }

    /// The violation, if there is one.
    pub fn breach(&self) -> Option<Breach> {
        self.breach
    }

    /// The events so far.
    pub fn into_story(self) -> Vec<Line> {
        self.story.unwrap_or_default()
    }

    /// A hash of the state. Two states with the same hash have the same future.
    pub fn key(&self) -> u64 {
        let fences = (self.highest, self.highest_owner, self.highest_among, &self.highest_in, &self.order);
        let rest = (self.left, fences, self.epochs, &self.broken, &self.retired, self.touched, self.breach);
        Mixed.hash_one((self.now, &self.servers, &self.clients, rest))
    }

    /// Carries out an action.
    pub fn act(&mut self, action: Action) {
        if let Some(server) = self.server_of(action) {
            self.touched = self.touched.max(server + 1);
        }
        match action {
            Action::Start(index) => self.start(index),
            Action::Send(index, node) => {
                let now = self.moment(index);
                self.clients[index].links[node].send(now);
            }
            Action::Exchange(index, node) => {
                self.deliver(index, node);
                self.hear(index, node);
            }
            Action::Deliver(index, node) => {
                self.left.slow -= 1;
                self.deliver(index, node);
            }
            Action::Hear(index, node) => {
                let server = tell::server_name(self.setup.clients[index].servers[node]);
                let is_break = matches!(self.clients[index].links[node].back.front(), Some(Message::Broken));
                let what = if is_break { " of a break" } else { "" };
                self.say_of_client(index, || format!("hears what {server} said{what}"));
                self.hear(index, node);
            }
            Action::Stray(index, node) => self.deliver_stray(index, node),
            Action::Lose(index, node) => {
                self.left.losses -= 1;
                self.clients[index].links[node].strays.pop_front();
            }
            Action::Break(index, node) => {
                self.left.breaks -= 1;
                self.cut(index, node, true);
            }
            Action::Notice(index, node) => self.cut(index, node, false),
            Action::Connect(index, node) => self.connect(index, node),
            Action::Watch(index, node) => self.watch(index, node),
            Action::Free(index) => {
                self.left.frees -= 1;
                self.free(index);
            }
            Action::Cancel(index) => {
                self.left.cancels -= 1;
                self.cancel(index);
            }
            Action::Extend(index) => self.extend(index),
            Action::End(index) => self.end(index),
            Action::Retire(index) => self.retire(index),
            Action::Mend(index) => self.mend(index),
            Action::Crash(server) => {
                self.left.crashes -= 1;
                self.restart(server, Memory::default(), "restarts empty");
            }
            Action::Save(server) => {
                self.left.saves -= 1;
                self.servers[server].snapshot = Some(Box::new(self.servers[server].memory.clone()));
                self.say_of_server(server, || "takes a snapshot".into());
            }
            Action::Restore(server) => {
                self.left.restores -= 1;
                let memory = self.servers[server].snapshot.take().map(|memory| *memory).unwrap_or_default();
                self.restart(server, memory, "restarts with its snapshot");
            }
            Action::Flush(server) => {
                self.left.flushes -= 1;
                self.servers[server].memory = Memory::default();
                self.say_of_server(server, || "is emptied (FLUSHALL); its connections stay".into());
            }
            Action::RollBack(server) => {
                self.left.rollbacks -= 1;
                self.roll_back(server);
            }
            Action::Jump(server) => {
                self.left.jumps -= 1;
                let by = self.setup.jump;
                self.servers[server].jump(by);
                self.say_of_server(server, || format!("has its wall clock set by {} ms", by / 1_000));
                self.catch_up();
            }
            Action::Pass => self.pass(),
        }
        self.tidy();
        self.judge();
    }

    /// Removes everything that makes no difference any more, so that states with the same future are equal.
    fn tidy(&mut self) {
        for index in 0..self.clients.len() {
            for node in 0..self.clients[index].links.len() {
                while self.is_idle_release(index, node) {
                    self.deliver(index, node);
                    self.hear(index, node);
                }
            }
            if self.clients[index].is_forgetful() {
                self.clients[index].forget();
            }
        }
    }

    /// Whether the next request is a release of a vote that does not exist and will not arrive.
    fn is_idle_release(&self, index: usize, node: usize) -> bool {
        let link = &self.clients[index].links[node];
        let server = &self.servers[self.setup.clients[index].servers[node]];
        let is_live = link.connection.as_ref().is_some_and(|connection| !connection.is_dead);
        is_live
            && link.back.is_empty()
            && link.out.front().is_some_and(|letter| !link.is_stray(letter) && server.is_idle(letter))
    }

    fn roll_back(&mut self, server: usize) {
        self.say_of_server(server, || "takes over an old copy of its data; its connections stay".into());
        let setup = Arc::clone(&self.setup);
        if !self.servers[server].roll_back(&setup) {
            return;
        }
        for (client, spec) in self.clients.iter_mut().zip(&setup.clients) {
            for (link, _) in client.links.iter_mut().zip(&spec.servers).filter(|(_, behind)| **behind == server) {
                if link.connection.as_ref().is_some_and(|connection| !connection.is_dead) {
                    link.back.push_back(Message::Changed);
                }
            }
        }
    }

    fn restart(&mut self, server: usize, memory: Memory, how: &str) {
        self.say_of_server(server, || how.into());
        let setup = Arc::clone(&self.setup);
        // A restart takes at least a millisecond.
        self.now += 1_000;
        self.servers[server].restart(&setup, self.now, memory);
        self.catch_up();
        if setup.lacks(Flaw::HandshakeUntied) {
            return;
        }
        for (client, spec) in self.clients.iter_mut().zip(&setup.clients) {
            for (link, _) in client.links.iter_mut().zip(&spec.servers).filter(|(_, behind)| **behind == server) {
                // Unread requests are lost with the process.
                link.strays.clear();
                if let Some(connection) = &mut link.connection {
                    connection.is_dead = true;
                }
            }
        }
    }

    /// The next moment at which something is due, within the horizon.
    fn next_moment(&self) -> Option<u64> {
        let setup = &self.setup;
        let mut due = vec![(self.now / 1_000 / setup.grid + 1) * setup.grid * 1_000];
        for server in &self.servers {
            due.extend(server.ends(setup).map(|millis| when_past(setup.ppm, millis)));
        }
        for (client, spec) in self.clients.iter().zip(&setup.clients) {
            let moments = client.next_tick().into_iter().chain(client.end());
            due.extend(moments.map(|moment| when_client(spec.ppm, moment)));
            for (link, behind) in client.links.iter().zip(&spec.servers) {
                let ends = link.connection.as_ref().and_then(|connection| self.quarantine_ends(connection, *behind));
                due.extend(ends.map(|moment| when_client(spec.ppm, moment)));
            }
        }
        due.into_iter().filter(|at| *at > self.now && *at <= setup.horizon * 1_000).min()
    }

    /// When this connection can claim that the quarantine is over.
    fn quarantine_ends(&self, connection: &Connection, server: usize) -> Option<Moment> {
        let life = self.servers[server].memory.life.as_ref()?;
        let is_pending = !connection.is_voting && !connection.is_dead;
        let seen = connection.seen.filter(|_| is_pending)?;
        let left = life.quarantine_micros.saturating_sub(seen.elapsed_micros);
        Some(seen.at + std::time::Duration::from_micros(left))
    }

    fn pass(&mut self) {
        if let Some(next) = self.next_moment() {
            self.now = next;
        }
        self.catch_up();
    }

    /// Carries out everything that is due.
    fn catch_up(&mut self) {
        let setup = Arc::clone(&self.setup);
        for server in &mut self.servers {
            if server.ends(&setup).any(|millis| when_past(setup.ppm, millis) <= self.now) {
                server.lapse(&setup, self.now);
            }
        }
        for index in 0..self.clients.len() {
            if self.clients[index].next_tick().is_some_and(|at| at <= self.moment(index)) {
                self.tick(index);
            }
        }
    }

    /// The reading of a client's clock.
    fn moment(&self, index: usize) -> Moment {
        client_time(self.setup.clients[index].ppm, self.now)
    }

    fn fresh_epoch(&mut self) -> Epoch {
        self.epochs += 1;
        Epoch(u128::from(self.epochs))
    }
}
