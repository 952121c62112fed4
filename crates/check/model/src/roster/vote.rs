//! What a client learns, the votes that it asks for, and the quarantines that it measures.

use quorlock_core::node::roster::{MemberId, Membership, RosterCommand};
use quorlock_core::time::Moment;
use quorlock_core::vote::Vote;

use super::client::{Counted, Sighting};
use super::setup::Flaw;
use super::world::World;
use crate::world::Breach;

impl World {
    /// Reads all servers: learns the roster, tells that it is settled, and begins to count quarantines.
    pub(super) fn look(&mut self, client: usize) {
        if self.setup.lacks(Flaw::Lists) {
            return;
        }
        let setup = self.setup.clone();
        // Nothing else depends on the moment at which a client sees that a roster is settled.
        let now = if setup.resizes() { self.now() } else { Moment::from_nanos(0) };
        let mut reports = self.reports(client);
        for report in reports.iter_mut().flatten() {
            if setup.lacks(Flaw::OneAcknowledgement) {
                let is_old = report.roster.as_ref().is_some_and(|roster| {
                    report.member.into_iter().chain(report.former).any(|id| roster.before.contains(&id))
                });
                report.is_settled |= is_old;
            }
        }
        if setup.lacks(Flaw::MostSeats) {
            settle_by_most_seats(&mut reports);
        }
        let state = &mut self.clients[client];
        if state.view.learn(reports.iter().flatten(), reports.len(), now).is_err() {
            state.is_confused = true;
            return;
        }
        self.change_view(client);
        let state = &self.clients[client];
        let generation = state.view.generation();
        let is_settled = state.view.settled().is_some();
        for (at, report) in reports.iter().enumerate() {
            let (Some(report), Some(server)) = (report, self.behind(client, at)) else { continue };
            let is_current = report.generation() == generation && generation > 0;
            if is_current && is_settled && !report.is_settled {
                self.command(server, &RosterCommand::Settle { generation });
            }
            self.sight(client, server, report);
        }
    }

    /// Notes how much of a quarantine has passed.
    fn sight(&mut self, client: usize, server: usize, report: &Membership) {
        let now = self.now();
        let is_early = self.setup.lacks(Flaw::CountUnsettled);
        let state = &mut self.clients[client];
        let Some(quarantine) = report.quarantine else { return };
        let is_ours = |(life, sighting): &&(_, Sighting)| *life == report.life && sighting.since == quarantine.since;
        let is_known = state.sightings.iter().any(|sighting| is_ours(&sighting));
        if is_known || !(state.view.may_count(quarantine.since) || is_early) {
            return;
        }
        let (since, elapsed_micros) = (quarantine.since, quarantine.elapsed_micros);
        state.sightings.retain(|(_, sighting)| sighting.server != server);
        state.sightings.push((report.life, Sighting { server, since, elapsed_micros, at: now }));
        state.sightings.sort_by_key(|(_, sighting)| *sighting);
    }

    pub(super) fn claim(&mut self, client: usize, at: usize) {
        let (Some(server), now) = (self.behind(client, at), self.now()) else { return };
        let sightings = self.clients[client].sightings.clone();
        for (life, sighting) in sightings.into_iter().filter(|(_, sighting)| sighting.server == server) {
            let passed = now.since(sighting.at).as_micros() as u64;
            let elapsed_micros = sighting.elapsed_micros + passed;
            let claim = RosterCommand::Claim { life, since: sighting.since, elapsed_micros };
            if passed > 0 || self.setup.lacks(Flaw::QuarantineShort) {
                self.command(server, &claim);
                if self.setup.lacks(Flaw::ClaimsAdded) {
                    // It counts on from what it has claimed, and not from what the node then says.
                    let state = &mut self.clients[client];
                    let same = state.sightings.iter_mut().filter(|(_, other)| other.server == server);
                    same.for_each(|(_, sighting)| sighting.at = now);
                }
            }
        }
        self.say(client, || format!("claims that time has passed to n{}", server + 1));
    }

    pub(super) fn ask(&mut self, client: usize, at: usize) {
        let (Some(server), now, node_time) = (self.behind(client, at), self.now(), self.node_time()) else { return };
        if self.counted_as(client, server).is_none() {
            return;
        }
        let Some(request) = self.clients[client].request(client) else { return };
        let Some(epoch) = self.servers[server].epoch() else { return };
        let Some(answer) = self.servers[server].vote(&request, epoch, node_time) else { return };
        self.say(client, || format!("asks n{}", server + 1));
        let Vote::Grant { fence, .. } = answer.vote else { return };
        let Some(member) = self.counted_as(client, server) else { return };
        self.clients[client].count(Counted { member, fence, sent: now });
        self.evaluate(client);
    }

    /// Drops the votes that do not count under a roster that the client has just learned.
    pub(super) fn change_view(&mut self, client: usize) {
        let state = &self.clients[client];
        if state.counted != state.view.generation() {
            let setup = self.setup.clone();
            self.clients[client].drop_votes(&setup);
            self.evaluate(client);
        }
    }

    /// Whether the client has a majority now.
    fn evaluate(&mut self, client: usize) {
        let (now, state) = (self.now(), &self.clients[client]);
        let Some(majority) = state.view.majority().filter(|_| !state.votes.is_empty()) else { return };
        let had = state.lease.map(|(fence, _)| fence);
        self.clients[client].evaluate(majority, now);
        if let Some((fence, _)) = self.clients[client].lease.filter(|(fence, _)| Some(*fence) != had) {
            if fence <= self.highest {
                self.breach.get_or_insert(Breach::FenceOrder);
            }
            self.highest = self.highest.max(fence);
            self.say(client, || format!("wins with fence {fence}"));
        }
    }

    /// The member whose vote this server's vote is, for the client.
    pub(super) fn counted_as(&self, client: usize, server: usize) -> Option<MemberId> {
        let (membership, view) = (self.servers[server].membership()?, &self.clients[client].view);
        let member = membership.member?;
        if self.setup.lacks(Flaw::NoRosterNamed) {
            return view.roster()?.member(member).map(|member| member.id);
        }
        let is_loose = self.setup.lacks(Flaw::Lists);
        if is_loose { Some(member) } else { view.counts(membership) }
    }
}

/// Reports a roster of every seat as settled if a majority of its members has installed it.
fn settle_by_most_seats(reports: &mut [Option<Membership>]) {
    let Some(roster) = reports.iter().flatten().filter_map(|report| report.roster.clone()).max_by_key(|r| r.generation)
    else {
        return;
    };
    let has_moved = |report: &&mut Membership| report.seat().is_some() && report.roster.as_ref() == Some(&roster);
    let moved: Vec<&mut Membership> = reports.iter_mut().flatten().filter(has_moved).collect();
    if roster.before.is_empty() && moved.len() >= roster.majority() {
        for report in moved {
            report.is_settled = true;
        }
    }
}
