//! Nodes and clients as they ship, with the network and the time in the hands of a test.
//!
//! Every node is a record with the rules of `node::apply`, every client an `Acquire` machine. Between a client and a
//! node there is a link, ordered in both directions; hints travel apart from it. Nothing moves by itself: a test, or a
//! search, says what is delivered next, what gets lost, and when time passes.

mod client;
mod judge;
mod key;
mod node;

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::mode::Mode;
use quorlock_core::name::LeaseId;
use quorlock_core::node::{Incarnation, Record};
use quorlock_core::rules::Rules;
use quorlock_core::ticket::Parting;
use quorlock_core::time::Moment;

use client::{Client, Link, Message};

/// The ttl of every lease.
pub const TTL: Duration = Duration::from_secs(10);

/// What is wrong with this world.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each may be wrong by itself")]
pub struct Flaws {
    /// The clients do not keep all rules.
    pub rules: Rules,
    /// Nodes vote for anyone when they are free, whoever waits.
    pub headless: bool,
    /// Nodes hint the yielder of its own vote.
    pub self_waking: bool,
    /// Hints get lost, and votes that are handed on.
    pub deaf: bool,
    /// Nodes go on with the request of one who has yielded.
    pub unyielding: bool,
    /// Nodes keep places in the queue for ever.
    pub lasting: bool,
    /// Nobody looks at the clock: who waits does not ask again by itself, but when it is told to.
    pub timeless: bool,
    /// Nodes hand no votes on: whoever is told has to ask. Not a flaw of nodes that cannot.
    pub empty_handed: bool,
    /// Nodes count a semaphore's permits, and give the slot that is asked for although another holder has it.
    pub slotless: bool,
    /// This node does not answer.
    pub down: Option<usize>,
}

/// Something that can happen next: a client and, but for the last two, a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client's next request reaches the node.
    Request(usize, usize),
    /// The node's next answer reaches the client.
    Reply(usize, usize),
    /// The node's hint reaches the client.
    Hint(usize, usize),
    /// The client is called, as it asked to be.
    Tick(usize),
    /// The holder is done.
    Free(usize),
}

/// Nodes, clients, and what is under way between them.
#[derive(Clone, Debug)]
pub struct World {
    now: Moment,
    life: Incarnation,
    records: Vec<Record>,
    clients: Vec<Client>,
    flaws: Flaws,
    /// Whose an attempt is, and the how-manieth.
    attempts: BTreeMap<LeaseId, (usize, usize)>,
    fences: Vec<Fence>,
    /// How many requests each client has sent to one node or another, releases left out.
    pub asked: Vec<usize>,
}

impl World {
    /// Clients that want the lock in these ways. All have asked and drawn their tickets, in this order; nothing has arrived.
    ///
    /// # Panics
    /// If so many nodes cannot decide anything.
    pub fn new(nodes: usize, modes: &[Mode], waits: bool, flaws: Flaws, seed: Option<u64>) -> Self {
        let client = |(index, mode): (usize, &Mode)| Client::new(index, *mode, waits, nodes, flaws.rules, seed);
        let mut world = Self {
            now: Moment::from_nanos(0),
            life: node::life(nodes),
            records: vec![Record::default(); nodes],
            clients: modes.iter().enumerate().map(client).collect(),
            flaws,
            attempts: BTreeMap::new(),
            fences: Vec::new(),
            asked: vec![0; modes.len()],
        };
        for index in 0..modes.len() {
            // Nobody draws a ticket in the same microsecond as another.
            world.now = Moment::from_nanos(index as u64 * 1_000);
            world.act(Action::Tick(index));
        }
        world
    }

