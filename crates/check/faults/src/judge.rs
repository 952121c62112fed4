//! What a history shows: who held what and when, and whether that can have been.

mod turn;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::clock::seconds;
use crate::history::{Event, Record};
use crate::plan::{Act, Bound, Memory};
use crate::register::Outcome;
use crate::series::{HELD, LOST, NO_QUORUM};
use crate::task::NAMES;
use turn::{Turn, turns};

/// What a look at a history found. Several are added up by [`add`](Self::add).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// Leases that were surely valid for a while.
    pub grants: usize,
    /// Those of them that were lost before they were released.
    pub losses: usize,
    /// Leases that were valid again after they had been lost.
    pub revived: usize,
    /// Requests about the names that are judged, as far as clients could tell.
    pub requests: u64,
    /// Those of them that went to a server in one command with others.
    pub together: u64,
    /// Clients that were killed.
    pub killed: usize,
    /// How often each fault was inflicted.
    pub faults: BTreeMap<Act, usize>,
    /// How many servers were killed that come back with their files, by how they keep them.
    pub kills: BTreeMap<Memory, usize>,
    /// Leases that began while an earlier one of the same name was still valid.
    pub overlaps: usize,
    /// How long two were valid at a time at most, in nanoseconds.
    pub longest_overlap: u64,
    /// The beginning and the end of each overlap.
    pub overlap_spans: Vec<(u64, u64)>,
    /// Overlaps that lasted longer than one heartbeat, or began later than that after a failover.
    pub outlasting: usize,
    /// Runs of `quorlock run` that ended by themselves, by exit code.
    pub runs: BTreeMap<i32, usize>,
    /// Episodes in which no lease began after the last fault was over.
    pub stuck: usize,
    /// Leases with a fence that is not above one that had been given out before.
    pub disorder: usize,
    /// Reads and writes that came after the lease they belong to.
    pub late: usize,
    /// Reads and writes that were refused for their fence.
    pub refused: usize,
    /// Writes to the fenced cells that undid somebody's work.
    pub fenced_harmed: usize,
    /// The same of the cells that check nothing.
    pub bare_harmed: usize,
    /// All writes.
    pub writes: usize,
    /// Who was never served, although everything was well in the end.
    pub starved: usize,
    /// The longest wait of those who were served, in nanoseconds; faults included.
    pub longest_wait: u64,
    /// How often a cluster had to be declared anew.
    pub declared: usize,
    /// Clients that ended by themselves, or talked nonsense.
    pub broken: usize,
    /// All of what should not be, in words, in the order of time.
    pub told: Vec<String>,
}

impl Findings {
    /// Looks at the whole history.
    pub fn of(bound: Bound, records: &[Record]) -> Self {
        Self::look(records, |_| bound == Bound::Within)
    }

    /// Looks at the history of a failover: clients may take one heartbeat to notice it. Later than that, two must not hold at
    /// a time, and fences must have the order of the leases.
    pub fn of_failover(records: &[Record], heartbeat: Duration) -> Self {
        let heartbeat = heartbeat.as_nanos() as u64;
        let switches = records.iter().filter_map(|record| match record {
            Record::Switched { at } => Some(*at),
            _ => None,
        });
        let switches: Vec<u64> = switches.collect();
        let is_excused = |at: u64| switches.iter().any(|switch| switch.abs_diff(at) <= heartbeat);
        let mut found = Self::look(records, |turn| !turn.from.is_some_and(is_excused));
        let outlasts = |(from, to): &&(u64, u64)| to - from > heartbeat || !is_excused(*from);
        found.outlasting = found.overlap_spans.iter().filter(outlasts).count();
        found
    }

    /// `is_strict` tells for which leases fences have the order in which leases begin. For the others they have that of
    /// requests and leases.
    fn look(records: &[Record], is_strict: impl Fn(&Turn) -> bool) -> Self {
        let mut found = Self::default();
        let turns = turns(records);
        found.count(records);
        let healed = records.iter().find_map(|record| match record {
            Record::Healed { at } => Some(*at),
            _ => None,
        });
        let is_after = |turn: &Turn| healed.is_some() && turn.from > healed && turn.is_held();
        found.stuck = usize::from(!turns.iter().any(is_after));
        for turn in &turns {
            found.look_at(turn);
        }
        for name in NAMES {
            let mut held: Vec<&Turn> = turns.iter().filter(|turn| turn.name == name && turn.is_held()).collect();
            held.sort_by_key(|turn| turn.from);
            found.look_for_overlaps(&held);
            found.look_for_disorder(&held, &is_strict);
        }
        found
    }

    /// The number of runs that ended with this exit code.
    pub fn runs_with(&self, code: i32) -> usize {
        self.runs.get(&code).copied().unwrap_or_default()
    }

    /// What must not be, given whether the assumptions held.
    pub fn violations(&self, bound: Bound) -> usize {
        let always = self.disorder + self.revived + self.fenced_harmed + self.broken;
        always + if bound == Bound::Within { self.overlaps + self.starved } else { 0 }
    }

