//! The possible next events.

use quorlock_core::hold::Hold;

use super::{Action, World};

impl World {
    /// All possible next events.
    pub fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.breach.is_some() {
            return actions;
        }
        for (index, client) in self.clients.iter().enumerate() {
            let is_idle = client.machine.is_none() && !client.has_lease();
            actions.extend((is_idle && client.starts > 0).then_some(Action::Start(index)));
            let may_free = self.left.frees > 0 && client.hold.as_ref().is_some_and(Hold::is_held);
            actions.extend(may_free.then_some(Action::Free(index)));
            actions.extend((self.left.cancels > 0 && client.machine.is_some()).then_some(Action::Cancel(index)));
            let may_extend = client.detached.as_ref().is_some_and(|detached| detached.extensions > 0);
            actions.extend(may_extend.then_some(Action::Extend(index)));
            actions.extend(self.may_end(index).then_some(Action::End(index)));
            actions.extend(self.may_retire(index).then_some(Action::Retire(index)));
            actions.extend(self.repair_by(index).map(|_| Action::Mend(index)));
            for node in 0..client.links.len() {
                self.extend_with_link(index, node, &mut actions);
            }
        }
        for &server in &self.setup.fragile {
            self.extend_with_server(server, &mut actions);
        }
        actions.extend(self.next_moment().map(|_| Action::Pass));
        actions.retain(|action| self.server_of(*action).is_none_or(|server| server <= self.touched));
        actions
    }

    fn extend_with_link(&self, index: usize, node: usize, actions: &mut Vec<Action>) {
        let link = &self.clients[index].links[node];
        actions.extend((!link.back.is_empty()).then_some(Action::Hear(index, node)));
        actions.extend((!link.strays.is_empty()).then_some(Action::Stray(index, node)));
        let may_lose = self.left.losses > 0 && !link.strays.is_empty();
        actions.extend(may_lose.then_some(Action::Lose(index, node)));
        match &link.connection {
            Some(connection) if connection.is_dead => actions.push(Action::Notice(index, node)),
            Some(connection) => {
                if let Some(letter) = link.out.front() {
                    actions.extend(link.back.is_empty().then_some(Action::Exchange(index, node)));
                    // On a connection that stays open, the time of a release's acknowledgement makes no difference.
                    let may_wait = letter.request.may_grant() || self.left.breaks > 0;
                    actions.extend((self.left.slow > 0 && may_wait).then_some(Action::Deliver(index, node)));
                }
                let may_send = self.setup.clients[index].queues && link.delivery.queued() > 0;
                actions.extend(may_send.then_some(Action::Send(index, node)));
                let is_busy = !link.out.is_empty() || !link.back.is_empty();
                actions.extend((self.left.breaks > 0 && is_busy).then_some(Action::Break(index, node)));
                if !connection.is_voting && self.would_claim(index, node, connection) {
                    actions.push(Action::Watch(index, node));
                }
            }
            None => {
                let is_within_reach = self.setup.clients[index].reaches.contains(&node);
                actions.extend((is_within_reach && !self.is_twin(index, node)).then_some(Action::Connect(index, node)));
            }
        }
    }

    fn extend_with_server(&self, server: usize, actions: &mut Vec<Action>) {
        let (left, is_blank) = (&self.left, self.servers[server].is_blank());
        // A server without votes has nothing to forget.
        actions.extend((left.crashes > 0 && !is_blank).then_some(Action::Crash(server)));
        actions.extend((left.flushes > 0 && !is_blank).then_some(Action::Flush(server)));
        actions.extend((left.rollbacks > 0 && !is_blank).then_some(Action::RollBack(server)));
        actions.extend((left.saves > 0 && !is_blank).then_some(Action::Save(server)));
        let may_restore = left.restores > 0 && self.servers[server].snapshot.is_some();
        actions.extend(may_restore.then_some(Action::Restore(server)));
        let has_restarted = is_blank && self.servers[server].run > 0;
        // Votes that expire by the wall clock vanish with a jump; others do not, and only a server's age is in doubt.
        let matters = if self.setup.expires_by_wall() { !is_blank } else { has_restarted };
        actions.extend((left.jumps > 0 && matters).then_some(Action::Jump(server)));
    }

    pub(super) fn server_of(&self, action: Action) -> Option<usize> {
        match action {
            Action::Send(index, node)
            | Action::Exchange(index, node)
            | Action::Deliver(index, node)
            | Action::Hear(index, node)
            | Action::Stray(index, node)
            | Action::Lose(index, node)
            | Action::Break(index, node)
            | Action::Notice(index, node)
            | Action::Connect(index, node)
            | Action::Watch(index, node) => Some(self.setup.clients[index].servers[node]),
            Action::Crash(server)
            | Action::Save(server)
            | Action::Restore(server)
            | Action::Flush(server)
            | Action::RollBack(server)
            | Action::Jump(server) => Some(server),
            Action::Start(_)
            | Action::Free(_)
            | Action::Cancel(_)
            | Action::Extend(_)
            | Action::End(_)
            | Action::Retire(_)
            | Action::Mend(_)
            | Action::Pass => None,
        }
    }
}
