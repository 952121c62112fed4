//! A client reads the servers, asks for votes, and measures quarantines.

use quorlock_core::node::roster::{Membership, RosterCommand};
use quorlock_core::quorum::MemberId;
use quorlock_core::time::Moment;
use quorlock_core::vote::Vote;

use super::client::{CountedVote, QuarantineReading};
use super::setup::Flaw;
use super::world::World;
use crate::world::Violation;

impl World {
    /// Reads all servers: learns the roster, marks it as settled on servers that do not know yet, and starts to measure
    /// quarantines.
    pub(super) fn read_servers(&mut self, client: usize) {
        if self.setup.has_flaw(Flaw::VotesOfListsCount) {
            return;
        }
        let setup = self.setup.clone();
        // Only a change of the number of members depends on when a client learned that the roster is settled.
        let now = if setup.resizes() { self.now() } else { Moment::from_nanos(0) };
        let mut reports = self.reports(client);
        for report in reports.iter_mut().flatten() {
            if setup.has_flaw(Flaw::SettledByOneMember) {
                let is_old = report.roster.as_ref().is_some_and(|roster| {
                    report.member.into_iter().chain(report.former).any(|id| roster.before.contains(&id))
                });
                report.is_settled |= is_old;
            }
        }
        if setup.has_flaw(Flaw::MajorityOfSeatsEnough) {
            settle_by_most_seats(&mut reports);
        }
        let state = &mut self.clients[client];
        if state.view.learn(reports.iter().flatten(), reports.len(), now).is_err() {
            state.has_read_two_rosters = true;
            return;
        }
        self.apply_new_roster(client);
        let state = &self.clients[client];
        let generation = state.view.generation();
        let is_settled = state.view.settled().is_some();
        for (position, report) in reports.iter().enumerate() {
            let (Some(report), Some(server)) = (report, self.server_at(client, position)) else { continue };
            let is_current = report.generation() == generation && generation > 0;
            if is_current && is_settled && !report.is_settled {
                self.command(server, &RosterCommand::Settle { generation });
            }
            self.record_quarantine_reading(client, server, report);
        }
    }

    /// Records how much of a server's quarantine has elapsed.
    fn record_quarantine_reading(&mut self, client: usize, server: usize, report: &Membership) {
        let now = self.now();
        let is_early = self.setup.has_flaw(Flaw::QuarantineCountedFromDecision);
        let state = &mut self.clients[client];
        let Some(quarantine) = report.quarantine else { return };
        let is_ours =
            |(life, reading): &&(_, QuarantineReading)| *life == report.life && reading.since == quarantine.since;
        let is_known = state.quarantine_readings.iter().any(|reading| is_ours(&reading));
        if is_known || !(state.view.may_count(quarantine.since) || is_early) {
            return;
        }
        let (since, elapsed_micros) = (quarantine.since, quarantine.elapsed_micros);
        state.quarantine_readings.retain(|(_, reading)| reading.server != server);
        state
            .quarantine_readings
            .push((report.life, QuarantineReading { server, since, elapsed_micros, position: now }));
        state.quarantine_readings.sort_by_key(|(_, reading)| *reading);
    }

    pub(super) fn claim(&mut self, client: usize, position: usize) {
        let (Some(server), now) = (self.server_at(client, position), self.now()) else { return };
        let quarantine_readings = self.clients[client].quarantine_readings.clone();
        for (life, reading) in quarantine_readings.into_iter().filter(|(_, reading)| reading.server == server) {
            let passed = now.since(reading.position).as_micros() as u64;
            let elapsed_micros = reading.elapsed_micros + passed;
            let claim = RosterCommand::Claim { life, since: reading.since, elapsed_micros };
            if passed > 0 || self.setup.has_flaw(Flaw::QuarantineEndsWithFirstClaim) {
                self.command(server, &claim);
                if self.setup.has_flaw(Flaw::ClaimsAddedUp) {
                    // The client continues from its own claim, and not from the sum that the node stores.
                    let state = &mut self.clients[client];
                    let same = state.quarantine_readings.iter_mut().filter(|(_, other)| other.server == server);
                    same.for_each(|(_, reading)| reading.position = now);
                }
            }
        }
        self.trace_client(client, || format!("claims that time has passed to n{}", server + 1));
    }

    pub(super) fn ask(&mut self, client: usize, position: usize) {
        let (Some(server), now, node_time) = (self.server_at(client, position), self.now(), self.node_time()) else {
            return;
        };
        if self.member_of_counted_vote(client, server).is_none() {
            return;
        }
        let Some(request) = self.clients[client].request(client) else { return };
        let Some(epoch) = self.servers[server].epoch() else { return };
        let Some(answer) = self.servers[server].vote(&request, epoch, node_time) else { return };
        self.trace_client(client, || format!("asks n{}", server + 1));
        let Vote::Grant { fence, .. } = answer.vote else { return };
        let Some(member) = self.member_of_counted_vote(client, server) else { return };
        self.clients[client].count(CountedVote { member, fence, sent: now });
        self.evaluate(client);
    }

    /// If the client has learned a new roster, drops the votes that do not count under this roster.
    pub(super) fn apply_new_roster(&mut self, client: usize) {
        let state = &self.clients[client];
        if state.counted_generation != state.view.generation() {
            let setup = self.setup.clone();
            self.clients[client].drop_votes(&setup);
            self.evaluate(client);
        }
    }

    /// Wins or extends the client's lease if the client has a majority, and checks a new fence.
    fn evaluate(&mut self, client: usize) {
        let (now, state) = (self.now(), &self.clients[client]);
        let Some(majority) = state.view.roster().map(|roster| roster.majority()).filter(|_| !state.votes.is_empty())
        else {
            return;
        };
        let had = state.lease.map(|(fence, _)| fence);
        self.clients[client].evaluate(majority, now);
        if let Some((fence, _)) = self.clients[client].lease.filter(|(fence, _)| Some(*fence) != had) {
            if fence <= self.highest_fence {
                self.violation.get_or_insert(Violation::FenceOrder);
            }
            self.highest_fence = self.highest_fence.max(fence);
            self.trace_client(client, || format!("wins with fence {fence}"));
        }
    }

    /// The member for which the client counts this server's vote.
    pub(super) fn member_of_counted_vote(&self, client: usize, server: usize) -> Option<MemberId> {
        let (membership, view) = (self.servers[server].membership()?, &self.clients[client].view);
        let member = membership.member?;
        if self.setup.has_flaw(Flaw::RequestsNameNoRoster) {
            return view.roster()?.member(member).map(|member| member.id);
        }
        let counts_all = self.setup.has_flaw(Flaw::VotesOfListsCount);
        if counts_all {
            return Some(member);
        }
        let elector = membership.elector().filter(|elector| elector.generation == view.generation())?;
        view.electors(self.setup.clients[client].list.len())?.counts(elector).then_some(member)
    }
}

/// Marks a roster that every seat had to accept as settled if a majority of its members has installed it.
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
