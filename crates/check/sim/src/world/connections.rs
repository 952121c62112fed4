//! Connections between clients and nodes. Messages in each direction stay in order. They may be slow, held back or
//! lost.

use std::collections::VecDeque;
use std::rc::Rc;

use quorlock::sim::{Ear, Question, Said};

use super::server::Notice;
use super::{Event, State, World};

/// A message to a node.
#[derive(Debug)]
pub(crate) enum ToNode {
    Open,
    /// A question and its send time.
    Ask(Question, u64),
    Close,
}

pub(crate) struct Connection {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) ear: Rc<Ear>,
    /// Whether the client still reads from the connection: the client has not closed it.
    pub(super) is_read_by_client: bool,
    /// Whether the node has accepted the connection.
    pub(super) is_open: bool,
    /// Whether all further messages to the node are lost.
    loses_messages_to_node: bool,
    /// The time before which the next message to the node must not arrive, because messages stay in order.
    next_arrival_at_node: u64,
    /// The time before which the next message to the client must not arrive.
    next_arrival_at_client: u64,
    /// Messages that wait until the network path to the node is not cut.
    held_back_to_node: VecDeque<ToNode>,
    /// Messages that wait until the network path to the client is not cut.
    held_back_to_client: VecDeque<Said>,
}

/// The network path between a client and a node: for each direction, the time until which it is cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetworkPath {
    pub(super) to_node_cut_until: u64,
    pub(super) to_client_cut_until: u64,
}

impl State {
    pub(super) fn open_connection(&mut self, node: usize, ear: Ear) -> usize {
        let connection = self.connections.len();
        let client = self.running_client;
        self.connections.push(Connection {
            client,
            node,
            ear: Rc::new(ear),
            is_read_by_client: true,
            is_open: false,
            loses_messages_to_node: false,
            next_arrival_at_node: 0,
            next_arrival_at_client: 0,
            held_back_to_node: VecDeque::new(),
            held_back_to_client: VecDeque::new(),
        });
        self.send_to_node(connection, ToNode::Open);
        connection
    }

    pub(super) fn send_to_node(&mut self, connection: usize, message: ToNode) {
        let Connection { client, node, loses_messages_to_node, .. } = self.connections[connection];
        if !self.clients[client].is_alive || loses_messages_to_node {
            return;
        }
        if matches!(message, ToNode::Ask(Question::Batch(..), _)) && self.draw_break(connection) {
            return;
        }
        let held_back = &mut self.connections[connection].held_back_to_node;
        // Messages keep their order: none overtakes those that a cut has held back.
        if self.paths[client][node].to_node_cut_until > self.now || !held_back.is_empty() {
            return held_back.push_back(message);
        }
        let at = (self.now + self.delay(node)).max(self.connections[connection].next_arrival_at_node);
        self.connections[connection].next_arrival_at_node = at;
        self.schedule(at, Event::ToNode(connection, message));
    }

    pub(super) fn send_to_client(&mut self, connection: usize, said: Said) {
        let Connection { client, node, is_read_by_client, .. } = self.connections[connection];
        if !is_read_by_client
            || !self.clients[client].is_alive
            || matches!(said, Said::Votes(..)) && self.draw_break(connection)
        {
            return;
        }
        let held_back = &mut self.connections[connection].held_back_to_client;
        if self.paths[client][node].to_client_cut_until > self.now || !held_back.is_empty() {
            return held_back.push_back(said);
        }
        let at = (self.now + self.delay(node)).max(self.connections[connection].next_arrival_at_client);
        self.connections[connection].next_arrival_at_client = at;
        self.schedule(at, Event::ToClient(connection, said));
    }

    /// Draws whether the connection breaks with this message and, if it does, breaks it.
    fn draw_break(&mut self, connection: usize) -> bool {
        let breaks = self.rng.below(1_000) < self.network.breaks_permille;
        if breaks {
            let has_error = self.rng.percent(90);
            self.break_connection(connection, has_error);
        }
        breaks
    }

    /// Draws the delay of a message, which is usually short.
    fn delay(&mut self, node: usize) -> u64 {
        let usual_delay = self.network.delays[node];
        let delay = usual_delay / 2 + self.rng.below(usual_delay);
        let is_slow = self.rng.percent(self.network.slow_percent);
        if is_slow { delay + self.rng.below(self.network.slow_delay_max) } else { delay }
    }

    /// Sends the messages that a cut held back, if the cut has ended.
    pub(super) fn send_held_back(&mut self, client: usize, node: usize) {
        let path = self.paths[client][node];
        for connection in 0..self.connections.len() {
            let link = &mut self.connections[connection];
            if link.client != client || link.node != node {
                continue;
            }
            let messages_to_node = if path.to_node_cut_until <= self.now {
                std::mem::take(&mut link.held_back_to_node)
            } else {
                VecDeque::new()
            };
            let messages_to_client = if path.to_client_cut_until <= self.now {
                std::mem::take(&mut link.held_back_to_client)
            } else {
                VecDeque::new()
            };
            for message in messages_to_node {
                self.send_to_node(connection, message);
            }
            for said in messages_to_client {
                self.send_to_client(connection, said);
            }
        }
    }

