//! Judges a history: computes when each client held each name, and checks the guarantees.
//!
//! A *turn* is one client's use of a lock, from the request to the end of the lease. An access is a read or a write of
//! the [registers](crate::register).

mod turn;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::clock::seconds;
use crate::history::{Event, Record};
use crate::plan::{Assumptions, FaultKind, Persistence};
use crate::register::AccessOutcome;
use crate::series::{HELD, LOST, NO_QUORUM};
use crate::task::NAMES;
use turn::{Turn, turns};

/// The findings in one history, or the sum of the findings in several histories.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// Leases that were valid at some time.
    pub grants: usize,
    /// Leases that were lost before their release.
    pub losses: usize,
    /// Leases that became valid again after they had been lost.
    pub revived_leases: usize,
    /// Requests for the names that clients compete for ([`NAMES`]). The requests of killed clients are missing.
    pub requests: u64,
    /// Of these requests, those that shared a command with other requests.
    pub batched_requests: u64,
    /// Clients that were killed.
    pub killed_clients: usize,
    /// The number of faults, by kind.
    pub faults: BTreeMap<FaultKind, usize>,
    /// The number of servers that [`FaultKind::Kill`] killed, by persistence. One such fault can kill several servers.
    pub killed_servers: BTreeMap<Persistence, usize>,
    /// Leases that began while an earlier lease of the same name was still valid.
    pub overlaps: usize,
    /// The longest overlap, in nanoseconds.
    pub longest_overlap: u64,
    /// The start and the end of each overlap, in nanoseconds of the [clock](crate::clock).
    pub overlap_spans: Vec<(u64, u64)>,
    /// Overlaps that no failover excuses. A failover excuses an overlap that begins at most one heartbeat before or
    /// after the failover, and lasts for at most one heartbeat.
    pub unexcused_overlaps: usize,
    /// The number of `quorlock run` processes that exited, by exit code. Processes that a signal ended are missing.
    pub exit_codes: BTreeMap<i32, usize>,
    /// Histories in which no lease began after the last fault had ended.
    pub stuck_histories: usize,
    /// Leases whose fence is not higher than the fence of an earlier lease.
    pub fences_out_of_order: usize,
    /// Accesses that came after their lease had ended.
    pub late_accesses: usize,
    /// Accesses that the fenced register refused, because of a lower fence.
    pub refused_accesses: usize,
    /// Writes that replaced a value of a fenced register that the client had not read (lost updates).
    pub fenced_overwrites: usize,
    /// Writes that replaced a value of a bare register that the client had not read.
    pub bare_overwrites: usize,
    /// All writes.
    pub writes: usize,
    /// Waiters that were not served after the end of all faults.
    pub starved_waiters: usize,
    /// The longest wait of a client that got the lock, in nanoseconds. Faults may have lengthened the wait.
    pub longest_wait: u64,
    /// How often an operator had to initialize a cluster again.
    pub initialized_again: usize,
    /// Clients that crashed, exited too early or printed invalid events.
    pub broken_clients: usize,
    /// A description of each finding, in order of time.
    pub messages: Vec<String>,
}

impl Findings {
    /// Judges a history.
    pub fn of(assumptions: Assumptions, records: &[Record]) -> Self {
        Self::judge_records(records, |_| assumptions == Assumptions::Kept)
    }

    /// Judges the history of a failover. Clients may need one heartbeat to notice the failover. After that, leases must
    /// not overlap and fences must increase.
    pub fn of_failover(records: &[Record], heartbeat: Duration) -> Self {
        let heartbeat = heartbeat.as_nanos() as u64;
        let failover_times = records.iter().filter_map(|record| match record {
            Record::FailedOver { at } => Some(*at),
            _ => None,
        });
        let failover_times: Vec<u64> = failover_times.collect();
        let is_near_failover = |at: u64| failover_times.iter().any(|failover_at| failover_at.abs_diff(at) <= heartbeat);
        let mut findings = Self::judge_records(records, |turn| !turn.valid_from.is_some_and(is_near_failover));
        let is_unexcused = |(from, to): &&(u64, u64)| to - from > heartbeat || !is_near_failover(*from);
        findings.unexcused_overlaps = findings.overlap_spans.iter().filter(is_unexcused).count();
        findings
    }

