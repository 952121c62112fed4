//! The shipped nodes and clients, on a network and a clock that a test or a search controls. Unlike `crate::world`, this
//! world has no connections, renewals or restarts, so a search of the queue has fewer states.
//!
//! Every node is a record with the rules of `node::apply`, every client an `Acquire` state machine. A link between a
//! client and a node keeps requests in order, and replies and handoffs too. Hints arrive at any time. A test or a search
//! decides which message is delivered next, which message is lost, and when time passes.
//!
//! In the functions of `World`, `index` is the index of a client, and `node` the index of a node.

mod client;
mod guarantees;
mod node;
mod state_key;

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::name::LeaseId;
use quorlock_core::node::{Incarnation, Record};
use quorlock_core::quorum::Elector;
use quorlock_core::request::Parting;
use quorlock_core::rules::Rules;
use quorlock_core::terms::Mode;
use quorlock_core::time::Moment;

use client::{Client, Link, Message};

/// The ttl of every lease.
pub const TTL: Duration = Duration::from_secs(10);

/// The deliberate flaws of nodes and clients.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each flaw can occur alone")]
pub struct Flaws {
    /// The rules that the clients follow.
    pub rules: Rules,
    /// A free node votes for any client, even if another client is first in the queue.
    pub ignores_queue: bool,
    /// A node also notifies the client that yielded the vote.
    pub notifies_yielder: bool,
    /// Hints and handoffs are lost.
    pub loses_hints: bool,
    /// A node keeps the stored request of a waiter that has yielded, so it may hand its vote to this waiter.
    pub keeps_yielded_requests: bool,
    /// A node never expires queue positions.
    pub never_expires_positions: bool,
    /// Clients have no timers: a waiter asks again only after a hint.
    pub has_no_timers: bool,
    /// Nodes send only hints and no handoffs, as some backends do. This is not a flaw.
    pub sends_no_handoffs: bool,
    /// A node only counts the holders of a semaphore, and grants the requested slot even if the slot has a holder.
    pub counts_permits: bool,
    /// The node that does not reply.
    pub unreachable_node: Option<usize>,
}

/// The next event. The first field is a client. The second field, if there is one, is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client's next request reaches the node.
    Request(usize, usize),
    /// The node's next reply reaches the client.
    Reply(usize, usize),
    /// The node's hint reaches the client.
    Hint(usize, usize),
    /// A timer of the client fires.
    Tick(usize),
    /// The holder releases.
    Release(usize),
}

/// Nodes, clients, and messages in flight.
#[derive(Clone, Debug)]
pub struct World {
    now: Moment,
    incarnation: Incarnation,
    records: Vec<Record>,
    clients: Vec<Client>,
    flaws: Flaws,
    /// For each attempt, its client, and how many attempts the client made before it.
    attempts: BTreeMap<LeaseId, (usize, usize)>,
    /// The fences of all wins.
    fences: Vec<Fence>,
    /// The number of requests that each client has sent, without releases.
    pub requests_sent: Vec<usize>,
}

impl World {
    /// One client for each mode. All clients have sent their requests and drawn their tickets, in the order of `modes`.
    /// No request has arrived. Without a seed, every random delay is the shortest.
    ///
    /// # Panics
    /// If the number of nodes is invalid.
    pub fn new(nodes: usize, modes: &[Mode], clients_wait: bool, flaws: Flaws, seed: Option<u64>) -> Self {
        let client = |(index, mode): (usize, &Mode)| Client::new(index, *mode, clients_wait, nodes, flaws.rules, seed);
        let mut world = Self {
            now: Moment::from_nanos(0),
            incarnation: node::voting_incarnation(nodes),
            records: vec![Record::default(); nodes],
            clients: modes.iter().enumerate().map(client).collect(),
            flaws,
            attempts: BTreeMap::new(),
            fences: Vec::new(),
            requests_sent: vec![0; modes.len()],
        };
        for index in 0..modes.len() {
            // Each client draws its ticket in a later microsecond, so the tickets are in this order.
            world.now = Moment::from_nanos(index as u64 * 1_000);
            world.act(Action::Tick(index));
        }
        world
    }

