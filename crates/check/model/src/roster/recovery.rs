//! Checks that a client can acquire the lock again from a state, if all servers are up and no other client interferes.

use quorlock_core::roster::Plan;

use super::client::Client;
use super::world::World;
use crate::world::Shared;

/// More passes than any recovery needs. The longest recovery finishes a pending change, asks the servers at all addresses to
/// found or restore the cluster, replaces a member, and waits for a quarantine after each of these steps.
const RECOVERY_PASSES_MAX: usize = 12;

impl World {
    /// Returns whether a new client, with the list of one of the clients, can still acquire the lock.
    pub fn can_recover(&self) -> bool {
        (0..self.clients.len()).any(|client| self.clone().recovers(client))
    }

    fn recovers(&mut self, client: usize) -> bool {
        self.trace = None;
        // All clients disappear. A new client knows only its list.
        for index in 0..self.clients.len() {
            self.clients[index] = Shared::new(Client::new(&self.setup, index, None));
        }
        for _ in 0..=self.setup.time_steps_per_ttl {
            self.pass_time();
        }
        let count = self.setup.clients[client].list.len();
        for _ in 0..RECOVERY_PASSES_MAX {
            self.read_servers(client);
            if self.clients[client].has_read_two_rosters {
                return false;
            }
            self.follow_plan(client);
            self.read_servers(client);
            for position in 0..count {
                self.claim(client, position);
            }
            for position in (0..count).chain(0..count) {
                self.ask(client, position);
            }
            if self.clients[client].holds(self.now()) {
                return true;
            }
            self.pass_time();
        }
        false
    }

    /// Carries out the plan of the client's view.
    fn follow_plan(&mut self, client: usize) {
        let reports = self.reports(client);
        let memberships: Vec<_> = reports.iter().map(Option::as_ref).collect();
        let addresses = self.addresses(client);
        if let Plan::Install(positions) = self.view(client).plan(&addresses, &memberships) {
            for position in positions {
                self.install_roster(client, position);
            }
            self.read_servers(client);
        }
        self.propose_planned(client);
        let count = self.setup.clients[client].list.len();
        for position in (0..3).flat_map(|_| 0..count) {
            self.send(client, position);
        }
        self.clients[client].proposer = None;
    }
}