    /// Judges a history. If `is_strict` returns true for a lease, its fence must be higher than the fences of all leases
    /// that began earlier. Otherwise it must only be higher than the fences that were granted before the lease was
    /// requested.
    fn judge_records(records: &[Record], is_strict: impl Fn(&Turn) -> bool) -> Self {
        let mut findings = Self::default();
        let turns = turns(records);
        findings.count(records);
        let faults_ended_at = records.iter().find_map(|record| match record {
            Record::FaultsEnded { at } => Some(*at),
            _ => None,
        });
        let began_after_faults =
            |turn: &Turn| faults_ended_at.is_some() && turn.valid_from > faults_ended_at && turn.is_held();
        findings.stuck_histories = usize::from(!turns.iter().any(began_after_faults));
        for turn in &turns {
            findings.judge_turn(turn);
        }
        for name in NAMES {
            let mut held_turns: Vec<&Turn> = turns.iter().filter(|turn| turn.name == name && turn.is_held()).collect();
            held_turns.sort_by_key(|turn| turn.valid_from);
            findings.find_overlaps(&held_turns);
            findings.find_fences_out_of_order(&held_turns, &is_strict);
        }
        findings
    }

    /// The number of `quorlock run` processes that exited with this code.
    pub fn runs_with(&self, exit_code: i32) -> usize {
        self.exit_codes.get(&exit_code).copied().unwrap_or_default()
    }

    /// The number of violations. If an assumption is broken, overlaps and starved waiters are no violations.
    pub fn violations(&self, assumptions: Assumptions) -> usize {
        let common_violations =
            self.fences_out_of_order + self.revived_leases + self.fenced_overwrites + self.broken_clients;
        common_violations + if assumptions == Assumptions::Kept { self.overlaps + self.starved_waiters } else { 0 }
    }

    /// Adds the findings of another history.
    pub fn add(&mut self, other: Self) {
        self.grants += other.grants;
        self.losses += other.losses;
        self.revived_leases += other.revived_leases;
        self.requests += other.requests;
        self.batched_requests += other.batched_requests;
        self.killed_clients += other.killed_clients;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (persistence, count) in other.killed_servers {
            *self.killed_servers.entry(persistence).or_default() += count;
        }
        self.overlaps += other.overlaps;
        self.longest_overlap = self.longest_overlap.max(other.longest_overlap);
        self.overlap_spans.extend(other.overlap_spans);
        self.unexcused_overlaps += other.unexcused_overlaps;
        for (code, count) in other.exit_codes {
            *self.exit_codes.entry(code).or_default() += count;
        }
        self.stuck_histories += other.stuck_histories;
        self.fences_out_of_order += other.fences_out_of_order;
        self.late_accesses += other.late_accesses;
        self.refused_accesses += other.refused_accesses;
        self.fenced_overwrites += other.fenced_overwrites;
        self.bare_overwrites += other.bare_overwrites;
        self.writes += other.writes;
        self.starved_waiters += other.starved_waiters;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.initialized_again += other.initialized_again;
        self.broken_clients += other.broken_clients;
        self.messages.extend(other.messages);
    }

