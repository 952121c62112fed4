//! A client reads the servers, asks for votes, and measures quarantines.

use quorlock_core::acquire::Acquire;
use quorlock_core::hold::{Hold, Step};
use quorlock_core::node::roster::{Membership, RosterCommand};
use quorlock_core::quorum::Elector;
use quorlock_core::time::Moment;
use quorlock_core::vote::Outcome;

use super::client::QuarantineReading;
use super::electors::elector;
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

    /// Sends the client's request to the server at this position, and takes the answer.
    pub(super) fn ask(&mut self, client: usize, position: usize) {
        let (Some(server), now, node_time) = (self.server_at(client, position), self.now(), self.node_time()) else {
            return;
        };
        let Some(elector) = self.counted_elector(client, position, server) else { return };
        let steps = self.clients[client].start(position, now);
        self.perform(client, steps);
        let Some((round, request)) = self.clients[client].asked[position].take() else { return };
        let Some(epoch) = self.servers[server].epoch() else { return };
        let Some(answer) = self.servers[server].vote(&request, epoch, node_time) else { return };
        self.trace_client(client, || format!("asks n{}", server + 1));
        let outcome = Outcome::Voted { vote: answer.vote, elector, sent: now };
        let steps = self.clients[client].take(position, round, outcome, now);
        self.perform(client, steps);
        // Only without the rule, the state machine learns the roster after it has counted a vote.
        self.change_roster(client);
    }

    /// After the client has learned a roster, makes it known to the state machine.
    pub(super) fn apply_new_roster(&mut self, client: usize) {
        if !self.setup.has_flaw(Flaw::CountedBeforeDropped) {
            self.change_roster(client);
        }
    }

    fn change_roster(&mut self, client: usize) {
        let state = &self.clients[client];
        if state.known_generation != state.view.generation() {
            let (setup, now) = (self.setup.clone(), self.now());
            let steps = self.clients[client].change_roster(&setup, now);
            self.perform(client, steps);
        }
    }

    /// Performs the steps of a client's state machine. Nothing is released: votes expire.
    pub(super) fn perform(&mut self, client: usize, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Ask { nodes, round, request } => {
                    for node in nodes.iter() {
                        self.clients[client].asked[node] = Some((round, request.clone()));
                    }
                }
                Step::Won { hold, .. } => self.win(client, hold),
                Step::Defeated(_) | Step::Failed { .. } => self.clients[client].asked.fill(None),
                Step::Lost(_) => {
                    let state = &mut *self.clients[client];
                    state.hold = None;
                    state.asked.fill(None);
                }
                Step::Release { .. } | Step::Waits(_) | Step::Renewed { .. } => {}
            }
        }
        let state = &self.clients[client];
        if state.machine.as_ref().is_some_and(Acquire::is_finished) {
            self.clients[client].machine = None;
        }
    }

    fn win(&mut self, client: usize, hold: Hold) {
        if let Some(fence) = hold.fence() {
            if fence <= self.highest_fence {
                self.violation.get_or_insert(Violation::FenceOrder);
            }
            self.highest_fence = self.highest_fence.max(fence);
            self.trace_client(client, || format!("wins with fence {fence}"));
        }
        let renews = self.setup.renews;
        let state = &mut *self.clients[client];
        (state.machine, state.hold) = (None, Some(hold));
        if !renews {
            state.asked.fill(None);
        }
    }

    /// Who votes if the client asks this server; `None` if the vote would not count.
    pub(super) fn counted_elector(&self, client: usize, position: usize, server: usize) -> Option<Elector> {
        let state = &self.clients[client];
        let membership = self.servers[server].membership()?;
        let elector = elector(&self.setup, state, membership, (position, server))?;
        state.electors()?.counts(elector).then_some(elector)
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