    /// Everything that can happen next without time passing.
    pub fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            for (node, link) in client.links.iter().enumerate() {
                let is_up = self.flaws.down != Some(node);
                actions.extend((is_up && !link.requests.is_empty()).then_some(Action::Request(index, node)));
                actions.extend((!link.replies.is_empty()).then_some(Action::Reply(index, node)));
                actions.extend((link.hints > 0).then_some(Action::Hint(index, node)));
            }
            actions.extend(self.wake(client).is_some_and(|at| at <= self.now).then_some(Action::Tick(index)));
            actions.extend(client.won.is_some().then_some(Action::Free(index)));
        }
        actions
    }

    /// A release that can reach its node now.
    pub fn release_under_way(&self) -> Option<Action> {
        self.enabled().into_iter().find(|action| match action {
            Action::Request(index, node) => {
                self.clients[*index].links[*node].requests.front().is_some_and(|(request, _)| !request.may_grant())
            }
            _ => false,
        })
    }

    /// Lets it happen, if it can.
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
                        Message::Handoff(handoff) => machine.take_handoff(node, handoff, now, micros, rng),
                    };
                    self.carry_out(index, steps);
                }
            }
            Action::Hint(index, node) => {
                let client = &mut self.clients[index];
                client.links[node].hints -= 1;
                let steps = client.machine.hint(node, now, micros);
                self.carry_out(index, steps);
            }
            Action::Tick(index) => {
                let client = &mut self.clients[index];
                let steps = client.machine.tick(now, micros, &mut client.rng);
                self.carry_out(index, steps);
            }
            Action::Free(index) => {
                if let Some(won) = self.clients[index].won.take() {
                    let nodes = (0..self.records.len()).collect();
                    self.release(index, won.attempt, nodes, won.waiter.map(Parting::Leave));
                }
            }
        }
    }

    /// When a client has to be called.
    fn wake(&self, client: &Client) -> Option<Moment> {
        client.machine.next_tick().filter(|_| !self.flaws.timeless && !client.is_dead)
    }

    /// Until when time passes once nothing is under way: until a client has to be called, but no longer than anyone may hold.
    fn next(&self) -> Option<Moment> {
        let ends = |client: &Client| [self.wake(client), client.won.as_ref().map(|won| won.valid_until)];
        self.clients.iter().flat_map(ends).flatten().min()
    }

    /// Whether nothing will ever happen any more.
    pub fn is_still(&self) -> bool {
        self.enabled().is_empty() && self.next().is_none()
    }

    /// Nothing is under way: time passes. Whether anything is left to wait for.
    pub fn pass_time(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.now = self.now.max(next);
        for index in 0..self.clients.len() {
            if self.clients[index].won.as_ref().is_some_and(|won| won.valid_until <= self.now) {
                self.act(Action::Free(index));
            }
        }
        true
    }

    /// Delivers all there is, first come, first served, until nothing is under way. Holders go on holding.
    pub fn settle(&mut self) {
        loop {
            let actions = self.enabled();
            let mut moved = false;
            for action in actions.into_iter().filter(|action| !matches!(action, Action::Free(_))) {
                moved = true;
                // An earlier action of this round may have used it up.
                if self.enabled().contains(&action) {
                    self.act(action);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// A request reaches its node, and the answer comes back at once, behind what the node has said before.
    pub fn exchange(&mut self, index: usize, node: usize) {
        self.act(Action::Request(index, node));
        while !self.clients[index].links[node].replies.is_empty() {
            self.act(Action::Reply(index, node));
        }
    }

    /// Releases that would change nothing arrive at once: they commute with all else that can happen.
    pub fn drop_idle_releases(&mut self) {
        for index in 0..self.clients.len() {
            for node in 0..self.records.len() {
                let is_up = self.flaws.down != Some(node);
                while is_up && self.is_idle_release(index, node) {
                    self.clients[index].links[node].requests.pop_front();
                }
            }
        }
    }

    /// All that the client has under way arrives.
    pub fn drain(&mut self, index: usize) {
        let down = self.flaws.down;
        for node in (0..self.records.len()).filter(|node| down != Some(*node)) {
            while !self.clients[index].links[node].requests.is_empty() {
                self.exchange(index, node);
            }
        }
    }

    /// The next request is lost, or the answer to it. A link keeps its releases until they are acknowledged.
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
            Action::Tick(_) | Action::Free(_) => false,
        }
    }

    /// The client is gone, with all that it had not sent yet.
    pub fn kill(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.links.iter_mut().for_each(|link| *link = Link::default());
        (client.won, client.is_dead) = (None, true);
    }

    /// A node forgets a place in the queue.
    pub fn forget_place(&mut self, node: usize, at: usize) {
        let line = &mut self.records[node].queue;
        if !line.is_empty() {
            line.remove(at % line.len());
        }
    }

    /// Who holds.
    pub fn holders(&self) -> Vec<usize> {
        (0..self.clients.len()).filter(|index| self.clients[*index].won.is_some()).collect()
    }

    /// Who is still alive and has never had it.
    pub fn unserved(&self) -> Vec<usize> {
        let is_unserved = |index: &usize| !self.clients[*index].is_served && !self.clients[*index].is_dead;
        (0..self.clients.len()).filter(is_unserved).collect()
    }

    /// Whose vote stands on each node.
    pub fn votes(&self) -> Vec<Option<usize>> {
        let voter = |record: &Record| record.vote.as_ref().and_then(|vote| self.attempts.get(&vote.attempt));
        self.records.iter().map(|record| voter(record).map(|(client, _)| *client)).collect()
    }

    /// Who waits on each node, lowest ticket first.
    pub fn queues(&self) -> Vec<Vec<usize>> {
        let line = |record: &Record| record.queue.iter().map(|place| place.waiter.channel.0 as usize).collect();
        self.records.iter().map(line).collect()
    }

    /// How many attempts the client has begun that has begun most of them.
    pub fn attempts_most(&self) -> usize {
        self.attempts.values().map(|(_, serial)| serial + 1).max().unwrap_or_default()
    }

    /// How many seconds have passed.
    pub fn seconds(&self) -> f64 {
        self.now.as_nanos() as f64 / 1e9
    }
}
