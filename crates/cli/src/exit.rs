//! Exit codes, and the messages that go with them.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use quorlock::{
    AcquireError, BreakError, ConnectError, HeldError, LeaseError, LostError, NodeVote, Quorum, ReadError,
    ReconfigureError, Silence, Tally,
};

use crate::duration::show;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const OK: Self = Self(0);
    pub(crate) const USAGE: Self = Self(64);
    pub(crate) const NO_QUORUM: Self = Self(69);
    pub(crate) const INTERNAL: Self = Self(70);
    pub(crate) const HELD: Self = Self(75);
    pub(crate) const DENIED: Self = Self(77);
    pub(crate) const CONFIG: Self = Self(78);
    pub(crate) const LOST: Self = Self(79);
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// Returns the exit code for a process that was killed or interrupted by this signal.
    pub(crate) fn signal(number: i32) -> Self {
        Self(u8::try_from(128 + number).unwrap_or(Self::INTERNAL.0))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.0.into()
    }
}

/// The result of a command, or of one of its steps.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

/// The failure of a command, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl fmt::Display) -> Self {
        Self { exit, text: text.to_string() }
    }

    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::new(Exit::USAGE, text)
    }

    pub(crate) fn config(text: impl fmt::Display) -> Self {
        Self::new(Exit::CONFIG, text)
    }

    pub(crate) fn internal(text: impl fmt::Display) -> Self {
        Self::new(Exit::INTERNAL, text)
    }

    /// Returns a function for `map_err`, which turns an error into the failure `cannot WHAT: ERROR`.
    pub(crate) fn cannot<E: fmt::Display>(what: &str) -> impl Fn(E) -> Self {
        move |error| Self::internal(format_args!("cannot {what}: {error}"))
    }

    /// Returns the failure to acquire a lock. `details` come from the client that tried to acquire it.
    pub(crate) fn not_acquired(error: AcquireError, details: &Details) -> Self {
        match error {
            AcquireError::WaitTimeout(held) if held.tally.refused() == 0 => {
                let what = format_args!("too few nodes had answered for {} when the wait was over", held.name);
                no_quorum(what, &held.tally, details)
            }
            AcquireError::Held(held) | AcquireError::WaitTimeout(held) => {
                Self::new(Exit::HELD, describe_held(&held, details))
            }
            AcquireError::NoQuorum { name, tally } => no_quorum(format_args!("no quorum for {name}"), &tally, details),
            AcquireError::Config(_) | AcquireError::SlotsMismatch { .. } | AcquireError::UpgradeUnsupported { .. } => {
                Self::usage(error)
            }
            other => Self::new(Exit::NO_QUORUM, other),
        }
    }

    /// Prints the failure, and returns its exit code.
    pub(crate) fn report(&self) -> Exit {
        eprintln!("quorlock: {}", self.text);
        self.exit
    }
}

/// Facts for the message of an [`AcquireError`] that the error itself does not contain.
#[derive(Debug, Default)]
pub(crate) struct Details {
    /// How long the caller has waited for the lock.
    pub(crate) waited: Option<Duration>,
    /// How long the lock has been held.
    pub(crate) held_for: Option<Duration>,
    /// How long each node has been silent.
    pub(crate) silent_for: Vec<Option<Duration>>,
    /// Why the time between two runs of quorlock does not count towards a quarantine.
    pub(crate) unrecorded: Option<String>,
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        Self::not_acquired(error, &Details::default())
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match &error {
            ConnectError::Denied { nodes } => Self::new(Exit::DENIED, unusable_nodes_text(nodes)),
            ConnectError::Unfit { nodes } if nodes.iter().any(|(title, _)| title.starts_with("sqlite:")) => {
                let advice =
                    "use another file: --nodes sqlite:/some/path    or another directory: XDG_STATE_HOME=/some/dir";
                Self::config(format_args!("{error}\n  {advice}"))
            }
            ConnectError::Unfit { nodes } => Self::config(unusable_nodes_text(nodes)),
            _ => Self::config(error),
        }
    }
}

/// Describes nodes and why they cannot be used. Consecutive nodes with the same reason share one description.
fn unusable_nodes_text(nodes: &[(String, String)]) -> String {
    let groups = nodes.chunk_by(|(_, reason), (_, next_reason)| reason == next_reason).map(|group| {
        let titles: Vec<&str> = group.iter().map(|(title, _)| title.as_str()).collect();
        format!("{}: {}", titles.join(", "), group[0].1)
    });
    groups.collect::<Vec<_>>().join("; ")
}

impl From<LostError> for Failure {
    fn from(error: LostError) -> Self {
        Self::new(Exit::LOST, error)
    }
}

