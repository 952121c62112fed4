//! Whether a client can acquire the lock again from a state, once all servers are up and no one interferes.

use quorlock_core::roster::Plan;

use super::client::Client;
use super::world::World;
use crate::world::Shared;

/// More rounds than any recovery needs: a pending step, an every-seat step, a replacement, and their quarantines.
const ROUNDS: usize = 12;

impl World {
    /// Returns whether a new client, with the list of one of the clients, can still acquire the lock.
    pub fn can_heal(&self) -> bool {
        (0..self.clients.len()).any(|client| self.clone().heals(client))
    }

    fn heals(&mut self, client: usize) -> bool {
        self.story = None;
        // All clients are gone, and a new one knows only its list.
        for state in &mut self.clients {
            *state = Shared::new(Client::new(0, 0, None));
        }
        for _ in 0..=self.setup.ticks_of_ttl {
            self.pass();
        }
        let count = self.setup.clients[client].list.len();
        for _ in 0..ROUNDS {
            self.look(client);
            if self.clients[client].is_confused {
                return false;
            }
            self.step_roster(client);
            self.look(client);
            for at in 0..count {
                self.claim(client, at);
            }
            for at in (0..count).chain(0..count) {
                self.ask(client, at);
            }
            if self.clients[client].holds(self.now()) {
                return true;
            }
            self.pass();
        }
        false
    }

    /// Does what the view plans.
    fn step_roster(&mut self, client: usize) {
        let reports = self.reports(client);
        let seen: Vec<_> = reports.iter().map(Option::as_ref).collect();
        let addresses = self.addresses(client);
        if let Plan::Install(positions) = self.view(client).plan(&addresses, &seen) {
            for at in positions {
                self.push(client, at);
            }
            self.look(client);
        }
        self.begin_planned(client);
        let count = self.setup.clients[client].list.len();
        for at in (0..3).flat_map(|_| 0..count) {
            self.send(client, at);
        }
        self.clients[client].proposer = None;
    }
}
