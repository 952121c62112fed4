//! What has happened to locks: written to the nodes by whoever decided it, and read from all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::mode::Mode;
use quorlock_core::name::{Holder, Name};
use quorlock_core::quorum::{Ballot, Tally};
use quorlock_core::vote::{BreakMode, Silence};

use crate::cluster::Cluster;
use crate::error::HistoryError;
use crate::link::Link;
use crate::{entropy, runtime};

/// About how many events a node keeps: the newest ones.
pub const HISTORY_MAX: usize = 10_000;
/// The longest reason that is kept, in bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 512;
/// The least patience with a node that is asked for its history.
const RECALL_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// A lock was won.
    Granted,
    /// It was given back.
    Released,
    /// A lease was lost: its validity ended before it was released.
    Lost,
    /// Somebody's lease was broken.
    Broken,
}

impl What {
    const ALL: [(Self, &str); 4] =
        [(Self::Granted, "granted"), (Self::Released, "released"), (Self::Lost, "lost"), (Self::Broken, "broken")];

    /// One word.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(what, _)| *what == self).map_or("", |(_, word)| word)
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(what, _)| *what)
    }
}

/// One thing that has happened to a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The same on every node that it was written to.
    id: u64,
    /// When, by the middle of the nodes' clocks, in microseconds since the Unix epoch.
    pub at_micros: u64,
    /// To which lock.
    pub name: Name,
    /// What.
    pub what: What,
    /// The lease's fence; `None` for a plain lock.
    pub fence: Option<Fence>,
    /// Who held it; of a break, who broke it.
    pub holder: Option<Holder>,
    /// How it was held: `exclusive`, `plain`, `reentrant`, `shared` or `slot`; of a break, `drain` or `now`.
    pub mode: String,
    /// Why it was lost or broken, for people.
    pub reason: String,
}

/// When a client's last event was. What is known of the nodes' clocks changes with every answer, by a little: what comes
/// later must not seem to have come before.
#[derive(Debug, Default)]
pub(crate) struct Chronicle(AtomicU64);

impl Chronicle {
    /// This moment, or the one after the last event.
    fn after_the_last(&self, at: u64) -> u64 {
        let later = |last: u64| at.max(last.saturating_add(1));
        // It never declines.
        let last = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(later(last)));
        last.map_or(at, later)
    }
}

/// How far apart the times may be that two clients have, in microseconds: the nodes' clocks are asked over the network.
const CLOCKS_APART_MICROS: u64 = 100_000;

/// The names of an event's parts, as nodes store them.
pub(crate) const FIELDS: [&str; 8] = ["id", "at", "name", "what", "fence", "holder", "mode", "reason"];

impl Event {
    /// Something that has happened now.
    pub(crate) fn now(cluster: &Cluster, name: &Name, what: What, fence: Option<Fence>) -> Self {
        let at = cluster.node_micros(crate::clock::now()).and_then(|micros| u64::try_from(micros).ok());
        let (id, at_micros) = (entropy::bits() as u64, cluster.chronicle.after_the_last(at.unwrap_or_default()));
        Self {
            id,
            at_micros,
            name: name.clone(),
            what,
            fence,
            holder: None,
            mode: String::new(),
            reason: String::new(),
        }
    }

    /// Something that has happened to a lease now.
    pub(crate) fn of(cluster: &Cluster, name: &Name, hold: &Hold, what: What) -> Self {
        let (terms, fence) = (hold.terms(), hold.fence());
        let holder = Holder::decode(&terms.holder);
        Self::now(cluster, name, what, fence).by(holder, word_for(terms.mode, fence))
    }

    /// By whom, and in which mode.
    pub(crate) fn by(self, holder: Option<Holder>, mode: &str) -> Self {
        Self { holder, mode: mode.into(), ..self }
    }

    pub(crate) fn because(self, reason: &str) -> Self {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Self { reason: reason[..end].replace(char::is_control, " "), ..self }
    }

    /// Whether somebody who had the lock alone has let go of it.
    fn lets_go(&self) -> bool {
        self.what == What::Released && self.is_alone()
    }

    /// Whether it is a grant that another had to let go for.
    fn follows(&self, other: &Self) -> bool {
        self.what == What::Granted && self.is_alone() && self.name == other.name && self.fence > other.fence
    }

