//! Connections between clients and nodes: messages in each direction stay in order, and may be slow, held back or lost.

use std::collections::VecDeque;
use std::rc::Rc;

use quorlock::sim::{Ear, Question, Said};

use super::server::Notice;
use super::{Event, State, World};

/// A message to a node.
#[derive(Debug)]
pub(crate) enum Up {
    Open,
    /// A request and its send time.
    Ask(Question, u64),
    Close,
}

pub(crate) struct Connection {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) ear: Rc<Ear>,
    /// Whether the client still reads from the connection.
    pub(super) is_read: bool,
    /// Whether the node has accepted the connection.
    pub(super) is_open: bool,
    /// Whether messages to the node are lost.
    up_lost: bool,
    /// The earliest arrival of the next message to the node, because messages stay in order.
    next_up_at: u64,
    /// The earliest arrival of the next message to the client.
    next_down_at: u64,
    /// Messages that wait for a cut to end.
    stalled_up: VecDeque<Up>,
    stalled_down: VecDeque<Said>,
}

/// The network path between a client and a node, with the time until which each direction is cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetworkPath {
    pub(super) up_until: u64,
    pub(super) down_until: u64,
}

impl State {
    pub(super) fn begin(&mut self, node: usize, ear: Ear) -> usize {
        let connection = self.connections.len();
        let client = self.running;
        self.connections.push(Connection {
            client,
            node,
            ear: Rc::new(ear),
            is_read: true,
            is_open: false,
            up_lost: false,
            next_up_at: 0,
            next_down_at: 0,
            stalled_up: VecDeque::new(),
            stalled_down: VecDeque::new(),
        });
        self.send_up(connection, Up::Open);
        connection
    }

    pub(super) fn send_up(&mut self, connection: usize, up: Up) {
        let Connection { client, node, up_lost, .. } = self.connections[connection];
        if !self.clients[client].is_alive || up_lost {
            return;
        }
        if matches!(up, Up::Ask(Question::Batch(..), _)) && self.draw_break(connection) {
            return;
        }
        if self.paths[client][node].up_until > self.now {
            return self.connections[connection].stalled_up.push_back(up);
        }
        let at = (self.now + self.delay(node)).max(self.connections[connection].next_up_at);
        self.connections[connection].next_up_at = at;
        self.schedule(at, Event::Up(connection, up));
    }

    pub(super) fn send_down(&mut self, connection: usize, said: Said) {
        let Connection { client, node, is_read, .. } = self.connections[connection];
        if !is_read || !self.clients[client].is_alive || matches!(said, Said::Votes(..)) && self.draw_break(connection)
        {
            return;
        }
        if self.paths[client][node].down_until > self.now {
            return self.connections[connection].stalled_down.push_back(said);
        }
        let at = (self.now + self.delay(node)).max(self.connections[connection].next_down_at);
        self.connections[connection].next_down_at = at;
        self.schedule(at, Event::Down(connection, said));
    }

    /// Decides whether the connection breaks with this message, and breaks it.
    fn draw_break(&mut self, connection: usize) -> bool {
        let breaks = self.rng.below(1_000) < self.network.breaks_permille;
        if breaks {
            let has_error = self.rng.percent(90);
            self.break_off(connection, has_error);
        }
        breaks
    }

    /// Draws the delay of a message, which is usually short.
    fn delay(&mut self, node: usize) -> u64 {
        let pace = self.network.delays[node];
        let usual = pace / 2 + self.rng.below(pace);
        let is_slow = self.rng.percent(self.network.slow_percent);
        if is_slow { usual + self.rng.below(self.network.slow_max) } else { usual }
    }

    /// Sends the messages that waited for a cut that has ended.
    pub(super) fn reopen(&mut self, client: usize, node: usize) {
        let path = self.paths[client][node];
        for connection in 0..self.connections.len() {
            let of = &mut self.connections[connection];
            if of.client != client || of.node != node {
                continue;
            }
            let ups = if path.up_until <= self.now { std::mem::take(&mut of.stalled_up) } else { VecDeque::new() };
            let downs =
                if path.down_until <= self.now { std::mem::take(&mut of.stalled_down) } else { VecDeque::new() };
            for up in ups {
                self.send_up(connection, up);
            }
            for said in downs {
                self.send_down(connection, said);
            }
        }
    }

    /// Closes the connection at the client. Messages in flight are lost, or arrive, perhaps late.
    pub(super) fn hang_up(&mut self, connection: usize) {
        let is_late = self.rng.percent(self.network.stray_percent);
        let until = self.now + self.rng.below(self.network.stray_max.max(1));
        let is_lost = self.rng.percent(10);
        let of = &mut self.connections[connection];
        of.is_read = false;
        of.up_lost |= is_lost;
        if is_late {
            of.next_up_at = of.next_up_at.max(until);
            self.put_off(connection, until);
        }
        self.send_up(connection, Up::Close);
    }