    /// Every event that is possible now, without time passing.
    pub fn next_actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            for (node, link) in client.links.iter().enumerate() {
                let is_up = self.flaws.unreachable_node != Some(node);
                actions.extend((is_up && !link.requests.is_empty()).then_some(Action::Request(index, node)));
                actions.extend((!link.replies.is_empty()).then_some(Action::Reply(index, node)));
                actions.extend((link.hints > 0).then_some(Action::Hint(index, node)));
            }
            actions.extend(self.next_timer(client).is_some_and(|at| at <= self.now).then_some(Action::Tick(index)));
            actions.extend(client.hold.is_some().then_some(Action::Release(index)));
        }
        actions
    }

    /// A release that can reach its node now.
    pub fn release_under_way(&self) -> Option<Action> {
        self.next_actions().into_iter().find(|action| match action {
            Action::Request(index, node) => {
                self.clients[*index].links[*node].requests.front().is_some_and(|(request, _)| !request.may_grant())
            }
            _ => false,
        })
    }

    /// Carries out an event, if it is possible.
    pub fn act(&mut self, action: Action) {
        let (now, micros) = (self.now, i64::try_from(self.node_time().wall_micros).ok());
        match action {
            Action::Request(index, node) => self.deliver(index, node),
            Action::Reply(index, node) => {
                let client = &mut self.clients[index];
                if let Some(message) = client.links[node].replies.pop_front() {
                    let (machine, rng) = (&mut client.machine, &mut client.rng);
                    let steps = match message {
                        Message::Vote(attempt, outcome) => machine.take(attempt, node, outcome, now, rng),
                        Message::Handoff(handoff) => {
                            machine.take_handoff(node, Elector::at(node), handoff, now, micros, rng)
                        }
                    };
                    self.perform(index, steps);
                }
            }
            Action::Hint(index, node) => {
                let client = &mut self.clients[index];
                client.links[node].hints -= 1;
                let steps = client.machine.hint(node, now, micros);
                self.perform(index, steps);
            }
            Action::Tick(index) => {
                let client = &mut self.clients[index];
                let steps = client.machine.tick(now, micros, &mut client.rng);
                self.perform(index, steps);
            }
            Action::Release(index) => {
                if let Some(hold) = self.clients[index].hold.take() {
                    let nodes = (0..self.records.len()).collect();
                    let parting = self.clients[index].machine.waiter().map(Parting::Leave);
                    self.release(index, hold.attempt(), nodes, parting);
                }
            }
        }
    }

    /// When the next timer of a client fires.
    fn next_timer(&self, client: &Client) -> Option<Moment> {
        client.machine.next_tick().filter(|_| !self.flaws.has_no_timers && !client.is_dead)
    }

    /// When the next timer fires or the next lease ends.
    fn next_timer_or_lease_end(&self) -> Option<Moment> {
        let ends = |client: &Client| [self.next_timer(client), client.hold.as_ref().map(Hold::valid_until)];
        self.clients.iter().flat_map(ends).flatten().min()
    }

    /// Whether no event is possible any more, even if time passes.
    pub fn is_over(&self) -> bool {
        self.next_actions().is_empty() && self.next_timer_or_lease_end().is_none()
    }

    /// Lets time pass until the next timer fires or the next lease ends. Returns false if neither will happen.
    pub fn pass_time(&mut self) -> bool {
        let Some(end) = self.next_timer_or_lease_end() else { return false };
        self.now = self.now.max(end);
        for index in 0..self.clients.len() {
            if self.clients[index].hold.as_ref().is_some_and(|hold| hold.valid_until() <= self.now) {
                self.act(Action::Release(index));
            }
        }
        true
    }

    /// Delivers all messages in order until nothing is in flight. Holders keep the lock.
    pub fn deliver_all(&mut self) {
        loop {
            let actions = self.next_actions();
            let mut has_acted = false;
            for action in actions.into_iter().filter(|action| !matches!(action, Action::Release(_))) {
                has_acted = true;
                // An earlier action of this loop may have made this action impossible.
                if self.next_actions().contains(&action) {
                    self.act(action);
                }
            }
            if !has_acted {
                return;
            }
        }
    }

    /// Delivers a request, and then all replies of the node.
    pub fn exchange(&mut self, index: usize, node: usize) {
        self.act(Action::Request(index, node));
        while !self.clients[index].links[node].replies.is_empty() {
            self.act(Action::Reply(index, node));
        }
    }

    /// Removes releases that change nothing, so that the search does not try them in every order.
    pub fn drop_releases_without_effect(&mut self) {
        for index in 0..self.clients.len() {
            for node in 0..self.records.len() {
                let is_up = self.flaws.unreachable_node != Some(node);
                while is_up && self.is_release_without_effect(index, node) {
                    self.clients[index].links[node].requests.pop_front();
                }
            }
        }
    }

    /// Delivers all requests that the client has in flight, and their replies.
    pub fn deliver_requests_of(&mut self, index: usize) {
        let unreachable_node = self.flaws.unreachable_node;
        for node in (0..self.records.len()).filter(|node| unreachable_node != Some(*node)) {
            while !self.clients[index].links[node].requests.is_empty() {
                self.exchange(index, node);
            }
        }
    }

    /// Loses the message that this action would deliver. Returns whether the message could be lost. A release cannot be
    /// lost, because a link repeats it until the node acknowledges it.
    pub fn lose(&mut self, action: Action) -> bool {
        match action {
            Action::Request(index, node) => {
                let requests = &mut self.clients[index].links[node].requests;
                let is_lost = requests.front().is_some_and(|(request, _)| request.may_grant());
                if is_lost {
                    requests.pop_front();
                }
                is_lost
            }
            Action::Reply(index, node) => self.clients[index].links[node].replies.pop_front().is_some(),
            Action::Hint(index, node) => {
                self.clients[index].links[node].hints -= 1;
                true
            }
            Action::Tick(_) | Action::Release(_) => false,
        }
    }

    /// Kills the client. All its messages in flight are lost.
    pub fn kill(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.links.iter_mut().for_each(|link| *link = Link::default());
        (client.hold, client.is_dead) = (None, true);
    }

    /// Makes a node forget a queue position. `position` may be larger than the queue: it is taken modulo its length.
    pub fn forget_position(&mut self, node: usize, position: usize) {
        let queue = &mut self.records[node].queue;
        if !queue.is_empty() {
            queue.remove(position % queue.len());
        }
    }

    /// The clients that hold the lock.
    pub fn holders(&self) -> Vec<usize> {
        (0..self.clients.len()).filter(|index| self.clients[*index].hold.is_some()).collect()
    }

    /// The living clients that have never held the lock.
    pub fn unserved(&self) -> Vec<usize> {
        let is_unserved = |index: &usize| !self.clients[*index].is_served && !self.clients[*index].is_dead;
        (0..self.clients.len()).filter(is_unserved).collect()
    }

    /// For each node, the client that has its vote.
    pub fn votes(&self) -> Vec<Option<usize>> {
        let voted_for = |record: &Record| record.vote.as_ref().and_then(|vote| self.attempts.get(&vote.attempt));
        self.records.iter().map(|record| voted_for(record).map(|(client, _)| *client)).collect()
    }

    /// The waiters of each node, lowest ticket first.
    pub fn queues(&self) -> Vec<Vec<usize>> {
        let queue = |record: &Record| record.queue.iter().map(|queued| queued.waiter.channel.0 as usize).collect();
        self.records.iter().map(queue).collect()
    }

    /// The number of attempts of the client that has made the most attempts.
    pub fn max_attempts(&self) -> usize {
        self.attempts.values().map(|(_, serial)| serial + 1).max().unwrap_or_default()
    }

    /// The time since the start, in seconds.
    pub fn elapsed_secs(&self) -> f64 {
        self.now.as_nanos() as f64 / 1e9
    }
}