    fn count(&mut self, records: &[Record]) {
        for record in records {
            match record {
                Record::Fault { fault, persistence, .. } => {
                    *self.faults.entry(fault.kind).or_default() += 1;
                    for of_server in persistence.iter().filter(|_| fault.kind == FaultKind::Kill) {
                        *self.killed_servers.entry(*of_server).or_default() += 1;
                    }
                }
                Record::Client { event: Event::Sent { requests, batched, .. }, .. } => {
                    self.requests += requests;
                    self.batched_requests += batched;
                }
                Record::Killed { .. } => self.killed_clients += 1,
                Record::InitializedAgain { .. } => self.initialized_again += 1,
                Record::Broken { client, why } => {
                    self.broken_clients += 1;
                    self.messages.push(format!("client {client} broke: {why}"));
                }
                Record::RunEnded { client, code, message, .. } => {
                    *self.exit_codes.entry(*code).or_default() += 1;
                    if ![0, NO_QUORUM, HELD, LOST].contains(code) {
                        self.broken_clients += 1;
                        self.messages.push(format!("run {client} ended with {code}: {message}"));
                    }
                }
                Record::Client { .. }
                | Record::Register(_)
                | Record::FaultsEnded { .. }
                | Record::FailedOver { .. } => {}
            }
        }
    }

    fn judge_turn(&mut self, turn: &Turn) {
        self.grants += usize::from(turn.is_held());
        self.losses += usize::from(turn.is_held() && turn.lost_at.is_some());
        if let Some(at) = turn.revived_at {
            self.revived_leases += 1;
            self.messages.push(format!("lost, but valid again at {:.3}: {turn}", turn.seconds(at)));
        }
        if turn.is_starved() {
            self.starved_waiters += 1;
            let why = turn.error.as_deref().unwrap_or("no reply");
            self.messages.push(format!("starved: {turn}: {why}"));
        } else if let Some(valid_from) = turn.valid_from {
            self.longest_wait = self.longest_wait.max(valid_from - turn.requested_at);
        }
        for access in &turn.accesses {
            self.writes += usize::from(access.is_write);
            self.late_accesses += usize::from(access.at > turn.valid_until());
            self.refused_accesses += usize::from(access.fenced == Some(AccessOutcome::Refused));
            self.bare_overwrites += usize::from(access.bare == AccessOutcome::Overwrote);
            if access.fenced == Some(AccessOutcome::Overwrote) {
                self.fenced_overwrites += 1;
                self.messages
                    .push(format!("the fenced register was overwritten at {:.3} by {turn}", turn.seconds(access.at)));
            }
        }
    }

    /// Records the overlaps of leases of one name. The turns must be ordered by the start of their leases.
    fn find_overlaps(&mut self, held_turns: &[&Turn]) {
        let mut last_to_end: Option<&Turn> = None;
        for &later in held_turns {
            let from = later.valid_from.unwrap_or_default();
            if let Some(earlier) = last_to_end.filter(|earlier| from < earlier.end()) {
                let overlap = earlier.end().min(later.end()) - from;
                self.overlaps += 1;
                self.overlap_spans.push((from, from + overlap));
                self.longest_overlap = self.longest_overlap.max(overlap);
                self.messages.push(format!("two valid leases for {:.3} s: {earlier} and {later}", seconds(overlap)));
            }
            last_to_end = last_to_end.filter(|earlier| earlier.end() >= later.end()).or(Some(later));
        }
    }

    /// Records leases with a fence that [`judge_records`](Self::judge_records) forbids, or with the fence of an earlier
    /// lease. The turns must be ordered by the start of their leases.
    fn find_fences_out_of_order(&mut self, held_turns: &[&Turn], is_strict: impl Fn(&Turn) -> bool) {
        for (index, &later) in held_turns.iter().enumerate().filter(|(_, turn)| turn.fence.is_some()) {
            let mut earlier_turns = held_turns[..index].iter().filter(|earlier| earlier.fence.is_some());
            let conflict = earlier_turns.find(|earlier| {
                let must_be_lower = is_strict(later) || earlier.valid_from < Some(later.requested_at);
                earlier.fence == later.fence || earlier.fence > later.fence && must_be_lower
            });
            if let Some(earlier) = conflict {
                self.fences_out_of_order += 1;
                self.messages.push(format!("fence not higher than an earlier fence: {earlier} and then {later}"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
