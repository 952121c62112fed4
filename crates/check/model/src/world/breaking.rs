//! Breaking another client's lease, and the checks of it.

use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::request::{Request, Target};
use quorlock_core::vote::Vote;

use super::link::{Link, Message};
use super::tell::server_names;
use super::wire::listener;
use super::{Breach, World};
use crate::setup::{Flaw, TTL};

/// A lease that an operator breaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Broken {
    fence: Fence,
    attempt: LeaseId,
    /// The servers that have executed the break.
    servers: Vec<usize>,
    /// When a majority had executed it, in microseconds.
    since: Option<u64>,
}

impl World {
    /// The lease that can be broken, by its fence, as an inspection would show it.
    fn standing(&self) -> Option<(Fence, LeaseId)> {
        let holds = self.clients.iter().filter_map(|client| client.hold.as_ref().filter(|hold| hold.is_held()));
        holds.filter_map(|hold| Some((hold.fence()?, hold.attempt()))).max()
    }

    /// Whether there is a lease that this client would break.
    pub(super) fn may_end(&self, index: usize) -> bool {
        let has_begun = self.broken.is_some();
        self.setup.clients[index].ends.is_some() && !has_begun && self.standing().is_some()
    }

    /// Sends the break of the current lease to all nodes.
    pub(super) fn end(&mut self, index: usize) {
        let (Some(mode), Some((fence, attempt))) = (self.setup.clients[index].ends, self.standing()) else { return };
        self.broken = Some(Broken { fence, attempt, servers: Vec::new(), since: None });
        let request = Request::Break { target: Target::Fence(fence), mode };
        let now = self.moment(index);
        let asked: Vec<usize> = self.clients[index]
            .links
            .iter_mut()
            .enumerate()
            .filter_map(|(node, link)| link.ask(&request, 0, now).then_some(node))
            .collect();
        self.say_of_client(index, || format!("asks {} to break the lease with fence {fence}", server_names(asked)));
    }

    /// Records that a server has executed a break, and notifies all possible holders.
    pub(super) fn note_break(&mut self, server: usize, vote: &Vote) {
        let Vote::Broken { .. } = vote else { return };
        let (now, majority) = (self.now, quorlock_core::terms::Quorum::majority_of(self.setup.servers));
        if let Some(broken) = self.broken.as_mut().filter(|broken| !broken.servers.contains(&server)) {
            broken.servers.push(server);
            broken.servers.sort_unstable();
            if broken.servers.len() == majority {
                broken.since = Some(now);
            }
        }
        let setup = self.setup.clone();
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.machine.is_none() && client.hold.is_none() {
                continue;
            }
            if let Some(node) = listener(&setup, &self.clients, server, Channel(index as u128)) {
                self.clients[index].links[node].back.push_back(Message::Broken);
            }
        }
    }

    /// Handles the message that a lease was broken: it may be this client's.
    pub(super) fn doubt(&mut self, index: usize) {
        let (now, is_hasty) = (self.moment(index), self.setup.lacks(Flaw::DoubtOnce));
        let Some(hold) = &mut self.clients[index].hold else { return };
        let steps = if is_hasty { hold.extend(now).1 } else { hold.doubt(now) };
        self.perform(index, steps);
    }

    /// Checks the guarantees about broken leases.
    pub(super) fn judge_broken(&self) -> Option<Breach> {
        let broken = self.broken.as_ref()?;
        let since = broken.since?;
        let index = self.clients.iter().position(|client| {
            client.hold.as_ref().is_some_and(|hold| hold.attempt() == broken.attempt && hold.is_held())
        })?;
        let is_valid = self.clients[index].is_valid(self.moment(index));
        if is_valid && self.now > since + TTL.as_micros() as u64 {
            return Some(Breach::Unbroken);
        }
        let is_quiet = self.clients.iter().all(|client| client.links.iter().all(Link::is_quiet));
        let is_told = self.setup.tells_breaks() && is_quiet;
        (is_valid && is_told).then_some(Breach::Unaware)
    }

    /// Checks that a lease that its holder lost by a break is the targeted one.
    pub(super) fn judge_loss(&mut self, attempt: LeaseId) {
        if self.broken.as_ref().is_none_or(|broken| broken.attempt != attempt) {
            self.breach = self.breach.or(Some(Breach::Mistaken));
        }
    }
}
