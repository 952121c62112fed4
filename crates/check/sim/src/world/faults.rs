//! Injects faults, and ends them.

use quorlock::sim::Said;

use super::server::Memory;
use super::{Event, MS, State, World};
use crate::plan::{Direction, Fault, Recovery};

/// The rate of a clock that stands still.
const STOPPED_CLOCK_PPM: i64 = -1_000_000;

impl World {
    /// Injects a fault.
    pub(super) fn inject(&self, fault: Fault) {
        if let Fault::Kill { client } = fault {
            let mut state = self.state.borrow_mut();
            let is_alive = state.clients.get(client).is_some_and(|client| client.is_alive);
            let now = state.now;
            state.trace.add_of_client(now, client, || "is killed".into());
            drop(state);
            if is_alive {
                self.kill(client);
            }
            return;
        }
        self.state.borrow_mut().inject(fault);
    }

    /// Lets the clients, nodes and network paths continue whose stop or cut has ended.
    pub(super) fn resume(&self) {
        let unread: Vec<_> = {
            let mut state = self.state.borrow_mut();
            state.resume();
            let now = state.now;
            let running_clients = state.clients.iter_mut().filter(|client| client.frozen_until <= now);
            running_clients.flat_map(|client| client.unread.drain(..)).collect()
        };
        for (connection, said) in unread {
            self.receive_at_client(connection, said);
        }
    }

    /// Ends all faults.
    pub(crate) fn end_faults(&self) {
        {
            let mut state = self.state.borrow_mut();
            let now = state.now;
            state.events.retain(|_, event| !matches!(event, Event::Fault(_)));
            state
                .paths
                .iter_mut()
                .flatten()
                .for_each(|path| (path.to_node_cut_until, path.to_client_cut_until) = (0, 0));
            for client in &mut state.clients {
                (client.frozen_until, client.is_paused) = (0, false);
                client.set_rates(now, client.clock_rate_ppm);
            }
            for server in &mut state.servers {
                (server.frozen_until, server.down_until) = (0, 0);
                server.reset_clock(now);
            }
            (state.network.slow_percent, state.network.breaks_permille) = (0, 0);
            state.network.hints_lost_percent = 0;
            state.trace.add(now, "", || "the faults are over".into());
        }
        self.resume();
    }
}

impl State {
    fn inject(&mut self, fault: Fault) {
        let now = self.now;
        if let Some((who, what)) = fault.describe() {
            self.trace.add(now, &who, || what);
        }
        match fault {
            Fault::Cut { client, node, direction, duration_nanos } => {
                let Some(path) = self.paths.get_mut(client).map(|paths| &mut paths[node]) else { return };
                if direction != Direction::ToClient {
                    path.to_node_cut_until = path.to_node_cut_until.max(now + duration_nanos);
                }
                if direction != Direction::ToNode {
                    path.to_client_cut_until = path.to_client_cut_until.max(now + duration_nanos);
                }
                self.schedule(now + duration_nanos, Event::Resume);
            }
            Fault::Reset { client, node } => {
                for connection in 0..self.connections.len() {
                    let link = &self.connections[connection];
                    if link.client == client && link.node == node && link.is_open {
                        let has_error = self.rng.percent(70);
                        self.break_connection(connection, has_error);
                    }
                }
            }
            Fault::Crash { node, recovery, duration_nanos } => {
                let server = &mut self.servers[node];
                let memory = match recovery {
                    Recovery::Empty => Memory::default(),
                    Recovery::Snapshot => server.snapshot.clone().unwrap_or_default(),
                    Recovery::AllData => server.memory.clone(),
                };
                server.restart(memory);
                if recovery != Recovery::AllData {
                    server.memory_lost_at = now;
                }
                server.down_until = now + duration_nanos;
                server.frozen_until = 0;
                for connection in 0..self.connections.len() {
                    let link = &self.connections[connection];
                    if link.node == node && link.is_open {
                        let has_error = self.rng.percent(80);
                        self.break_connection(connection, has_error);
                    }
                }
            }
            Fault::Save { node } => {
                let server = &mut self.servers[node];
                server.snapshot = Some(server.memory.clone());
            }
            Fault::RollBack { node } => {
                let server = &mut self.servers[node];
                let memory = server.snapshot.clone().unwrap_or_default();
                server.roll_back(memory);
                server.memory_lost_at = now;
                self.notify_of_change(node);
            }
            Fault::Flush { node } => {
                self.servers[node].flush();
                self.notify_of_change(node);
            }
            Fault::FreezeNode { node, duration_nanos } => {
                self.servers[node].frozen_until = now + duration_nanos;
                self.schedule(now + duration_nanos, Event::Resume);
            }
            Fault::FreezeClient { client, duration_nanos } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                // The pause of a client must not end early, because its clocks stand still until then.
                let earliest_end = if client.is_paused { client.frozen_until } else { 0 };
                client.frozen_until = earliest_end.max(now + duration_nanos);
                self.schedule(now + duration_nanos, Event::Resume);
            }
            Fault::PauseClient { client, duration_nanos } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                client.is_paused = true;
                client.frozen_until = client.frozen_until.max(now + duration_nanos);
                client.clock.set_rate(now, STOPPED_CLOCK_PPM);
                client.raw.set_rate(now, STOPPED_CLOCK_PPM);
                let until = client.frozen_until;
                self.schedule(until, Event::Resume);
            }
            Fault::NodeClockRate { node, clock_rate_ppm } => self.servers[node].clock.set_rate(now, clock_rate_ppm),
            Fault::NodeClockStep { node, millis } => self.servers[node].step_clock(now, millis * MS as i64),
            Fault::ClientClockJump { client, millis } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                client.clock.jump(now, (millis * MS) as i64);
                client.record_skew(now);
            }
            Fault::ClientClockRate { client, clock_rate_ppm } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                client.set_rates(now, clock_rate_ppm);
            }
            // `World::inject` kills clients.
            Fault::Kill { .. } => {}
        }
    }

    /// Notifies every connected client that the node's memory was replaced.
    fn notify_of_change(&mut self, node: usize) {
        for connection in 0..self.connections.len() {
            let link = &self.connections[connection];
            if link.node == node && link.is_open && link.is_read_by_client {
                self.send_to_client(connection, Said::MemoryChanged);
            }
        }
    }

    fn resume(&mut self) {
        let now = self.now;
        for client in self.clients.iter_mut().filter(|client| client.is_paused && client.frozen_until <= now) {
            client.is_paused = false;
            let clock_rate_ppm = client.clock_rate_ppm;
            client.set_rates(now, clock_rate_ppm);
        }
        for node in 0..self.servers.len() {
            if self.servers[node].frozen_until <= now {
                for (connection, message) in std::mem::take(&mut self.servers[node].backlog) {
                    self.receive_at_node(connection, message);
                }
            }
        }
        for client in 0..self.clients.len() {
            for node in 0..self.servers.len() {
                self.send_held_back(client, node);
            }
        }
    }
}
