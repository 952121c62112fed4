//! Proposals: a client plans and carries out a change of the roster.

use std::sync::Arc;

use quorlock_core::node::roster::{Ballot, Change, ClusterId, Membership, Roster, RosterAnswer, RosterCommand};
use quorlock_core::quorum::Quorum;
use quorlock_core::roster::{Plan, Proposer};

use super::client::QuarantineReading;
use super::setup::{Flaw, MembershipChange};
use super::world::World;
use crate::world::Violation;

impl World {
    /// Reads all servers, and then starts the proposal that the client's view plans.
    pub(super) fn read_and_propose(&mut self, client: usize) {
        self.read_servers(client);
        self.propose_planned(client);
    }

    /// The memberships of all servers in the client's list. A client with the flaw needs no answers from servers that
    /// it cannot reach, so these servers are included.
    fn reports_of_all_servers(&self, client: usize) -> Vec<Option<Membership>> {
        let list = &self.setup.clients[client].list;
        list.iter().map(|(_, server)| self.servers[*server].membership().cloned()).collect()
    }

    /// Starts the proposal that the client's view plans, without reading the servers first.
    pub(super) fn propose_planned(&mut self, client: usize) {
        let addresses = self.addresses(client);
        let reports = if self.setup.has_flaw(Flaw::MajorityOfSeatsEnough) {
            self.reports_of_all_servers(client)
        } else {
            self.reports(client)
        };
        let memberships: Vec<Option<&Membership>> = reports.iter().map(Option::as_ref).collect();
        let state = &self.clients[client];
        if state.has_read_two_rosters {
            return;
        }
        let plan = state.view.plan(&addresses, &memberships);
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
            _ if self.setup.has_flaw(Flaw::EverySeatOfAnyList) => self.among_seats(client, addresses, &reports, ballot),
            _ => None,
        };
        self.start_proposal(client, proposer);
    }

    fn among_seats(
        &self,
        client: usize,
        addresses: Vec<Arc<str>>,
        reports: &[Option<Membership>],
        ballot: Ballot,
    ) -> Option<Proposer> {
        let mut seats: Vec<Membership> = reports.iter().cloned().collect::<Option<_>>()?;
        if self.setup.has_flaw(Flaw::EverySeatOfAnyList) {
            for seat in &mut seats {
                let roster = seat.roster.as_mut().map(Arc::make_mut);
                let members = roster.into_iter().flat_map(|roster| &mut roster.members);
                members.zip(&addresses).for_each(|(member, address)| member.address = address.clone());
            }
        }
        let seats: Vec<&Membership> = seats.iter().collect();
        let two_clients_found_cluster = (ClusterId(client as u128 + 2), self.setup.settings());
        Proposer::among_seats(addresses, &seats, two_clients_found_cluster, ballot)
    }

    pub(super) fn propose_membership_change(&mut self, client: usize, membership_change: usize) {
        self.read_servers(client);
        let MembershipChange { add, remove } = self.setup.clients[client].membership_changes[membership_change].clone();
        let (addresses, reports) = (self.addresses(client), self.reports(client));
        let Some(roster) = self.clients[client].view.roster().cloned() else { return };
        let id_at = |position: &usize| roster.member_at(&addresses[*position]).map(|member| member.id);
        let fresh_at = |position: &usize| {
            let fresh = reports[*position].as_ref()?.member.filter(|id| roster.member(*id).is_none())?;
            Some((fresh, addresses[*position].clone()))
        };
        let (Some(remove), Some(add)) = (remove.iter().map(id_at).collect(), add.iter().map(fresh_at).collect()) else {
            return;
        };
        let ballot = self.ballot(client, &reports);
        let value = self.successor(client, &Change { add, remove, settings: None });
        let proposer = value.map(|value| Proposer::among_members(roster, Some(value), ballot, addresses.len()));
        self.start_proposal(client, proposer);
    }

    fn successor(&self, client: usize, change: &Change) -> Option<Arc<Roster>> {
        let (view, now) = (&self.clients[client].view, self.now());
        let roster = view.roster()?;
        let is_early = self.setup.has_flaw(Flaw::ProposedBeforeSettled)
            || self.setup.has_flaw(Flaw::ResizedTwiceAtOnce) && view.settled().is_some();
        let mut next =
            if is_early { Arc::new(roster.successor(change).ok()?) } else { view.successor(change, now).ok()? };
        if self.setup.has_flaw(Flaw::ResizeWithoutQuarantine) {
            let members = &mut Arc::make_mut(&mut next).members;
            for member in members {
                member.since = roster.member(member.id).map_or(member.since, |before| before.since);
            }
        }
        Some(next)
    }

    /// A ballot higher than all ballots that the client has read.
    fn ballot(&self, client: usize, reports: &[Option<Membership>]) -> Ballot {
        let rounds = reports.iter().flatten().filter_map(|report| report.promised).map(|promise| promise.ballot.round);
        let bits = if self.setup.has_flaw(Flaw::BallotsWithoutRandomBits) { 0 } else { client as u64 };
        // Each proposal of a client has different bits.
        let serial = u64::from(self.clients[client].proposals) + u64::from(self.clients[client].membership_changes) * 8;
        let bits = if self.setup.has_flaw(Flaw::BallotsWithoutRandomBits) { bits } else { bits * 256 + serial };
        Ballot { round: rounds.max().unwrap_or(0) + 1, bits }
    }

    fn start_proposal(&mut self, client: usize, proposer: Option<Proposer>) {
        let (now, is_early) = (self.now(), self.setup.has_flaw(Flaw::QuarantineCountedFromProposal));
        let list = self.setup.clients[client].list.clone();
        let Some(proposer) = proposer else { return };
        let generation = proposer.generation();
        let state = &mut self.clients[client];
        (state.proposer, state.assumed_agreements) = (Some(Box::new(proposer)), 0);
        if is_early {
            let members = state.view.roster().map(|roster| roster.members.clone()).unwrap_or_default();
            for (_, server) in list {
                let Some(report) = self.servers[server].membership() else { continue };
                if members.iter().all(|member| Some(member.id) != report.member) {
                    let reading = QuarantineReading { server, since: generation, elapsed_micros: 0, position: now };
                    self.clients[client].quarantine_readings.push((report.life, reading));
                }
            }
        }
        self.trace_client(client, || format!("starts to propose generation {generation}"));
        if self.setup.promises_in_one_step {
            for position in 0..self.setup.clients[client].list.len() {
                self.send_promise(client, position);
            }
        }
    }

    fn send_promise(&mut self, client: usize, position: usize) {
        let command = self.clients[client].proposer.as_deref().and_then(|proposer| proposer.command(position));
        if matches!(command, Some(RosterCommand::Promise { .. })) {
            self.send(client, position);
        }
    }

    pub(super) fn send(&mut self, client: usize, position: usize) {
        let Some(server) = self.server_at(client, position) else { return };
        let command = self.clients[client].proposer.as_deref().and_then(|proposer| proposer.command(position));
        let Some(command) = command else { return };
        let answer = self.command(server, &command);
        self.trace_command(client, server, &command, answer.accepted);
        self.take(client, position, &answer);
    }

    pub(super) fn assume_agreement(&mut self, client: usize, position: usize) {
        let Some((_, server)) = self.setup.clients[client].list.get(position).copied() else { return };
        let membership = self.servers[server].membership().cloned();
        let membership = membership.map(|membership| Membership { accepted: None, promised: None, ..membership });
        self.clients[client].assumed_agreements += 1;
        let answer = RosterAnswer { accepted: true, membership, at_micros: 0 };
        self.trace_client(client, || format!("assumes that n{} agrees", server + 1));
        self.take(client, position, &answer);
    }

    fn take(&mut self, client: usize, position: usize, answer: &RosterAnswer) {
        let state = &mut self.clients[client];
        let Some(proposer) = &mut state.proposer else { return };
        let was_decided = proposer.decided().is_some();
        proposer.take(position, answer);
        let decided = proposer.decided().filter(|_| !was_decided).cloned();
        if proposer.end().is_some() || decided.is_some() {
            // After the decision, this client installs the decided roster as any other client does.
            state.proposer = None;
        }
        let Some(decided) = decided else { return };
        // So far only this client knows the decision.
        if state.view.believe(decided.clone()) {
            self.apply_new_roster(client);
        }
        if self.decided.iter().any(|other| other.generation == decided.generation && *other != decided) {
            self.violation.get_or_insert(Violation::TwoRosters);
        }
        if !self.decided.contains(&decided) {
            self.decided.push(decided.clone());
            self.decided.sort_by_key(|roster| roster.generation);
        }
        self.trace_client(client, || {
            let names: Vec<&str> = decided.members.iter().map(|member| &*member.address).collect();
            format!("has decided generation {}: {}", decided.generation, names.join(", "))
        });
    }

    pub(super) fn may_assume_agreement(&self, client: usize, position: usize) -> bool {
        let state = &self.clients[client];
        let is_first = state.view.generation() == 0;
        let flaw = if is_first { Flaw::FoundedByMajority } else { Flaw::MajorityOfSeatsEnough };
        let Some(proposer) = state.proposer.as_deref().filter(|_| self.setup.has_flaw(flaw)) else { return false };
        let nodes = self.setup.clients[client].list.len();
        let spare = nodes - Quorum::majority_of(nodes);
        let asks_seats =
            matches!(proposer.command(position), Some(RosterCommand::Promise { .. } | RosterCommand::Accept(_)));
        // Twice, because the same seats may be missing for promises and for acceptances.
        asks_seats && usize::from(state.assumed_agreements) < 2 * spare && proposer.needs_every_seat()
    }
}
