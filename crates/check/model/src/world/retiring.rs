//! The retirement of an owner, and the checks of it.

use quorlock_core::request::Request;
use quorlock_core::terms::Mode;
use quorlock_core::vote::Refusal;

use super::link::Letter;
use super::tell::server_names;
use super::{Breach, World};
use crate::setup::{Flaw, Retirement, TTL};

/// An owner that an operator retires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Retired {
    what: Retirement,
    /// The servers that have executed the retirement.
    servers: Vec<usize>,
    /// When a majority had executed it, in microseconds.
    since: Option<u64>,
}

impl World {
    /// Whether this client would retire an owner now.
    pub(super) fn may_retire(&self, index: usize) -> bool {
        self.setup.clients[index].retires.is_some() && self.retired.is_none()
    }

    /// Sends the retirement to all nodes.
    pub(super) fn retire(&mut self, index: usize) {
        let Some(what) = self.setup.clients[index].retires else { return };
        self.retired = Some(Retired { what, servers: Vec::new(), since: None });
        let request = Request::Retire { owner: what.owner, tombstone: 2 * TTL.as_millis() as u64 };
        let now = self.moment(index);
        let links = self.clients[index].links.iter_mut().enumerate();
        let asked: Vec<usize> = links.filter_map(|(node, link)| link.ask(&request, 0, now).then_some(node)).collect();
        let name = if what.elsewhere { "another name" } else { "this name" };
        self.say_of_client(index, || format!("asks {} to retire the owner from {name}", server_names(asked)));
    }

    /// A server's vote on a request for another name.
    pub(super) fn vote_elsewhere(&self, index: usize, letter: &Letter) -> Option<Refusal> {
        let is_elsewhere = self.setup.clients[index].retires.is_some_and(|what| what.elsewhere);
        let is_retirement = matches!(letter.request, Request::Retire { .. });
        (is_retirement && is_elsewhere && !self.setup.lacks(Flaw::RetireEverywhere)).then_some(Refusal::Absent)
    }

    /// Records that a server has executed a retirement.
    pub(super) fn note_retirement(&mut self, server: usize, request: &Request) {
        let Request::Retire { .. } = request else { return };
        let (now, majority) = (self.now, self.setup.servers / 2 + 1);
        if let Some(retired) = self.retired.as_mut().filter(|retired| !retired.servers.contains(&server)) {
            retired.servers.push(server);
            retired.servers.sort_unstable();
            if retired.servers.len() == majority {
                retired.since = Some(now);
            }
        }
    }

    /// Whether the owner of this hold is being retired: it may hold for another ttl, and other clients need not wait
    /// for that.
    pub(super) fn is_retired(&self, mode: Mode) -> bool {
        self.retired.as_ref().is_some_and(|retired| !retired.what.elsewhere && mode.owner() == Some(retired.what.owner))
    }

    /// Checks that no owner holds for longer than a ttl after a majority has retired it.
    pub(super) fn judge_retired(&self) -> Option<Breach> {
        let since = self.retired.as_ref()?.since?;
        let mut clients = 0..self.clients.len();
        let goes_on = clients
            .any(|index| self.is_retired(self.clients[index].mode) && self.clients[index].is_valid(self.moment(index)));
        (goes_on && self.now > since + TTL.as_micros() as u64).then_some(Breach::Unretired)
    }
}
