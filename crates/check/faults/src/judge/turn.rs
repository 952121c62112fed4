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
    /// When the client saw its lease.
    pub(super) valid_from: Option<u64>,
    /// The end of the validity that the client last reported.
    pub(super) reported_end: u64,
    pub(super) fence: Option<u64>,
    pub(super) released_at: Option<u64>,
    pub(super) lost_at: Option<u64>,
    /// When the lease became valid again after its loss.
    pub(super) revived_at: Option<u64>,
    /// The error with which the acquire failed.
    pub(super) error: Option<String>,
    /// Whether the client was killed or broke, so that events may be missing.
    pub(super) may_miss_events: bool,
    pub(super) accesses: Vec<RegisterAccess>,
}

impl Turn {
    /// The last moment at which the client may have relied on the lease.
    pub(super) fn valid_until(&self) -> u64 {
        self.reported_end.min(self.lost_at.unwrap_or(u64::MAX))
    }

    /// The end of the lease. No other lease of the name may begin earlier.
    pub(super) fn end(&self) -> u64 {
        self.valid_until().min(self.released_at.unwrap_or(u64::MAX))
    }

    /// Whether the client had a valid lease. The lease of a paused process may end before the process sees the lease.
    pub(super) fn is_held(&self) -> bool {
        self.valid_from.is_some_and(|valid_from| valid_from < self.end())
    }

    /// Seconds since the start of the episode.
    pub(super) fn seconds(&self, at: u64) -> f64 {
        seconds(at.saturating_sub(self.episode_start))
    }

    pub(super) fn is_starved(&self) -> bool {
        self.valid_from.is_none() && self.lost_at.is_none() && !self.may_miss_events
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, name, .. } = self;
        write!(f, "client {client} with {name}, asked at {:.3}", self.seconds(self.requested_at))?;
        if let Some(valid_from) = self.valid_from {
            write!(f, ", valid from {:.3} to {:.3}", self.seconds(valid_from), self.seconds(self.end()))?;
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
    let (mut failed_clients, mut have_faults_ended) = (BTreeSet::new(), false);
    for record in records {
        match record {
            Record::Client { client, event } => add_event(&mut turns, *client, event),
            Record::Register(access) => {
                turns.entry((access.client, access.turn)).or_default().accesses.push(access.clone());
            }
            Record::FaultsEnded { .. } => have_faults_ended = true,
            // After the faults, the harness kills only clients that still wait. Their events are complete.
            Record::Killed { client, .. } if have_faults_ended => drop(failed_clients.remove(client)),
            Record::Killed { client, .. } | Record::Broken { client, .. } => drop(failed_clients.insert(*client)),
            Record::Fault { .. }
            | Record::InitializedAgain { .. }
            | Record::RunEnded { .. }
            | Record::FailedOver { .. } => {}
        }
    }
    let episode_start = turns.values().map(|turn| turn.requested_at).min().unwrap_or_default();
    for turn in turns.values_mut() {
        turn.episode_start = episode_start;
        turn.may_miss_events = failed_clients.contains(&turn.client);
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
            turn.valid_from = Some(*at);
            turn.reported_end = *until;
            turn.fence = *fence;
        }
        Event::Extended { until, .. } => turn.reported_end = turn.reported_end.max(*until),
        Event::Released { at, .. } => turn.released_at = Some(*at),
        Event::Lost { at, .. } => turn.lost_at = Some(*at),
        Event::Sent { .. } => {}
        Event::Revived { at, .. } => turn.revived_at = Some(*at),
        Event::GaveUp { why, .. } => turn.error = Some(why.clone()),
    }
}
