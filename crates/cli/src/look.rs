//! How a name stands on every node, for people and for programs.

use std::time::{Duration, SystemTime};

use quorlock::{Holder, Inspection, Period, Report, Silence, Waiting};
use serde::Serialize;

use crate::duration::{millis, show};
use crate::table::one_line;

/// A name, by the word of a majority and by each node's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Look {
    pub(crate) name: String,
    /// Whether a majority agrees on who has it.
    pub(crate) held: bool,
    pub(crate) holder: Option<Who>,
    pub(crate) fence: Option<u64>,
    /// What stands in for the fence of a plain lock.
    pub(crate) digest: Option<String>,
    /// Whether it was broken, and is free as soon as its lease would have ended.
    pub(crate) broken: bool,
    /// How many wait, on the node where most do.
    pub(crate) waiting: u32,
    /// The first of them, in order, on that node.
    pub(crate) line: Vec<InLine>,
    pub(crate) nodes: Vec<NodeLook>,
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InLine {
    /// Since when, in milliseconds of Unix time by the nodes' clocks.
    since_ms: u64,
    /// Whether it wants to share.
    pub(crate) shared: bool,
}

impl InLine {
    fn new(waiting: &Waiting) -> Self {
        Self { since_ms: waiting.since_micros / 1_000, shared: waiting.shared }
    }

    /// How long it has waited.
    pub(crate) fn waited(&self) -> Option<Duration> {
        elapsed(self.since_ms)
    }
}

/// What one node says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NodeLook {
    pub(crate) node: String,
    /// Why it says nothing.
    pub(crate) trouble: Option<String>,
    pub(crate) held: bool,
    pub(crate) holder: Option<Who>,
    /// `exclusive`, `reentrant`, `shared` or `slots`.
    pub(crate) kind: Option<&'static str>,
    /// How many slots there are.
    pub(crate) slots: Option<u32>,
    pub(crate) holds: u32,
    pub(crate) fence: Option<u64>,
    /// What stands in for the fence of a plain lock.
    pub(crate) digest: Option<String>,
    pub(crate) broken: bool,
    /// Since when, in milliseconds of Unix time by the node's clock.
    pub(crate) since_ms: Option<u64>,
    /// How long it still stands unless it is renewed.
    pub(crate) left_ms: Option<u64>,
    pub(crate) waiting: u32,
}

/// Who has it, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Who(#[serde(with = "Shape")] Holder);

/// The library's type, as it is written here.
#[derive(Serialize)]
#[serde(remote = "Holder")]
struct Shape {
    host: String,
    pid: u32,
    label: String,
}

impl Who {
    pub(crate) fn new(holder: &Holder) -> Self {
        Self(holder.clone())
    }

    /// `db-3 (pid 4121, backup.sh)`.
    pub(crate) fn show(&self) -> String {
        one_line(&self.0.to_string())
    }
}

impl Look {
    pub(crate) fn new(inspection: &Inspection) -> Self {
        let majority = inspection.holder();
        let nodes: Vec<NodeLook> = inspection.nodes.iter().map(|(node, said)| NodeLook::new(node, said)).collect();
        let digest = nodes.iter().find_map(|node| node.digest.clone()).filter(|_| majority.is_some());
        let fence = majority.as_ref().map(|(_, fence)| fence.get());
        Self {
            name: inspection.name.to_string(),
            held: majority.is_some(),
            holder: majority.and_then(|(holder, _)| holder.as_ref().map(Who::new)),
            // A plain lock has no fence of its own: what is stored is that of an earlier lease.
            fence: fence.filter(|fence| *fence > 0 && digest.is_none()),
            digest,
            broken: nodes.iter().any(|node| node.broken),
            waiting: inspection.waiting(),
            line: inspection.line().iter().map(InLine::new).collect(),
            nodes,
        }
    }

