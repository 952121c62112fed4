//! The world of a run: virtual time, clocks, tasks, connections and nodes.

mod batch_order;
mod connections;
mod faults;
mod server;
mod tasks;
mod trace;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use quorlock::sim::{self, Ear, Question, Said, Task};
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::node::{Epoch, QueuedWaiter};
use quorlock_core::request::Waiter;
use quorlock_core::rng::{Rng, Seeded};

use crate::clock::Clock;
use crate::ledger::Ledger;
use crate::plan::{Fault, Network};
use crate::shape::Shape;
use connections::{Connection, NetworkPath, ToNode};
pub(crate) use server::Server;
use tasks::Tasks;
pub(crate) use trace::{Trace, client_name};

pub(crate) const MS: u64 = 1_000_000;
/// The reading of a node's clock at the start of a run, in nanoseconds since the Unix epoch.
pub(crate) const NODE_CLOCK_START: u64 = 1_000_000 * MS;
/// The reading of a client's clocks at the start of a run, in nanoseconds.
const CLIENT_CLOCK_START: u64 = 10_000 * MS;

/// The world of one run.
pub(crate) struct World {
    pub(crate) state: RefCell<State>,
    tasks: RefCell<Tasks>,
}

pub(crate) struct State {
    /// Virtual time, in nanoseconds. No node or client reads it; each has clocks of its own.
    pub(crate) now: u64,
    pub(crate) rng: Seeded,
    /// The client whose code is running.
    pub(crate) running_client: usize,
    pub(crate) clients: Vec<Client>,
    pub(crate) servers: Vec<Server>,
    /// For each client and node, the network path between them.
    paths: Vec<Vec<NetworkPath>>,
    connections: Vec<Connection>,
    pub(crate) network: Network,
    /// The future events, ordered by time and then by creation.
    events: BTreeMap<(u64, u64), Event>,
    /// The number of events and sleeps so far.
    serial: u64,
    /// For each sleep, the client, and the end of the sleep by the client's clock.
    sleeps: BTreeMap<u64, (usize, u64)>,
    pub(crate) ledger: Ledger,
    pub(crate) trace: Trace,
    pub(crate) shape: Shape,
    /// A hash of all events.
    pub(crate) fingerprint: u64,
    pub(crate) steps: u64,
}

pub(crate) struct Client {
    /// The boot-time clock.
    pub(crate) clock: Clock,
    /// A clock that runs like `clock`, but never jumps.
    raw: Clock,
    /// The wall clock of the client's machine, which runs even while the machine is paused.
    wall: Clock,
    /// How far the wall clock is ahead of `clock`, as pairs: a reading of `clock`, and the skew from this reading on.
    skews: Vec<(u64, i64)>,
    is_paused: bool,
    /// The rate of the client's clocks without faults, in parts per million.
    clock_rate_ppm: i64,
    pub(crate) is_alive: bool,
    /// The virtual time until which the client is stopped.
    frozen_until: u64,
    /// The wakers of sleeping tasks, by the end of the sleep on `clock` and the number of the sleep.
    sleepers: BTreeMap<(u64, u64), Waker>,
    /// Messages that arrived while the client was frozen.
    unread: VecDeque<(usize, Said)>,
    /// The channels on which the client listens for hints.
    channels: Vec<Channel>,
    /// The number of tasks of the client's users that have not ended.
    pub(crate) open_tasks: usize,
    /// The quarantine records of the client's host, for later connections.
    records: BTreeMap<u128, String>,
}

impl Client {
    /// The reading of the wall clock when `clock` shows `reading`.
    fn wall_at(&self, reading: u64) -> u64 {
        let (_, skew) = self.skews[self.skews.partition_point(|(since, _)| *since <= reading) - 1];
        reading.saturating_add_signed(skew)
    }

    /// Changes the rate of all clocks of the client.
    fn set_rates(&mut self, now: u64, clock_rate_ppm: i64) {
        for clock in [&mut self.clock, &mut self.raw, &mut self.wall] {
            clock.set_rate(now, clock_rate_ppm);
        }
        self.record_skew(now);
    }

    /// Records how far the wall clock is ahead of `clock`, if this has changed.
    fn record_skew(&mut self, now: u64) {
        let reading = self.clock.read(now);
        let skew = self.wall.read(now).wrapping_sub(reading) as i64;
        let last = self.skews.last().map_or(0, |(_, skew)| *skew);
        if skew != last {
            // While the clock stood still, it showed this reading with the earlier skew. So the new skew begins one
            // nanosecond later.
            self.skews.push((reading + u64::from(skew > last), skew));
        }
    }
}

pub(crate) enum Event {
    /// A message arrives at the node of this connection.
    ToNode(usize, ToNode),
    /// A message arrives at the client of this connection.
    ToClient(usize, Said),
    Fault(Fault),
    /// A stopped client or node, or a cut network path, may continue.
    Resume,
}