impl From<LeaseError> for Failure {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Lost(lost) => lost.into(),
            LeaseError::NoQuorum { operation, tally } => no_quorum(operation, &tally, &Details::default()),
            other => Self::config(other),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NoQuorum { operation, tally } => no_quorum(operation, &tally, &Details::default()),
            ReadError::Config(error) => Self::usage(error),
            other => Self::internal(other),
        }
    }
}

impl From<ReconfigureError> for Failure {
    fn from(error: ReconfigureError) -> Self {
        use ReconfigureError as E;
        match error {
            E::Leases { .. } => {
                let stop = "stop all users, and wait until their leases are over: quorlock list";
                let discard = "to give up these leases, at the risk of two holders: --danger-discard-leases";
                Self::new(Exit::HELD, format_args!("{error}\n  {stop}\n  {discard}"))
            }
            E::Denied { .. } => Self::new(Exit::DENIED, error),
            E::Config(_) | E::Blank | E::Mixed | E::Minority { .. } => Self::config(error),
            _ => Self::new(Exit::NO_QUORUM, error),
        }
    }
}

impl From<BreakError> for Failure {
    fn from(error: BreakError) -> Self {
        match &error {
            BreakError::Config(_) => Self::usage(error),
            BreakError::AnotherLease { name, .. } => {
                Self::new(Exit::HELD, format_args!("{error}\n  nothing was broken; see: quorlock status {name}"))
            }
            BreakError::NotHeld { .. } => Self::new(Exit::HELD, error),
            BreakError::NoQuorum { name, tally } => {
                no_quorum(format_args!("no quorum for breaking {name}"), tally, &Details::default())
            }
            _ => Self::new(Exit::NO_QUORUM, error),
        }
    }
}

/// Describes the holder, how long it has held the lock, until when, and what to do.
fn describe_held(error: &HeldError, details: &Details) -> String {
    let name = &error.name;
    let (timeout, advice) = match details.waited {
        Some(waited) => (format!("timed out after {}: ", show(waited)), ""),
        None => (String::new(), "wait for it: --wait 5m    "),
    };
    let by = error.holder.as_ref().map_or_else(String::new, |holder| format!(" by {holder}"));
    let held_for = details.held_for.map_or_else(String::new, |held_for| format!(" for {}", show(held_for)));
    let left = error.remaining.map(show);
    let end = left.map_or_else(String::new, |left| format!("; its lease ends in {left} unless renewed"));
    format!("{timeout}{name} is held{by}{held_for}{end}\n  {advice}more: quorlock status {name}")
}

/// Describes a missing quorum: one line for each node, and what to do.
fn no_quorum(what: impl fmt::Display, tally: &Tally, details: &Details) -> Failure {
    let count_silent = |is_reason: fn(&Silence) -> bool| {
        tally.votes.iter().filter(|vote| matches!(vote, NodeVote::Silent(why) if is_reason(why))).count()
    };
    let (nodes, unreachable) = (tally.votes.len(), count_silent(|why| matches!(why, Silence::Unreachable(_))));
    let summary = if nodes - unreachable < Quorum::majority_of(nodes) {
        let verb = if unreachable == 1 { "is" } else { "are" };
        format!("{what}: {unreachable} of {nodes} nodes {verb} unreachable")
    } else {
        format!("{what}: {tally}")
    };
    let silent_for = details.silent_for.iter().copied().chain(std::iter::repeat(None));
    let mut lines = vec![summary];
    for ((node, vote), silent_for) in tally.by_node().zip(silent_for) {
        lines.push(format!("  {node}  {vote}{}", silence_text(silent_for)));
    }
    if count_silent(|why| matches!(why, Silence::Founding(_))) == nodes {
        lines.push("  a new cluster? If no lock can be outstanding on these nodes: quorlock nodes init --yes".into());
    } else if count_silent(|why| why.quarantine_left().is_some()) > 0 {
        let rerun = if details.unrecorded.is_none() { "    or run this again after that time" } else { "" };
        lines.push(format!("  wait for the end of a quarantine: quorlock nodes wait{rerun}"));
        lines.extend(details.unrecorded.as_deref().map(unrecorded_text));
    }
    Failure::new(Exit::NO_QUORUM, lines.join("\n"))
}

/// Formats a count with its noun: `1 node`, `3 nodes`, `2 losses`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if noun.ends_with('s') { "es" } else { "s" };
    format!("{count} {noun}{}", if count == 1 { "" } else { plural })
}

/// Says why the time between two runs of quorlock does not count towards a quarantine.
pub(crate) fn unrecorded_text(reason: &str) -> String {
    format!("  the time between runs does not count: {reason}")
}

/// Describes how long a node has been silent. Returns an empty text for less than a second.
pub(crate) fn silence_text(silent_for: Option<Duration>) -> String {
    let silent_for = silent_for.filter(|silent_for| *silent_for >= Duration::from_secs(1));
    silent_for.map_or_else(String::new, |silent_for| format!("; no vote in the last {}", show(silent_for)))
}