    /// Closes the connection at the client. Messages in flight are lost, arrive, or arrive late.
    pub(super) fn hang_up(&mut self, connection: usize) {
        let is_late = self.rng.percent(self.network.stray_percent);
        let until = self.now + self.rng.below(self.network.stray_delay_max.max(1));
        let is_lost = self.rng.percent(10);
        let link = &mut self.connections[connection];
        link.is_read_by_client = false;
        link.loses_messages_to_node |= is_lost;
        if is_late {
            link.next_arrival_at_node = link.next_arrival_at_node.max(until);
            self.delay_messages(connection, until);
        }
        self.send_to_node(connection, ToNode::Close);
    }

    /// Delays all messages to the node that would arrive before `until`, and keeps their order.
    fn delay_messages(&mut self, connection: usize, until: u64) {
        let arrives_early = |(at, event): &(&(u64, u64), &Event)| {
            at.0 < until && matches!(event, Event::ToNode(other, _) if *other == connection)
        };
        let early_keys: Vec<(u64, u64)> = self.events.iter().filter(arrives_early).map(|(key, _)| *key).collect();
        for key in early_keys {
            if let Some(event) = self.events.remove(&key) {
                self.events.insert((until, key.1), event);
            }
        }
    }

    /// Breaks the connection in the network or at the node. If `has_error` is false, the client gets no error and times
    /// out.
    pub(super) fn break_connection(&mut self, connection: usize, has_error: bool) {
        let link = &mut self.connections[connection];
        if !link.is_read_by_client {
            return;
        }
        link.is_open = false;
        link.loses_messages_to_node = true;
        link.held_back_to_node.clear();
        link.held_back_to_client.clear();
        self.events.retain(|_, event| !matches!(event, Event::ToClient(other, _) if *other == connection));
        if has_error {
            self.send_to_client(connection, Said::End("connection reset".into()));
        }
    }

    /// Handles a message at a node.
    pub(super) fn receive_at_node(&mut self, connection: usize, message: ToNode) {
        let Connection { node, loses_messages_to_node, is_open, is_read_by_client, .. } = self.connections[connection];
        let server = &mut self.servers[node];
        if loses_messages_to_node {
            return;
        }
        if server.down_until > self.now {
            self.refuse(connection);
            return;
        }
        if server.frozen_until > self.now {
            return server.backlog.push_back((connection, message));
        }
        match message {
            ToNode::Open if is_read_by_client => {
                let (identity, channel) = (server.identity(), self.connections[connection].ear.channel());
                server.listeners.insert(channel, connection);
                self.connections[connection].is_open = true;
                self.send_to_client(connection, Said::Open(identity));
            }
            // The client has already closed the connection.
            ToNode::Open => self.connections[connection].is_open = true,
            ToNode::Ask(..) | ToNode::Close if !is_open => self.refuse(connection),
            ToNode::Close => {
                self.connections[connection].is_open = false;
                server.listeners.retain(|_, listener| *listener != connection);
            }
            ToNode::Ask(question, sent) => {
                if let (false, Question::Batch(_, messages)) = (is_read_by_client, &question) {
                    // The request may arrive after the release of its attempt. A tombstone makes the node refuse such a
                    // request, but plain locks leave no tombstones, and other tombstones expire or are lost with the
                    // node's memory.
                    let may_lack_tombstone =
                        self.now.saturating_sub(sent) > self.network.tombstone_lifetime || sent < server.memory_lost_at;
                    let excused = messages.iter().filter(|(_, request)| may_lack_tombstone || request.is_plain());
                    excused.for_each(|(_, request)| self.ledger.excuse_from_release(request));
                }
                let (said, notices) = server.serve(&question, self.now);
                self.shape.count(&question, &said, !is_read_by_client);
                self.trace_reply(connection, &question, &said);
                self.send_to_client(connection, said);
                for notice in notices {
                    self.send_notice(node, notice);
                }
            }
        }
    }

    /// Refuses the connection at the node, with or without an error for the client.
    fn refuse(&mut self, connection: usize) {
        self.connections[connection].loses_messages_to_node = true;
        if self.rng.percent(70) {
            self.send_to_client(connection, Said::End("connection refused".into()));
        }
    }

    /// Sends the messages of a notice: to the waiter of a hint, or to all clients.
    fn send_notice(&mut self, node: usize, notice: Notice) {
        match notice {
            // A hint may be lost, because nothing relies on it.
            Notice::Hint(.., None) if self.rng.percent(self.network.hints_lost_percent) => {}
            Notice::Hint(channel, ticket, handoff) => {
                if let Some(listener) = self.servers[node].listeners.get(&channel).copied() {
                    self.shape.handoffs += u32::from(handoff.is_some());
                    self.trace_handoff(listener, handoff);
                    self.send_to_client(listener, Said::Hint(ticket, handoff));
                }
            }
            Notice::Broken(key) => {
                let listeners: Vec<usize> = self.servers[node].listeners.values().copied().collect();
                for listener in listeners {
                    self.send_to_client(listener, Said::Broken(key.clone()));
                }
            }
        }
    }
}

impl World {
    /// Handles a message at a client.
    pub(super) fn receive_at_client(&self, connection: usize, said: Said) {
        let ear = {
            let mut state = self.state.borrow_mut();
            let Connection { client, is_read_by_client, .. } = state.connections[connection];
            if !is_read_by_client || !state.clients[client].is_alive {
                return;
            }
            if state.clients[client].frozen_until > state.now {
                return state.clients[client].unread.push_back((connection, said));
            }
            state.running_client = client;
            Rc::clone(&state.connections[connection].ear)
        };
        ear.hear(said);
    }
}