impl World {
    pub(crate) fn new(
        rng: Seeded,
        network: Network,
        servers: Vec<Server>,
        has_trace: bool,
        ledger: Ledger,
    ) -> Rc<Self> {
        let state = State {
            now: 0,
            rng,
            running_client: 0,
            clients: Vec::new(),
            servers,
            paths: Vec::new(),
            connections: Vec::new(),
            network,
            events: BTreeMap::new(),
            serial: 0,
            sleeps: BTreeMap::new(),
            ledger,
            trace: Trace::new(has_trace),
            shape: Shape::default(),
            fingerprint: 0,
            steps: 0,
        };
        Rc::new(Self { state: state.into(), tasks: RefCell::default() })
    }

    /// Runs until the virtual time `end`, until `stop` returns true, or until the run has made [`STEPS_MAX`] steps.
    /// Returns false if the run has reached `end`.
    pub(crate) fn run_until(&self, end: u64, stop: impl Fn(&State) -> bool) -> bool {
        loop {
            self.run_tasks();
            let event = {
                let mut state = self.state.borrow_mut();
                state.check_guarantees();
                if stop(&state) || state.steps > STEPS_MAX {
                    return true;
                }
                let Some(at) = state.next_time().filter(|at| *at <= end) else {
                    state.now = state.now.max(end);
                    return false;
                };
                state.now = state.now.max(at);
                // Leases expire before other events of the same time.
                state.check_guarantees();
                state.take_due()
            };
            match event {
                Some(Event::ToNode(connection, message)) => {
                    self.state.borrow_mut().receive_at_node(connection, message);
                }
                Some(Event::ToClient(connection, said)) => self.receive_at_client(connection, said),
                Some(Event::Fault(fault)) => self.inject(fault),
                Some(Event::Resume) => self.resume(),
                None => {}
            }
        }
    }

    /// Sets the client whose code runs next.
    pub(crate) fn run_as(&self, client: usize) {
        self.state.borrow_mut().running_client = client;
    }

    pub(crate) fn now(&self) -> u64 {
        self.state.borrow().now
    }
}

/// The number of steps after which a run stops. Only a client that sends requests without end makes so many.
pub(crate) const STEPS_MAX: u64 = 300_000;

impl State {
    /// Adds a client whose clocks run faster than virtual time by `clock_rate_ppm` parts per million.
    pub(crate) fn add_client(&mut self, clock_rate_ppm: i64) -> usize {
        let mut clock = Clock::new(CLIENT_CLOCK_START, 0);
        clock.set_rate(0, clock_rate_ppm);
        self.clients.push(Client {
            raw: clock.clone(),
            wall: clock.clone(),
            skews: vec![(0, 0)],
            is_paused: false,
            clock,
            clock_rate_ppm,
            is_alive: true,
            frozen_until: 0,
            sleepers: BTreeMap::new(),
            unread: VecDeque::new(),
            channels: Vec::new(),
            open_tasks: 0,
            records: BTreeMap::new(),
        });
        self.paths.push(vec![NetworkPath::default(); self.servers.len()]);
        self.clients.len() - 1
    }

    /// Schedules a fault.
    pub(crate) fn schedule_fault(&mut self, at: u64, fault: Fault) {
        self.schedule(at, Event::Fault(fault));
    }

    /// Whether all tasks of users have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.clients.iter().all(|client| !client.is_alive || client.open_tasks == 0)
    }

    /// Whether a majority of the nodes has forgotten the cluster, so that only an operator can initialize it again.
    pub(crate) fn needs_an_operator(&self) -> bool {
        let names: Vec<&str> = self.servers.iter().filter_map(Server::cluster).collect();
        let count_of = |name: &&str| names.iter().filter(|other| *other == name).count();
        !names.is_empty() && names.iter().all(|name| count_of(name) * 2 <= self.servers.len())
    }

    /// Whether no message is in flight and no other event is scheduled.
    pub(crate) fn is_quiet(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn schedule(&mut self, at: u64, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    /// The reading of a client's clock.
    pub(crate) fn moment(&self, client: usize) -> u64 {
        self.clients[client].clock.read(self.now)
    }

    /// The reading of a client's wall clock.
    pub(crate) fn wall(&self, client: usize) -> u64 {
        self.clients[client].wall.read(self.now)
    }

    fn next_time(&self) -> Option<u64> {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let awake = self.clients.iter().filter(|client| client.is_alive && client.frozen_until <= self.now);
        let sleeper = awake.filter_map(|client| {
            let ((wakes_at, _), _) = client.sleepers.first_key_value()?;
            client.clock.time_of(*wakes_at)
        });
        event.into_iter().chain(sleeper).min()
    }

    /// Wakes the sleepers that are due. Removes and returns the first event, if it is due.
    fn take_due(&mut self) -> Option<Event> {
        self.steps += 1;
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if !client.is_alive || client.frozen_until > self.now {
                continue;
            }
            let reading = client.clock.read(self.now);
            while let Some(entry) = client.sleepers.first_entry().filter(|entry| entry.key().0 <= reading) {
                let ((_, sleep), waker) = entry.remove_entry();
                self.sleeps.remove(&sleep);
                waker.wake();
                self.fingerprint = mix_hash(self.fingerprint, self.now ^ index as u64);
            }
        }
        let due = self.events.first_entry().filter(|entry| entry.key().0 <= self.now)?;
        let ((at, serial), event) = due.remove_entry();
        self.fingerprint = mix_hash(mix_hash(self.fingerprint, at), serial);
        Some(event)
    }

    fn check_guarantees(&mut self) {
        let Self { ledger, clients, now, trace, .. } = self;
        ledger.check_guarantees(
            *now,
            |client| (clients[client].clock.read(*now), clients[client].wall.read(*now)),
            trace,
        );
    }

    /// Describes the votes and queue positions on the nodes that closed clients should have removed.
    ///
    /// A client whose clock has jumped ahead forgets a release when the vote has expired by that clock. So what expires on
    /// the node within the length of the jumps does not count.
    pub(crate) fn leftovers(&mut self) -> Vec<String> {
        let jumps = self.clients.iter().map(|client| client.clock.read(self.now) - client.raw.read(self.now)).max();
        let now = self.now + jumps.unwrap_or_default();
        let mut leftovers = Vec::new();
        let channels: Vec<Channel> =
            self.clients.iter().filter(|client| client.is_alive).flat_map(|client| client.channels.clone()).collect();
        for index in 0..self.servers.len() {
            let (votes, queued) = self.servers[index].leftovers(now);
            for (key, attempt) in votes {
                leftovers.extend(
                    self.ledger.must_have_been_released(attempt).then(|| format!("a vote for {key} on n{}", index + 1)),
                );
            }
            for (key, QueuedWaiter { waiter: Waiter { channel, ticket, .. }, request, .. }) in queued {
                let attempt = request.map(|(_, request)| request.attempt());
                let must_have_been_released = channels.contains(&channel) && !self.ledger.is_excused(ticket, attempt);
                leftovers
                    .extend(must_have_been_released.then(|| format!("a queue position for {key} on n{}", index + 1)));
            }
        }
        leftovers
    }
}

