//! Injects faults, and ends them.

use quorlock::sim::Said;

use super::server::Memory;
use super::{Event, MS, State, World};
use crate::plan::{Direction, Fault, Recovery};

/// The rate of a clock that stands still.
const STOPPED: i64 = -1_000_000;

impl World {
    /// Injects a fault.
    pub(super) fn inject(&self, fault: Fault) {
        if let Fault::Kill { client } = fault {
            let mut state = self.state.borrow_mut();
            let is_there = state.clients.get(client).is_some_and(|client| client.is_alive);
            let now = state.now;
            state.story.say_of_client(now, client, || "is killed".into());
            drop(state);
            if is_there {
                self.kill(client);
            }
            return;
        }
        self.state.borrow_mut().inject(fault);
    }

    /// Continues everything whose stop has ended.
    pub(super) fn resume(&self) {
        let mail: Vec<_> = {
            let mut state = self.state.borrow_mut();
            state.resume();
            let now = state.now;
            let awake = state.clients.iter_mut().filter(|client| client.frozen_until <= now);
            awake.flat_map(|client| client.mail.drain(..)).collect()
        };
        for (connection, said) in mail {
            self.hear(connection, said);
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        {
            let mut state = self.state.borrow_mut();
            let now = state.now;
            state.events.retain(|_, event| !matches!(event, Event::Fault(_)));
            state.ways.iter_mut().flatten().for_each(|way| (way.up_until, way.down_until) = (0, 0));
            for client in &mut state.clients {
                (client.frozen_until, client.is_paused) = (0, false);
                client.run_clocks(now, client.ppm);
            }
            for server in &mut state.servers {
                (server.frozen_until, server.down_until) = (0, 0);
                server.put_clock_right(now);
            }
            (state.network.slow_percent, state.network.breaks_permille) = (0, 0);
            state.network.hints_lost_percent = 0;
            state.story.say(now, "", || "the faults are over".into());
        }
        self.resume();
    }
}

impl State {
    fn inject(&mut self, fault: Fault) {
        let now = self.now;
        if let Some((who, what)) = fault.describe() {
            self.story.say(now, &who, || what);
        }
        match fault {
            Fault::Cut { client, node, direction, lasts } => {
                let Some(way) = self.ways.get_mut(client).map(|ways| &mut ways[node]) else { return };
                if direction != Direction::Down {
                    way.up_until = way.up_until.max(now + lasts);
                }
                if direction != Direction::Up {
                    way.down_until = way.down_until.max(now + lasts);
                }
                self.schedule(now + lasts, Event::Resume);
            }
            Fault::Reset { client, node } => {
                for connection in 0..self.connections.len() {
                    let link = &self.connections[connection];
                    if link.client == client && link.node == node && link.is_open {
                        let is_told = self.rng.percent(70);
                        self.break_off(connection, is_told);
                    }
                }
            }
            Fault::Crash { node, recovery, lasts } => {
                let server = &mut self.servers[node];
                let memory = match recovery {
                    Recovery::Empty => Memory::default(),
                    Recovery::Snapshot => server.snapshot.clone().unwrap_or_default(),
                    Recovery::Whole => server.memory.clone(),
                };
                server.restart(memory);
                if recovery != Recovery::Whole {
                    server.set_back_at = now;
                }
                server.down_until = now + lasts;
                server.frozen_until = 0;
                for connection in 0..self.connections.len() {
                    let link = &self.connections[connection];
                    if link.node == node && link.is_open {
                        let is_told = self.rng.percent(80);
                        self.break_off(connection, is_told);
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
                server.set_back_at = now;
                self.tell_of_change(node);
            }
            Fault::Flush { node } => {
                self.servers[node].flush();
                self.tell_of_change(node);
            }
            Fault::FreezeNode { node, lasts } => {
                self.servers[node].frozen_until = now + lasts;
                self.schedule(now + lasts, Event::Resume);
            }
            Fault::FreezeClient { client, lasts } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                // A paused client stays paused, because its clocks stand still.
                let least = if client.is_paused { client.frozen_until } else { 0 };
                client.frozen_until = least.max(now + lasts);
                self.schedule(now + lasts, Event::Resume);
            }
            Fault::PauseClient { client, lasts } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                client.is_paused = true;
                client.frozen_until = client.frozen_until.max(now + lasts);
                client.clock.run(now, STOPPED);
                client.raw.run(now, STOPPED);
                let until = client.frozen_until;
                self.schedule(until, Event::Resume);
            }
            Fault::NodeClockRate { node, ppm } => self.servers[node].clock.run(now, ppm),
            Fault::NodeClockStep { node, millis } => self.servers[node].set_clock(now, millis * MS as i64),
            Fault::ClientClockJump { client, millis } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                client.clock.jump(now, (millis * MS) as i64);
                client.note_skew(now);
            }
            Fault::ClientClockRate { client, ppm } => {
                let Some(client) = self.clients.get_mut(client) else { return };
                client.run_clocks(now, ppm);
            }
            // Handled by the world.
            Fault::Kill { .. } => {}
        }
    }

    /// Tells every connection that the node's memory was replaced, before any later message of the node.
    fn tell_of_change(&mut self, node: usize) {
        for connection in 0..self.connections.len() {
            let link = &self.connections[connection];
            if link.node == node && link.is_open && link.is_heard {
                self.send_down(connection, Said::MemoryChanged);
            }
        }
    }

    fn resume(&mut self) {
        let now = self.now;
        for client in self.clients.iter_mut().filter(|client| client.is_paused && client.frozen_until <= now) {
            client.is_paused = false;
            let ppm = client.ppm;
            client.run_clocks(now, ppm);
        }
        for node in 0..self.servers.len() {
            if self.servers[node].frozen_until <= now {
                for (connection, up) in std::mem::take(&mut self.servers[node].backlog) {
                    self.arrive(connection, up);
                }
            }
        }
        for client in 0..self.clients.len() {
            for node in 0..self.servers.len() {
                self.reopen(client, node);
            }
        }
    }
}
