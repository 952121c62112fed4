//! Judges a history: computes when each client held each name, and checks the guarantees.

mod turn;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::clock::seconds;
use crate::history::{Event, Record};
use crate::plan::{Assumptions, FaultKind, Persistence};
use crate::register::Outcome;
use crate::series::{HELD, LOST, NO_QUORUM};
use crate::task::NAMES;
use turn::{Turn, turns};

/// The findings in one history, or the sum of the findings in several histories.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// Leases that were valid for a while.
    pub grants: usize,
    /// Leases that were lost before their release.
    pub losses: usize,
    /// Leases that became valid again after they had been lost.
    pub revived: usize,
    /// Requests about the judged names. Requests of killed clients are missing.
    pub requests: u64,
    /// Requests about the judged names that shared a command with other requests.
    pub batched: u64,
    /// Clients that were killed.
    pub killed: usize,
    /// The number of faults, by kind.
    pub faults: BTreeMap<FaultKind, usize>,
    /// The number of killed servers that restarted from their files, by persistence.
    pub kills: BTreeMap<Persistence, usize>,
    /// Leases that began while an earlier lease of the same name was still valid.
    pub overlaps: usize,
    /// The longest overlap, in nanoseconds.
    pub longest_overlap: u64,
    /// The start and the end of each overlap.
    pub overlap_spans: Vec<(u64, u64)>,
    /// Overlaps that lasted longer than one heartbeat, or began more than one heartbeat before or after a failover.
    pub long_overlaps: usize,
    /// The number of runs of `quorlock run` that ended by themselves, by exit code.
    pub runs: BTreeMap<i32, usize>,
    /// Episodes in which no lease began after the last fault.
    pub stuck: usize,
    /// Leases whose fence is not higher than the fence of an earlier lease.
    pub fences_out_of_order: usize,
    /// Reads and writes that came after their lease had ended.
    pub late_accesses: usize,
    /// Reads and writes that a fence check refused.
    pub refused_accesses: usize,
    /// Writes to the fenced registers that overwrote another client's write.
    pub fenced_overwrites: usize,
    /// Writes to the bare registers that overwrote another client's write.
    pub bare_overwrites: usize,
    /// All writes.
    pub writes: usize,
    /// Waiters that were not served after the end of all faults.
    pub starved: usize,
    /// The longest wait of a served client, in nanoseconds, including faults.
    pub longest_wait: u64,
    /// How often a cluster had to be initialized again.
    pub initialized_again: usize,
    /// Clients that ended by themselves or printed invalid events.
    pub broken: usize,
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
        let failovers = records.iter().filter_map(|record| match record {
            Record::FailedOver { at } => Some(*at),
            _ => None,
        });
        let failovers: Vec<u64> = failovers.collect();
        let is_near_failover = |at: u64| failovers.iter().any(|switch| switch.abs_diff(at) <= heartbeat);
        let mut findings = Self::judge_records(records, |turn| !turn.from.is_some_and(is_near_failover));
        let is_too_long = |(from, to): &&(u64, u64)| to - from > heartbeat || !is_near_failover(*from);
        findings.long_overlaps = findings.overlap_spans.iter().filter(is_too_long).count();
        findings
    }

    /// Judges a history. `is_strict` selects the leases whose fences must increase in the order in which the leases
    /// begin. The fence of any other lease must be higher than all fences that were granted before its request.
    fn judge_records(records: &[Record], is_strict: impl Fn(&Turn) -> bool) -> Self {
        let mut findings = Self::default();
        let turns = turns(records);
        findings.count(records);
        let faults_ended_at = records.iter().find_map(|record| match record {
            Record::FaultsEnded { at } => Some(*at),
            _ => None,
        });
        let is_after = |turn: &Turn| faults_ended_at.is_some() && turn.from > faults_ended_at && turn.is_held();
        findings.stuck = usize::from(!turns.iter().any(is_after));
        for turn in &turns {
            findings.judge_turn(turn);
        }
        for name in NAMES {
            let mut held: Vec<&Turn> = turns.iter().filter(|turn| turn.name == name && turn.is_held()).collect();
            held.sort_by_key(|turn| turn.from);
            findings.find_overlaps(&held);
            findings.find_disorder(&held, &is_strict);
        }
        findings
    }

    /// The number of runs that ended with this exit code.
    pub fn runs_with(&self, code: i32) -> usize {
        self.runs.get(&code).copied().unwrap_or_default()
    }

    /// The number of violations. If an assumption is broken, overlaps and starved waiters are no violations.
    pub fn violations(&self, assumptions: Assumptions) -> usize {
        let always = self.fences_out_of_order + self.revived + self.fenced_overwrites + self.broken;
        always + if assumptions == Assumptions::Kept { self.overlaps + self.starved } else { 0 }
    }

    /// Adds the findings of another history.
    pub fn add(&mut self, other: Self) {
        self.grants += other.grants;
        self.losses += other.losses;
        self.revived += other.revived;
        self.requests += other.requests;
        self.batched += other.batched;
        self.killed += other.killed;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (persistence, count) in other.kills {
            *self.kills.entry(persistence).or_default() += count;
        }
        self.overlaps += other.overlaps;
        self.longest_overlap = self.longest_overlap.max(other.longest_overlap);
        self.overlap_spans.extend(other.overlap_spans);
        self.long_overlaps += other.long_overlaps;
        for (code, count) in other.runs {
            *self.runs.entry(code).or_default() += count;
        }
        self.stuck += other.stuck;
        self.fences_out_of_order += other.fences_out_of_order;
        self.late_accesses += other.late_accesses;
        self.refused_accesses += other.refused_accesses;
        self.fenced_overwrites += other.fenced_overwrites;
        self.bare_overwrites += other.bare_overwrites;
        self.writes += other.writes;
        self.starved += other.starved;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.initialized_again += other.initialized_again;
        self.broken += other.broken;
        self.messages.extend(other.messages);
    }

    fn count(&mut self, records: &[Record]) {
        for record in records {
            match record {
                Record::Fault { fault, persistence, .. } => {
                    *self.faults.entry(fault.kind).or_default() += 1;
                    for server in persistence.iter().filter(|_| fault.kind == FaultKind::Kill) {
                        *self.kills.entry(*server).or_default() += 1;
                    }
                }
                Record::Client { event: Event::Sent { requests, batched, .. }, .. } => {
                    self.requests += requests;
                    self.batched += batched;
                }
                Record::Killed { .. } => self.killed += 1,
                Record::InitializedAgain { .. } => self.initialized_again += 1,
                Record::Broken { client, why } => {
                    self.broken += 1;
                    self.messages.push(format!("client {client} broke: {why}"));
                }
                Record::RunEnded { client, code, message, .. } => {
                    *self.runs.entry(*code).or_default() += 1;
                    if ![0, NO_QUORUM, HELD, LOST].contains(code) {
                        self.broken += 1;
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
        self.losses += usize::from(turn.is_held() && turn.lost.is_some());
        if let Some(at) = turn.revived {
            self.revived += 1;
            self.messages.push(format!("lost, but valid again at {:.3}: {turn}", turn.seconds(at)));
        }
        if turn.is_starved() {
            self.starved += 1;
            let why = turn.gave_up.as_deref().unwrap_or("no reply");
            self.messages.push(format!("starved: {turn}: {why}"));
        } else if let Some(from) = turn.from {
            self.longest_wait = self.longest_wait.max(from - turn.requested_at);
        }
        for entry in &turn.entries {
            self.writes += usize::from(entry.is_write);
            self.late_accesses += usize::from(entry.at > turn.valid_until());
            self.refused_accesses += usize::from(entry.fenced == Some(Outcome::Refused));
            self.bare_overwrites += usize::from(entry.bare == Outcome::Overwrote);
            if entry.fenced == Some(Outcome::Overwrote) {
                self.fenced_overwrites += 1;
                self.messages
                    .push(format!("the fenced register was overwritten at {:.3} by {turn}", turn.seconds(entry.at)));
            }
        }
    }

    /// Records the overlaps of leases of one name. The leases must be ordered by start time.
    fn find_overlaps(&mut self, held: &[&Turn]) {
        let mut longest: Option<&Turn> = None;
        for &later in held {
            let from = later.from.unwrap_or_default();
            if let Some(other) = longest.filter(|other| from < other.end()) {
                let overlap = other.end().min(later.end()) - from;
                self.overlaps += 1;
                self.overlap_spans.push((from, from + overlap));
                self.longest_overlap = self.longest_overlap.max(overlap);
                self.messages.push(format!("two valid leases for {:.3} s: {other} and {later}", seconds(overlap)));
            }
            longest = longest.filter(|other| other.end() >= later.end()).or(Some(later));
        }
    }

    /// Records fences that are out of order. Fences must have the order of leases that do not overlap. A request that
    /// starts after a fence was granted must get a higher fence, even if leases overlap. No two fences may be equal.
    fn find_disorder(&mut self, held: &[&Turn], is_strict: impl Fn(&Turn) -> bool) {
        for (place, &later) in held.iter().enumerate().filter(|(_, turn)| turn.fence.is_some()) {
            let before = held[..place].iter().filter(|other| other.fence.is_some());
            let mut leases_out_of_order = before.filter(|other| {
                let must_be_lower = is_strict(later) || other.from < Some(later.requested_at);
                other.fence == later.fence || other.fence > later.fence && must_be_lower
            });
            if let Some(other) = leases_out_of_order.next() {
                self.record_disorder(other, later);
            }
        }
    }

    fn record_disorder(&mut self, other: &Turn, later: &Turn) {
        self.fences_out_of_order += 1;
        self.messages.push(format!("fence not higher than an earlier fence: {other} and then {later}"));
    }
}

#[cfg(test)]
mod tests;