pub(crate) fn mix_hash(fingerprint: u64, with: u64) -> u64 {
    (fingerprint ^ with).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

impl sim::World for World {
    fn now(&self) -> u64 {
        let state = self.state.borrow();
        state.moment(state.running_client)
    }

    fn raw(&self) -> u64 {
        let state = self.state.borrow();
        state.clients[state.running_client].raw.read(state.now)
    }

    fn wall(&self) -> u64 {
        let state = self.state.borrow();
        state.wall(state.running_client)
    }

    fn wall_at(&self, nanos: u64) -> u64 {
        let state = self.state.borrow();
        state.clients[state.running_client].wall_at(nanos)
    }

    fn bits(&self) -> u64 {
        self.state.borrow_mut().rng.bits()
    }

    fn spawn(&self, task: Task) {
        let client = self.state.borrow().running_client;
        self.tasks.borrow_mut().add(client, task);
    }

    fn wake_at(&self, nanos: u64, waker: Waker) -> u64 {
        let mut state = self.state.borrow_mut();
        state.serial += 1;
        let (sleep, client) = (state.serial, state.running_client);
        state.sleeps.insert(sleep, (client, nanos));
        state.clients[client].sleepers.insert((nanos, sleep), waker);
        sleep
    }

    fn forget(&self, sleep: u64) {
        let mut state = self.state.borrow_mut();
        if let Some((client, nanos)) = state.sleeps.remove(&sleep) {
            let waker = state.clients[client].sleepers.remove(&(nanos, sleep));
            drop(state);
            // The waker may hold the last reference to its task.
            drop(waker);
        }
    }

    fn connect(&self, node: usize, ear: Ear) -> u64 {
        let mut state = self.state.borrow_mut();
        let (client, channel) = (state.running_client, ear.channel());
        if !state.clients[client].channels.contains(&channel) {
            state.clients[client].channels.push(channel);
        }
        state.open_connection(node, ear) as u64
    }

    fn ask(&self, connection: u64, question: Question) {
        let mut state = self.state.borrow_mut();
        let connection = connection as usize;
        state.record_attempts(connection, &question);
        let now = state.now;
        state.send_to_node(connection, ToNode::Ask(question, now));
    }

    fn hang_up(&self, connection: u64) {
        self.state.borrow_mut().hang_up(connection as usize);
    }

    fn recorded(&self, epoch: Epoch) -> Option<String> {
        let state = self.state.borrow();
        state.clients[state.running_client].records.get(&epoch.0).cloned()
    }

    fn record(&self, epoch: Epoch, text: String) {
        let mut state = self.state.borrow_mut();
        let client = state.running_client;
        state.clients[client].records.insert(epoch.0, text);
    }
}

impl State {
    /// Records the client of each attempt.
    fn record_attempts(&mut self, connection: usize, question: &Question) {
        let Question::Batch(_, messages) = question else { return };
        let client = self.connections[connection].client;
        for (_, request) in messages {
            let attempt = request.attempt();
            if request.may_grant() && attempt != LeaseId::from_bits(0) {
                self.ledger.record_attempt(client, attempt);
            }
        }
    }
}