    /// A name that is in no use any more.
    pub(crate) fn of_free(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Those that have it.
    fn holding(&self) -> impl Iterator<Item = &NodeLook> {
        self.nodes.iter().filter(|node| node.held)
    }

    /// `db-3 (pid 4121, backup.sh)`, or what else is known.
    pub(crate) fn who(&self) -> String {
        match &self.holder {
            Some(holder) => holder.show(),
            None if self.held => "somebody who does not say".into(),
            None if self.holding().next().is_some() => "in the middle of a change".into(),
            None => "-".into(),
        }
    }

    /// `shared by 3`, `2 of 5 slots`, unless it is held alone.
    pub(crate) fn how(&self) -> Option<String> {
        let most = self.holding().max_by_key(|node| node.holds)?;
        most.how()
    }

    /// How it is held, for a column of its own: in a word, if there is no more to say.
    pub(crate) fn manner(&self) -> String {
        self.holding().max_by_key(|node| node.holds).map_or_else(|| "-".into(), NodeLook::manner)
    }

    /// How long it has been held.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        self.holder.as_ref()?;
        self.holding().filter_map(NodeLook::held_for).max()
    }

    /// How long it lasts at most, unless it is renewed.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.holding().filter_map(|node| node.left_ms).max().map(Duration::from_millis)
    }

    /// On how many nodes it stands: `3/5`.
    pub(crate) fn spread(&self) -> String {
        format!("{}/{}", self.holding().count(), self.nodes.len())
    }
}

impl NodeLook {
    fn new(node: &str, said: &Result<Report, Silence>) -> Self {
        let report = said.as_ref().ok();
        let held = report.and_then(|report| report.held.as_ref());
        let (kind, slots) = held.map(|held| kind(held.period)).unzip();
        let holder = held.and_then(|held| held.holder.as_ref().map(Who::new));
        let digest = held.and_then(|held| held.digest.as_ref().map(ToString::to_string));
        let known = report.filter(|_| held.is_some() && digest.is_none());
        Self {
            node: node.to_owned(),
            trouble: said.as_ref().err().map(ToString::to_string),
            held: held.is_some(),
            kind,
            slots: slots.flatten(),
            holds: held.map_or(0, |held| held.holds),
            digest,
            broken: held.is_some_and(|held| held.broken),
            fence: known.map(|report| report.fence.get()).filter(|fence| *fence > 0),
            since_ms: known.map(|report| report.since_micros / 1_000).filter(|since| *since > 0),
            left_ms: held.and_then(|held| held.remaining).map(millis),
            waiting: report.map_or(0, |report| report.waiting),
            holder,
        }
    }

    pub(crate) fn who(&self) -> String {
        match (&self.trouble, &self.holder) {
            (Some(trouble), _) => one_line(trouble),
            (None, Some(holder)) => holder.show(),
            (None, None) if self.held => "somebody who does not say".into(),
            (None, None) => "-".into(),
        }
    }

    pub(crate) fn how(&self) -> Option<String> {
        match (self.kind?, self.slots) {
            ("shared", _) => Some(format!("shared by {}", self.holds)),
            ("reentrant", _) if self.holds > 1 => Some(format!("entered {} times", self.holds)),
            ("slots", Some(slots)) => Some(format!("{} of {slots} slots", self.holds)),
            _ => None,
        }
    }

    pub(crate) fn manner(&self) -> String {
        self.how().or_else(|| self.kind.map(ToOwned::to_owned)).unwrap_or_else(|| "-".into())
    }

    pub(crate) fn held_for(&self) -> Option<Duration> {
        elapsed(self.since_ms?)
    }
}

/// How long ago that was by the clock of a node, which may be a little ahead of ours.
fn elapsed(since_ms: u64) -> Option<Duration> {
    let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since_ms))?;
    Some(since.elapsed().unwrap_or_default())
}

fn kind(period: Period) -> (&'static str, Option<u32>) {
    match period {
        Period::Exclusive => ("exclusive", None),
        Period::Reentrant(_) => ("reentrant", None),
        Period::Shared => ("shared", None),
        Period::Slots(permits) => ("slots", Some(permits)),
    }
}

/// A duration, or a dash.
pub(crate) fn shown(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".into(), show)
}

/// What a lease is called by when it is to be broken, or a dash.
pub(crate) fn called(fence: Option<u64>, digest: Option<&str>) -> String {
    match (fence, digest) {
        (Some(fence), _) => fence.to_string(),
        (None, Some(digest)) => format!("digest {digest}"),
        (None, None) => "-".into(),
    }
}