    fn is_alone(&self) -> bool {
        self.fence.is_some() && ["exclusive", "reentrant"].contains(&&*self.mode)
    }

    /// The values of the [`FIELDS`].
    pub(crate) fn values(&self) -> [String; FIELDS.len()] {
        [
            format!("{:016x}", self.id),
            self.at_micros.to_string(),
            self.name.to_string(),
            self.what.as_str().into(),
            self.fence.map(|fence| fence.to_string()).unwrap_or_default(),
            self.holder.as_ref().map(Holder::encode).unwrap_or_default(),
            self.mode.clone(),
            self.reason.clone(),
        ]
    }

    /// Reads what [`values`](Self::values) wrote; `None` for anything else.
    pub(crate) fn read(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let fence = value("fence")?;
        Some(Self {
            id: u64::from_str_radix(&value("id")?, 16).ok()?,
            at_micros: value("at")?.parse().ok()?,
            name: Name::new(&value("name")?).ok()?,
            what: What::parse(&value("what")?)?,
            fence: if fence.is_empty() { None } else { Some(Fence::new(fence.parse().ok()?)) },
            holder: Holder::decode(&value("holder")?),
            mode: value("mode")?,
            reason: value("reason")?,
        })
    }
}

/// How a lease is held, in a word.
pub(crate) fn word_for(mode: Mode, fence: Option<Fence>) -> &'static str {
    match mode {
        Mode::Exclusive { .. } if fence.is_none() => "plain",
        Mode::Exclusive { .. } => "exclusive",
        Mode::Reentrant { .. } => "reentrant",
        Mode::Shared { .. } => "shared",
        Mode::Slot { .. } => "slot",
    }
}

/// How a lease was broken, in a word.
pub(crate) fn word_for_break(mode: BreakMode) -> &'static str {
    match mode {
        BreakMode::Drain => "drain",
        BreakMode::Now => "now",
    }
}

/// Reads all nodes' histories, and puts them together, newest first. What was written to several nodes is there once.
pub(crate) async fn history(cluster: &Arc<Cluster>, limit: usize) -> Result<Vec<Event>, HistoryError> {
    if cluster.is_closed() {
        return Err(HistoryError::Closed);
    }
    if limit == 0 {
        return Ok(Vec::new());
    }
    let limit = limit.min(HISTORY_MAX);
    let told = join_all(cluster.links.iter().map(|link| recall(cluster, link, limit))).await;
    if told.iter().all(Result::is_err) {
        let ballots = told.into_iter().map(|told| told.map_or_else(Ballot::Silent, |_| Ballot::Granted));
        let tally = cluster.name_nodes(Tally { ballots: ballots.collect(), nodes: Vec::new() });
        return Err(HistoryError::NoAnswer { tally });
    }
    let events: HashMap<u64, Event> = told.into_iter().flatten().flatten().map(|event| (event.id, event)).collect();
    let mut events = in_order(events.into_values().collect());
    events.reverse();
    events.truncate(limit);
    Ok(events)
}

/// Oldest first, by their times; but where a lock was released and granted again, fences know better: clients are not quite
/// of one mind about what time it is, and it would look as if two had held it.
fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| (event.at_micros, event.id));
    let mut told = Vec::with_capacity(events.len());
    for event in events {
        let since = event.at_micros.saturating_sub(CLOCKS_APART_MICROS);
        let near = told.iter().rposition(|earlier: &Event| earlier.at_micros < since).map_or(0, |far| far + 1);
        let next = if event.lets_go() { told[near..].iter().position(|next| next.follows(&event)) } else { None };
        told.insert(next.map_or(told.len(), |next| near + next), event);
    }
    told
}

async fn recall(cluster: &Cluster, link: &Link, limit: usize) -> Result<Vec<Event>, Silence> {
    let deadline = cluster.settings.look_deadline().max(RECALL_DEADLINE_MIN);
    let told = runtime::timeout(deadline, link.recall(limit)?).await.map_err(|_| Silence::Late)?;
    told.unwrap_or_else(|_| Err(Silence::Broken("the connection ended".into())))
}

#[cfg(test)]
mod tests;