    /// Delays all messages in flight on this connection until this time, in order.
    fn put_off(&mut self, connection: usize, until: u64) {
        let is_early = |(at, event): &(&(u64, u64), &Event)| {
            at.0 < until && matches!(event, Event::Up(of, _) if *of == connection)
        };
        let early: Vec<(u64, u64)> = self.events.iter().filter(is_early).map(|(at, _)| *at).collect();
        for at in early {
            if let Some(event) = self.events.remove(&at) {
                self.events.insert((until, at.1), event);
            }
        }
    }

    /// Breaks the connection in the network or at the node. If `has_error` is false, the client gets no error and times
    /// out.
    pub(super) fn break_off(&mut self, connection: usize, has_error: bool) {
        let of = &mut self.connections[connection];
        if !of.is_read {
            return;
        }
        of.is_open = false;
        of.up_lost = true;
        of.stalled_up.clear();
        of.stalled_down.clear();
        let is_down = |event: &Event| matches!(event, Event::Down(of, _) if *of == connection);
        let downs: Vec<(u64, u64)> =
            self.events.iter().filter(|(_, event)| is_down(event)).map(|(at, _)| *at).collect();
        for at in downs {
            self.events.remove(&at);
        }
        if has_error {
            self.send_down(connection, Said::End("connection reset".into()));
        }
    }

    /// Handles a message at a node.
    pub(super) fn arrive(&mut self, connection: usize, up: Up) {
        let Connection { node, up_lost, is_open, is_read, .. } = self.connections[connection];
        let server = &mut self.servers[node];
        if up_lost {
            return;
        }
        if server.down_until > self.now {
            self.refuse(connection);
            return;
        }
        if server.frozen_until > self.now {
            return server.backlog.push_back((connection, up));
        }
        match up {
            Up::Open if is_read => {
                let (identity, channel) = (server.identity(), self.connections[connection].ear.channel());
                server.listeners.insert(channel, connection);
                self.connections[connection].is_open = true;
                self.send_down(connection, Said::Open(identity));
            }
            // The client has closed the connection.
            Up::Open => self.connections[connection].is_open = true,
            Up::Ask(..) | Up::Close if !is_open => self.refuse(connection),
            Up::Close => {
                self.connections[connection].is_open = false;
                server.listeners.retain(|_, heard| *heard != connection);
            }
            Up::Ask(question, sent) => {
                if let (false, Question::Batch(_, messages)) = (is_read, &question) {
                    // Plain locks leave no tombstones. Tombstones of other locks expire, or are lost with the node's
                    // memory.
                    let is_old =
                        self.now.saturating_sub(sent) > self.network.tombstone_age || sent < server.memory_lost_at;
                    let late = messages.iter().filter(|(_, request)| is_old || request.is_plain());
                    late.for_each(|(_, request)| self.ledger.excuse(request));
                }
                let (said, notices) = server.serve(&question, self.now);
                self.shape.note(&question, &said, !is_read);
                self.tell_answer(connection, &question, &said);
                self.send_down(connection, said);
                for notice in notices {
                    self.send_notice(node, notice);
                }
            }
        }
    }

    fn refuse(&mut self, connection: usize) {
        self.connections[connection].up_lost = true;
        if self.rng.percent(70) {
            self.send_down(connection, Said::End("connection refused".into()));
        }
    }

    /// Sends a message to clients other than the sender of a request.
    fn send_notice(&mut self, node: usize, notice: Notice) {
        match notice {
            // A hint may be lost, because nothing relies on it.
            Notice::Hint(.., None) if self.rng.percent(self.network.hints_lost_percent) => {}
            Notice::Hint(channel, ticket, handoff) => {
                if let Some(listener) = self.servers[node].listeners.get(&channel).copied() {
                    self.shape.handoffs += u32::from(handoff.is_some());
                    self.tell_handoff(listener, handoff);
                    self.send_down(listener, Said::Hint(ticket, handoff));
                }
            }
            Notice::Broken(key) => {
                let all: Vec<usize> = self.servers[node].listeners.values().copied().collect();
                for listener in all {
                    self.send_down(listener, Said::Broken(key.clone()));
                }
            }
        }
    }
}

impl World {
    /// Handles a message at a client.
    pub(super) fn hear(&self, connection: usize, said: Said) {
        let ear = {
            let mut state = self.state.borrow_mut();
            let Connection { client, is_read, .. } = state.connections[connection];
            if !is_read || !state.clients[client].is_alive {
                return;
            }
            if state.clients[client].frozen_until > state.now {
                return state.clients[client].mail.push_back((connection, said));
            }
            state.running = client;
            Rc::clone(&state.connections[connection].ear)
        };
        ear.hear(said);
    }
}
