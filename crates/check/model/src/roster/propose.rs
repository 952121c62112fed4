//! What a client does about the roster: it plans and carries out proposals.

use std::sync::Arc;

use quorlock_core::node::roster::{Ballot, Change, ClusterId, Membership, Roster, RosterAnswer, RosterCommand};
use quorlock_core::roster::{Plan, Proposer};
use quorlock_core::terms::Quorum;

use super::client::Sighting;
use super::setup::{Flaw, Order};
use super::world::World;
use crate::world::Breach;

impl World {
    /// Begins the proposal that the client's view asks for.
    pub(super) fn begin(&mut self, client: usize) {
        self.look(client);
        self.begin_planned(client);
    }

    /// What each server stores, also of those that the client does not reach, for the flaw that does without them.
    fn all_reports(&self, client: usize) -> Vec<Option<Membership>> {
        let list = &self.setup.clients[client].list;
        list.iter().map(|(_, server)| self.servers[*server].membership().cloned()).collect()
    }

    /// Begins the proposal that the client's view asks for, without a look.
    pub(super) fn begin_planned(&mut self, client: usize) {
        let addresses = self.addresses(client);
        let reports = if self.setup.lacks(Flaw::MostSeats) { self.all_reports(client) } else { self.reports(client) };
        let seen: Vec<Option<&Membership>> = reports.iter().map(Option::as_ref).collect();
        let state = &self.clients[client];
        if state.is_confused {
            return;
        }
        let plan = state.view.plan(&addresses, &seen);
        let ballot = self.ballot(client, &reports);
        let proposer = match (plan, state.view.roster()) {
            (Plan::Finish, Some(roster)) => {
                Some(Proposer::among_members(roster.clone(), None, ballot, addresses.len()))
            }
            (Plan::Replace(change), Some(roster)) => {
                let value = self.successor(client, &change);
                value.map(|value| Proposer::among_members(roster.clone(), Some(value), ballot, addresses.len()))
            }
            (Plan::EverySeat, _) => self.among_seats(client, addresses, &reports, ballot),
            _ if self.setup.lacks(Flaw::AnyList) => self.among_seats(client, addresses, &reports, ballot),
            _ => None,
        };
        self.propose(client, proposer);
    }

    fn among_seats(
        &self,
        client: usize,
        addresses: Vec<Arc<str>>,
        reports: &[Option<Membership>],
        ballot: Ballot,
    ) -> Option<Proposer> {
        let mut seats: Vec<Membership> = reports.iter().cloned().collect::<Option<_>>()?;
        if self.setup.lacks(Flaw::AnyList) {
            for seat in &mut seats {
                let roster = seat.roster.as_mut().map(Arc::make_mut);
                let members = roster.into_iter().flat_map(|roster| &mut roster.members);
                members.zip(&addresses).for_each(|(member, address)| member.address = address.clone());
            }
        }
        let seats: Vec<&Membership> = seats.iter().collect();
        let founding = (ClusterId(client as u128 + 2), self.setup.settings());
        Proposer::among_seats(addresses, &seats, founding, ballot)
    }

    pub(super) fn obey(&mut self, client: usize, order: usize) {
        self.look(client);
        let Order { add, remove } = self.setup.clients[client].orders[order].clone();
        let (addresses, reports) = (self.addresses(client), self.reports(client));
        let Some(roster) = self.clients[client].view.roster().cloned() else { return };
        let id_at = |at: &usize| roster.member_at(&addresses[*at]).map(|member| member.id);
        let fresh_at = |at: &usize| {
            let fresh = reports[*at].as_ref()?.member.filter(|id| roster.member(*id).is_none())?;
            Some((fresh, addresses[*at].clone()))
        };
        let (Some(remove), Some(add)) = (remove.iter().map(id_at).collect(), add.iter().map(fresh_at).collect()) else {
            return;
        };
        let ballot = self.ballot(client, &reports);
        let value = self.successor(client, &Change { add, remove, settings: None });
        let proposer = value.map(|value| Proposer::among_members(roster, Some(value), ballot, addresses.len()));
        self.propose(client, proposer);
    }

    fn successor(&self, client: usize, change: &Change) -> Option<Arc<Roster>> {
        let (view, now) = (&self.clients[client].view, self.now());
        let roster = view.roster()?;
        let is_early =
            self.setup.lacks(Flaw::ProposeUnsettled) || self.setup.lacks(Flaw::ResizeTwice) && view.settled().is_some();
        let mut next =
            if is_early { Arc::new(roster.successor(change).ok()?) } else { view.successor(change, now).ok()? };
        if self.setup.lacks(Flaw::ResizeAtOnce) {
            let members = &mut Arc::make_mut(&mut next).members;
            for member in members {
                member.since = roster.member(member.id).map_or(member.since, |before| before.since);
            }
        }
        Some(next)
    }

