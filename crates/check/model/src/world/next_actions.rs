//! The next events that are possible in a state.

use quorlock_core::hold::Hold;

use super::{Action, World};

impl World {
    /// All possible next events.
    pub fn next_actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.violation.is_some() {
            return actions;
        }
        for (index, client) in self.clients.iter().enumerate() {
            let is_idle = client.machine.is_none() && !client.has_lease();
            actions.extend((is_idle && client.acquires_left > 0).then_some(Action::Start(index)));
            let may_release = self.budget_left.releases > 0 && client.hold.as_ref().is_some_and(Hold::is_held);
            actions.extend(may_release.then_some(Action::Release(index)));
            actions.extend(
                (self.budget_left.cancellations > 0 && client.machine.is_some()).then_some(Action::Cancel(index)),
            );
            let may_extend = client.detached_lease.as_ref().is_some_and(|detached| detached.extensions_left > 0);
            actions.extend(may_extend.then_some(Action::Extend(index)));
            actions.extend(self.can_break_lease(index).then_some(Action::BreakLease(index)));
            actions.extend(self.can_retire(index).then_some(Action::Retire(index)));
            actions.extend(self.pending_repair(index).map(|_| Action::Repair(index)));
            for node in 0..client.links.len() {
                self.add_actions_of_link(index, node, &mut actions);
            }
        }
        for &server in &self.setup.faulty_servers {
            self.add_actions_of_server(server, &mut actions);
        }
        actions.extend(self.next_due_time().map(|_| Action::PassTime));
        actions.retain(|action| self.server_of(*action).is_none_or(|server| server <= self.used_servers));
        actions
    }

    fn add_actions_of_link(&self, index: usize, node: usize, actions: &mut Vec<Action>) {
        let link = &self.clients[index].links[node];
        actions.extend((!link.to_client.is_empty()).then_some(Action::Receive(index, node)));
        actions.extend((!link.strays.is_empty()).then_some(Action::DeliverStray(index, node)));
        let may_lose = self.budget_left.lost_requests > 0 && !link.strays.is_empty();
        actions.extend(may_lose.then_some(Action::LoseStray(index, node)));
        match &link.connection {
            Some(connection) if connection.is_dead => actions.push(Action::NoticeRestart(index, node)),
            Some(connection) => {
                if let Some(in_flight) = link.to_node.front() {
                    actions.extend(link.to_client.is_empty().then_some(Action::Exchange(index, node)));
                    // On a connection that stays open, the time of a release's acknowledgement makes no difference.
                    let delay_has_effect = in_flight.request.may_grant() || self.budget_left.connection_breaks > 0;
                    actions.extend(
                        (self.budget_left.slow_replies > 0 && delay_has_effect).then_some(Action::Deliver(index, node)),
                    );
                }
                let may_send = self.setup.clients[index].has_send_queue && link.delivery.queued() > 0;
                actions.extend(may_send.then_some(Action::Send(index, node)));
                let is_busy = !link.to_node.is_empty() || !link.to_client.is_empty();
                actions.extend(
                    (self.budget_left.connection_breaks > 0 && is_busy).then_some(Action::BreakConnection(index, node)),
                );
                if !connection.is_voting && self.claim_has_effect(index, node, connection) {
                    actions.push(Action::Claim(index, node));
                }
            }
            None => {
                let is_within_reach = self.setup.clients[index].reachable.contains(&node);
                actions.extend(
                    (is_within_reach && !self.is_second_address(index, node)).then_some(Action::Connect(index, node)),
                );
            }
        }
    }

    fn add_actions_of_server(&self, server: usize, actions: &mut Vec<Action>) {
        let (budget, has_no_records) = (&self.budget_left, self.servers[server].has_no_records());
        // A server without records has nothing to forget.
        actions.extend((budget.crashes > 0 && !has_no_records).then_some(Action::Crash(server)));
        actions.extend((budget.flushes > 0 && !has_no_records).then_some(Action::Flush(server)));
        actions.extend((budget.rollbacks > 0 && !has_no_records).then_some(Action::RollBack(server)));
        actions.extend((budget.snapshots > 0 && !has_no_records).then_some(Action::TakeSnapshot(server)));
        let may_restore = budget.restored_snapshots > 0 && self.servers[server].snapshot.is_some();
        actions.extend(may_restore.then_some(Action::RestoreSnapshot(server)));
        let has_restarted = has_no_records && self.servers[server].restarts > 0;
        // A clock jump can expire votes only if they expire by the wall clock. Otherwise it can only change the uptime
        // that a restarted server computes.
        let has_effect = if self.setup.expires_by_wall_clock() { !has_no_records } else { has_restarted };
        actions.extend((budget.clock_jumps > 0 && has_effect).then_some(Action::JumpClock(server)));
    }

    /// The server that an action affects, if it affects only one server.
    pub(super) fn server_of(&self, action: Action) -> Option<usize> {
        match action {
            Action::Send(index, node)
            | Action::Exchange(index, node)
            | Action::Deliver(index, node)
            | Action::Receive(index, node)
            | Action::DeliverStray(index, node)
            | Action::LoseStray(index, node)
            | Action::BreakConnection(index, node)
            | Action::NoticeRestart(index, node)
            | Action::Connect(index, node)
            | Action::Claim(index, node) => Some(self.setup.clients[index].servers[node]),
            Action::Crash(server)
            | Action::TakeSnapshot(server)
            | Action::RestoreSnapshot(server)
            | Action::Flush(server)
            | Action::RollBack(server)
            | Action::JumpClock(server) => Some(server),
            Action::Start(_)
            | Action::Release(_)
            | Action::Cancel(_)
            | Action::Extend(_)
            | Action::BreakLease(_)
            | Action::Retire(_)
            | Action::Repair(_)
            | Action::PassTime => None,
        }
    }
}
