//! A turn: one client's use of a lock, from the request to the end of the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::clock::seconds;
use crate::history::{Event, Record};
use crate::register::RegisterAccess;

/// All events of one turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    /// The start of the episode. Messages show times relative to it.
    pub(super) episode_start: u64,
    pub(super) client: u32,
    pub(super) name: String,
    pub(super) requested_at: u64,
    pub(super) from: Option<u64>,
    /// The end of the validity that the client last reported.
    pub(super) until: u64,
    pub(super) fence: Option<u64>,
    pub(super) released: Option<u64>,
    pub(super) lost: Option<u64>,
    /// When the lease became valid again after its loss.
    pub(super) revived: Option<u64>,
    pub(super) gave_up: Option<String>,
    /// Whether the client was killed or broke, so that events may be missing.
    pub(super) may_miss_events: bool,
    pub(super) entries: Vec<RegisterAccess>,
}

impl Turn {
    /// The last moment at which the client may have relied on the lease.
    pub(super) fn valid_until(&self) -> u64 {
        self.until.min(self.lost.unwrap_or(u64::MAX))
    }

    /// The end of the lease. No other lease of the name may begin earlier.
    pub(super) fn end(&self) -> u64 {
        self.valid_until().min(self.released.unwrap_or(u64::MAX))
    }

    /// Whether the client had a valid lease. If a process is paused, its lease may end before the process sees the
    /// lease.
    pub(super) fn is_held(&self) -> bool {
        self.from.is_some_and(|from| from < self.end())
    }

    /// Seconds since the start of the episode.
    pub(super) fn seconds(&self, at: u64) -> f64 {
        seconds(at.saturating_sub(self.episode_start))
    }

    pub(super) fn is_starved(&self) -> bool {
        self.from.is_none() && self.lost.is_none() && !self.may_miss_events
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, name, .. } = self;
        write!(f, "client {client} with {name}, asked at {:.3}", self.seconds(self.requested_at))?;
        if let Some(from) = self.from {
            write!(f, ", valid from {:.3} to {:.3}", self.seconds(from), self.seconds(self.end()))?;
        }
        if let Some(fence) = self.fence {
            write!(f, " (fence {fence})")?;
        }
        Ok(())
    }
}

/// All turns of a history.
pub(super) fn turns(records: &[Record]) -> Vec<Turn> {
    let mut turns: BTreeMap<(u32, u32), Turn> = BTreeMap::new();
    let (mut killed, mut faults_ended_at) = (BTreeSet::new(), false);
    for record in records {
        match record {
            Record::Client { client, event } => add_event(&mut turns, *client, event),
            Record::Register(entry) => {
                turns.entry((entry.client, entry.turn)).or_default().entries.push(entry.clone());
            }
            Record::FaultsEnded { .. } => faults_ended_at = true,
            // The harness kills a client after the faults only if the client still waits, so the client is starved.
            Record::Killed { client, .. } if faults_ended_at => drop(killed.remove(client)),
            Record::Killed { client, .. } | Record::Broken { client, .. } => drop(killed.insert(*client)),
            Record::Fault { .. }
            | Record::InitializedAgain { .. }
            | Record::RunEnded { .. }
            | Record::FailedOver { .. } => {}
        }
    }
    let episode_start = turns.values().map(|turn| turn.requested_at).min().unwrap_or_default();
    for turn in turns.values_mut() {
        turn.episode_start = episode_start;
        turn.may_miss_events = killed.contains(&turn.client);
    }
    turns.into_values().collect()
}

/// Adds an event to its turn.
fn add_event(turns: &mut BTreeMap<(u32, u32), Turn>, client: u32, event: &Event) {
    let (Event::Asked { turn, .. }
    | Event::Granted { turn, .. }
    | Event::Extended { turn, .. }
    | Event::Released { turn, .. }
    | Event::Lost { turn, .. }
    | Event::Revived { turn, .. }
    | Event::Sent { turn, .. }
    | Event::GaveUp { turn, .. }) = event;
    let turn = turns.entry((client, *turn)).or_default();
    match event {
        Event::Asked { name, at, .. } => {
            turn.client = client;
            turn.name.clone_from(name);
            turn.requested_at = *at;
        }
        Event::Granted { at, until, fence, .. } => {
            turn.from = Some(*at);
            turn.until = *until;
            turn.fence = *fence;
        }
        Event::Extended { until, .. } => turn.until = turn.until.max(*until),
        Event::Released { at, .. } => turn.released = Some(*at),
        Event::Lost { at, .. } => turn.lost = Some(*at),
        Event::Sent { .. } => {}
        Event::Revived { at, .. } => turn.revived = Some(*at),
        Event::GaveUp { why, .. } => turn.gave_up = Some(why.clone()),
    }
}