    /// Adds what was found in another history.
    pub fn add(&mut self, other: Self) {
        self.grants += other.grants;
        self.losses += other.losses;
        self.revived += other.revived;
        self.requests += other.requests;
        self.together += other.together;
        self.killed += other.killed;
        for (act, count) in other.faults {
            *self.faults.entry(act).or_default() += count;
        }
        for (memory, count) in other.kills {
            *self.kills.entry(memory).or_default() += count;
        }
        self.overlaps += other.overlaps;
        self.longest_overlap = self.longest_overlap.max(other.longest_overlap);
        self.overlap_spans.extend(other.overlap_spans);
        self.outlasting += other.outlasting;
        for (code, count) in other.runs {
            *self.runs.entry(code).or_default() += count;
        }
        self.stuck += other.stuck;
        self.disorder += other.disorder;
        self.late += other.late;
        self.refused += other.refused;
        self.fenced_harmed += other.fenced_harmed;
        self.bare_harmed += other.bare_harmed;
        self.writes += other.writes;
        self.starved += other.starved;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.declared += other.declared;
        self.broken += other.broken;
        self.told.extend(other.told);
    }

    fn count(&mut self, records: &[Record]) {
        for record in records {
            match record {
                Record::Fault { deed, memories, .. } => {
                    *self.faults.entry(deed.act).or_default() += 1;
                    for memory in memories.iter().filter(|_| deed.act == Act::Kill) {
                        *self.kills.entry(*memory).or_default() += 1;
                    }
                }
                Record::Client { event: Event::Sent { requests, together, .. }, .. } => {
                    self.requests += requests;
                    self.together += together;
                }
                Record::Killed { .. } => self.killed += 1,
                Record::Declared { .. } => self.declared += 1,
                Record::Broken { client, why } => {
                    self.broken += 1;
                    self.told.push(format!("client {client} broke: {why}"));
                }
                Record::Ran { client, code, message, .. } => {
                    *self.runs.entry(*code).or_default() += 1;
                    if ![0, NO_QUORUM, HELD, LOST].contains(code) {
                        self.broken += 1;
                        self.told.push(format!("run {client} ended with {code}: {message}"));
                    }
                }
                Record::Client { .. } | Record::Register(_) | Record::Healed { .. } | Record::Switched { .. } => {}
            }
        }
    }

    fn look_at(&mut self, turn: &Turn) {
        self.grants += usize::from(turn.is_held());
        self.losses += usize::from(turn.is_held() && turn.lost.is_some());
        if let Some(at) = turn.revived {
            self.revived += 1;
            self.told.push(format!("lost, and valid again at {:.3}: {turn}", turn.seconds(at)));
        }
        if turn.is_starved() {
            self.starved += 1;
            let why = turn.gave_up.as_deref().unwrap_or("it was never answered");
            self.told.push(format!("starved: {turn}: {why}"));
        } else if let Some(from) = turn.from {
            self.longest_wait = self.longest_wait.max(from - turn.asked);
        }
        for entry in &turn.entries {
            self.writes += usize::from(entry.is_write);
            self.late += usize::from(entry.at > turn.valid_until());
            self.refused += usize::from(entry.fenced == Some(Outcome::Refused));
            self.bare_harmed += usize::from(entry.bare == Outcome::Overwrote);
            if entry.fenced == Some(Outcome::Overwrote) {
                self.fenced_harmed += 1;
                self.told.push(format!("the fenced cell was harmed at {:.3} by {turn}", turn.seconds(entry.at)));
            }
        }
    }

    /// One name's leases, in the order in which they began.
    fn look_for_overlaps(&mut self, held: &[&Turn]) {
        let mut longest: Option<&Turn> = None;
        for &later in held {
            let from = later.from.unwrap_or_default();
            if let Some(other) = longest.filter(|other| from < other.ended()) {
                let both = other.ended().min(later.ended()) - from;
                self.overlaps += 1;
                self.overlap_spans.push((from, from + both));
                self.longest_overlap = self.longest_overlap.max(both);
                self.told.push(format!("two at a time for {:.3} s: {other} and {later}", seconds(both)));
            }
            longest = longest.filter(|other| other.ended() >= later.ended()).or(Some(later));
        }
    }

    /// While one is valid at a time, fences have the order of the leases. Otherwise a request that comes when a fence has
    /// been given out already gets a higher one, whatever the clocks say; and no two have the same.
    fn look_for_disorder(&mut self, held: &[&Turn], is_strict: impl Fn(&Turn) -> bool) {
        for (place, &later) in held.iter().enumerate().filter(|(_, turn)| turn.fence.is_some()) {
            let before = held[..place].iter().filter(|other| other.fence.is_some());
            let mut wrong = before.filter(|other| {
                let is_before = is_strict(later) || other.from < Some(later.asked);
                other.fence == later.fence || other.fence > later.fence && is_before
            });
            if let Some(other) = wrong.next() {
                self.tell_disorder(other, later);
            }
        }
    }

    fn tell_disorder(&mut self, other: &Turn, later: &Turn) {
        self.disorder += 1;
        self.told.push(format!("no higher fence than before: {other} and then {later}"));
    }
}

#[cfg(test)]
mod tests;