    /// A ballot above all that the client sees.
    fn ballot(&self, client: usize, reports: &[Option<Membership>]) -> Ballot {
        let rounds = reports.iter().flatten().filter_map(|report| report.promised).map(|promise| promise.ballot.round);
        let bits = if self.setup.lacks(Flaw::BallotsAlike) { 0 } else { client as u64 };
        // A client's second proposal has other bits than its first.
        let serial = u64::from(self.clients[client].proposals) + u64::from(self.clients[client].orders) * 8;
        let bits = if self.setup.lacks(Flaw::BallotsAlike) { bits } else { bits * 256 + serial };
        Ballot { round: rounds.max().unwrap_or(0) + 1, bits }
    }

    fn propose(&mut self, client: usize, proposer: Option<Proposer>) {
        let (now, is_early) = (self.now(), self.setup.lacks(Flaw::CountFromProposal));
        let list = self.setup.clients[client].list.clone();
        let Some(proposer) = proposer else { return };
        let generation = proposer.generation();
        let state = &mut self.clients[client];
        (state.proposer, state.invented) = (Some(Box::new(proposer)), 0);
        if is_early {
            let members = state.view.roster().map(|roster| roster.members.clone()).unwrap_or_default();
            for (_, server) in list {
                let Some(report) = self.servers[server].membership() else { continue };
                if members.iter().all(|member| Some(member.id) != report.member) {
                    let sighting = Sighting { server, since: generation, elapsed_micros: 0, at: now };
                    self.clients[client].sightings.push((report.life, sighting));
                }
            }
        }
        self.say(client, || format!("begins to propose generation {generation}"));
        if self.setup.promises_at_once {
            for at in 0..self.setup.clients[client].list.len() {
                self.send_promise(client, at);
            }
        }
    }

    fn send_promise(&mut self, client: usize, at: usize) {
        let command = self.clients[client].proposer.as_deref().and_then(|proposer| proposer.command(at));
        if matches!(command, Some(RosterCommand::Promise { .. })) {
            self.send(client, at);
        }
    }

    pub(super) fn send(&mut self, client: usize, at: usize) {
        let Some(server) = self.behind(client, at) else { return };
        let command = self.clients[client].proposer.as_deref().and_then(|proposer| proposer.command(at));
        let Some(command) = command else { return };
        let answer = self.command(server, &command);
        self.say_command(client, server, &command, answer.accepted);
        self.take(client, at, &answer);
    }

    pub(super) fn invent(&mut self, client: usize, at: usize) {
        let Some((_, server)) = self.setup.clients[client].list.get(at).copied() else { return };
        let membership = self.servers[server].membership().cloned();
        let membership = membership.map(|membership| Membership { accepted: None, promised: None, ..membership });
        self.clients[client].invented += 1;
        let answer = RosterAnswer { accepted: true, membership, at_micros: 0 };
        self.say(client, || format!("does without n{}", server + 1));
        self.take(client, at, &answer);
    }

    fn take(&mut self, client: usize, at: usize, answer: &RosterAnswer) {
        let state = &mut self.clients[client];
        let Some(proposer) = &mut state.proposer else { return };
        let was_decided = proposer.decided().is_some();
        proposer.take(at, answer);
        let decided = proposer.decided().filter(|_| !was_decided).cloned();
        if proposer.end().is_some() || decided.is_some() {
            // From a decision on, the client installs the roster that it believes, like any other client.
            state.proposer = None;
        }
        let Some(decided) = decided else { return };
        // Only this client knows so far.
        if state.view.believe(decided.clone()) {
            self.change_view(client);
        }
        if self.decided.iter().any(|other| other.generation == decided.generation && *other != decided) {
            self.breach.get_or_insert(Breach::TwoRosters);
        }
        if !self.decided.contains(&decided) {
            self.decided.push(decided.clone());
            self.decided.sort_by_key(|roster| roster.generation);
        }
        self.say(client, || {
            let names: Vec<&str> = decided.members.iter().map(|member| &*member.address).collect();
            format!("has decided generation {}: {}", decided.generation, names.join(", "))
        });
    }

    pub(super) fn may_invent(&self, client: usize, at: usize) -> bool {
        let state = &self.clients[client];
        let is_first = state.view.generation() == 0;
        let flaw = if is_first { Flaw::FoundedByMajority } else { Flaw::MostSeats };
        let Some(proposer) = state.proposer.as_deref().filter(|_| self.setup.lacks(flaw)) else { return false };
        let nodes = self.setup.clients[client].list.len();
        let spare = nodes - Quorum::majority_of(nodes);
        let is_seats = matches!(proposer.command(at), Some(RosterCommand::Promise { .. } | RosterCommand::Accept(_)));
        // The same seats may be missing in both stages.
        is_seats && usize::from(state.invented) < 2 * spare && proposer.needs_every_seat()
    }
}
