//! How a name stands, for people.

use std::time::{Duration, SystemTime};

use quorlock::{HolderView, LockOnNode, LockView};

use crate::duration::show;
use crate::table::one_line;

/// The texts about a name, or about one node's vote for it.
pub(crate) trait Look {
    /// `db-3 (pid 4121, backup.sh)`, or what else is known.
    fn who(&self) -> String;

    /// `shared by 3`, `2 of 5 slots`, unless it is held alone.
    fn how(&self) -> Option<String>;

    /// How it is held, for a column of its own: in a word, if there is no more to say.
    fn manner(&self) -> String;

    /// How long it has been held.
    fn held_for(&self) -> Option<Duration>;
}

impl Look for LockView {
    fn who(&self) -> String {
        match &self.holder {
            Some(holder) => show_holder(holder),
            None if self.held => "somebody who does not say".into(),
            None if self.nodes.iter().any(|node| node.held) => "in the middle of a change".into(),
            None => "-".into(),
        }
    }

    fn how(&self) -> Option<String> {
        how(self.mode, self.slots, self.holds)
    }

    fn manner(&self) -> String {
        manner(self.how(), self.mode)
    }

    fn held_for(&self) -> Option<Duration> {
        self.holder.as_ref()?;
        elapsed(self.since_ms?)
    }
}

impl Look for LockOnNode {
    fn who(&self) -> String {
        match (&self.trouble, &self.holder) {
            (Some(trouble), _) => one_line(trouble),
            (None, Some(holder)) => show_holder(holder),
            (None, None) if self.held => "somebody who does not say".into(),
            (None, None) => "-".into(),
        }
    }

    fn how(&self) -> Option<String> {
        how(self.mode, self.slots, self.holds)
    }

    fn manner(&self) -> String {
        manner(self.how(), self.mode)
    }

    fn held_for(&self) -> Option<Duration> {
        elapsed(self.since_ms?)
    }
}

/// `db-3 (pid 4121, backup.sh)`.
pub(crate) fn show_holder(holder: &HolderView) -> String {
    one_line(&holder.to_string())
}

/// On how many nodes it stands: `3/5`.
pub(crate) fn spread(lock: &LockView) -> String {
    format!("{}/{}", lock.nodes.iter().filter(|node| node.held).count(), lock.nodes.len())
}

/// How long ago that was by the clock of a node, which may be a little ahead of ours.
pub(crate) fn elapsed(since_ms: u64) -> Option<Duration> {
    let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since_ms))?;
    Some(since.elapsed().unwrap_or_default())
}

fn how(mode: Option<&str>, slots: Option<u32>, holds: u32) -> Option<String> {
    match (mode?, slots) {
        (_, Some(slots)) => Some(format!("{holds} of {slots} slots")),
        ("shared", _) => Some(format!("shared by {holds}")),
        ("reentrant", _) if holds > 1 => Some(format!("entered {holds} times")),
        _ => None,
    }
}

fn manner(how: Option<String>, mode: Option<&str>) -> String {
    how.or_else(|| mode.map(ToOwned::to_owned)).unwrap_or_else(|| "-".into())
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
