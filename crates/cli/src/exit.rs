//! Exit codes, and what is said along with them.

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

    /// Killed, or interrupted, by this signal.
    pub(crate) fn signal(number: i32) -> Self {
        Self(u8::try_from(128 + number).unwrap_or(Self::INTERNAL.0))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.0.into()
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Config(String),
    #[error("{}", connect(.0))]
    Connect(#[from] ConnectError),
    #[error("{}", held(.error, *.since))]
    Held { error: Box<HeldError>, since: Option<Duration> },
    #[error(transparent)]
    Acquire(AcquireError),
    /// Node by node, for how long each has been silent, if that is known, and why the time between runs does not count towards
    /// a quarantine.
    #[error("{}", undecided(what, tally, silent_for, unrecorded.as_deref()))]
    Undecided { what: String, tally: Tally, silent_for: Vec<Option<Duration>>, unrecorded: Option<String> },
    #[error("{0}")]
    Lost(LostError),
    #[error("{0}")]
    NoQuorum(String),
    #[error("{}", reconfigure(.0))]
    Reconfigure(#[from] ReconfigureError),
    #[error("{}", breaking(.0))]
    Break(#[from] BreakError),
    #[error("cannot run {command}: {error}")]
    Spawn { command: String, error: std::io::Error },
    #[error("{0}")]
    Internal(String),
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::WaitTimeout(held) if held.tally.refused() == 0 => Self::undecided(
                format!("too few nodes had answered for {} when the wait was over", held.name),
                held.tally,
            ),
            AcquireError::Held(held) | AcquireError::WaitTimeout(held) => Self::Held { error: held, since: None },
            AcquireError::NoQuorum { name, tally } => Self::undecided(format!("no quorum for {name}"), tally),
            other => Self::Acquire(other),
        }
    }
}

impl From<LeaseError> for Failure {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Lost(lost) => Self::Lost(lost),
            LeaseError::NoQuorum { operation, tally } => Self::undecided(operation.to_string(), tally),
            other => Self::Config(other.to_string()),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NoQuorum { operation, tally } => Self::undecided(operation.to_string(), tally),
            ReadError::Config(error) => Self::Usage(error.to_string()),
            other => Self::Internal(other.to_string()),
        }
    }
}

impl Failure {
    fn undecided(what: String, tally: Tally) -> Self {
        Self::Undecided { what, tally, silent_for: Vec::new(), unrecorded: None }
    }

    /// Says it, and gives the code.
    pub(crate) fn report(&self) -> ExitCode {
        self.say();
        self.exit().into()
    }

    pub(crate) fn say(&self) {
        eprintln!("quorlock: {self}");
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_)
            | Self::Break(BreakError::Config(_))
            | Self::Acquire(AcquireError::Config(_) | AcquireError::Permits { .. } | AcquireError::Upgrade { .. }) => {
                Exit::USAGE
            }
            Self::Connect(ConnectError::Denied { .. }) | Self::Reconfigure(ReconfigureError::Denied { .. }) => {
                Exit::DENIED
            }
            Self::Config(_)
            | Self::Connect(_)
            | Self::Reconfigure(
                ReconfigureError::Config(_)
                | ReconfigureError::Blank
                | ReconfigureError::Mixed
                | ReconfigureError::Minority { .. },
            ) => Exit::CONFIG,
            Self::Held { .. }
            | Self::Reconfigure(ReconfigureError::Leases { .. })
            | Self::Break(BreakError::Other(_) | BreakError::NotHeld { .. }) => Exit::HELD,
            Self::Acquire(_) | Self::Reconfigure(_) | Self::NoQuorum(_) | Self::Undecided { .. } | Self::Break(_) => {
                Exit::NO_QUORUM
            }
            Self::Lost(_) => Exit::LOST,
            Self::Spawn { error, .. } if error.kind() == std::io::ErrorKind::NotFound => Exit::NOT_FOUND,
            Self::Spawn { .. } => Exit::NOT_EXECUTABLE,
            Self::Internal(_) => Exit::INTERNAL,
        }
    }
}

/// A file that cannot be used has an alternative.
fn connect(error: &ConnectError) -> String {
    match error {
        ConnectError::Unfit { nodes } if nodes.iter().any(|(title, _)| title.starts_with("sqlite:")) => {
            format!(
                "{error}\n  use another file: --nodes sqlite:/some/path    or another directory: XDG_STATE_HOME=/some/dir"
            )
        }
        _ => error.to_string(),
    }
}

/// What to do about leases that are in the way.
fn reconfigure(error: &ReconfigureError) -> String {
    match error {
        ReconfigureError::Leases { .. } => format!(
            "{error}\n  stop all users, and wait until their leases are over: quorlock list\n  \
             to give up these leases, at the risk of two holders: --danger-discard-leases"
        ),
        _ => error.to_string(),
    }
}

/// Who holds it, for how long, until when, and what to do.
fn held(error: &HeldError, since: Option<Duration>) -> String {
    let name = &error.name;
    let by = error.holder.as_ref().map_or_else(String::new, |holder| format!(" by {holder}"));
    let since = since.map_or_else(String::new, |since| format!(" for {}", show(since)));
    let end = error.remaining.map(|left| format!("; its lease ends in {} unless renewed", show(left)));
    let end = end.unwrap_or_default();
    format!("{name} is held{by}{since}{end}\n  wait for it: --wait 5m    look: quorlock status {name}")
}

/// Without a quorum, one line for each node.
fn undecided(what: &str, tally: &Tally, silent_for: &[Option<Duration>], unrecorded: Option<&str>) -> String {
    let silent = |is: fn(&Silence) -> bool| {
        tally.votes.iter().filter(|vote| matches!(vote, NodeVote::Silent(why) if is(why))).count()
    };
    let (nodes, away) = (tally.votes.len(), silent(|why| matches!(why, Silence::Unreachable(_))));
    let begin = if nodes - away < Quorum::majority_of(nodes) {
        let verb = if away == 1 { "is" } else { "are" };
        format!("{what}: {away} of {nodes} nodes {verb} unreachable")
    } else {
        format!("{what}: {tally}")
    };
    let mut lines = node_by_node(begin, tally, silent_for);
    if silent(|why| matches!(why, Silence::Founding(_))) == nodes {
        lines.push("  a new cluster? If no lock can be outstanding on these nodes: quorlock nodes init --yes".into());
    } else if silent(|why| why.quarantine_left().is_some()) > 0 {
        let again = if unrecorded.is_none() { "    or run this again after that time" } else { "" };
        lines.push(format!("  wait for the end of a quarantine: quorlock nodes wait{again}"));
        lines.extend(unrecorded.map(between_runs));
    }
    lines.join("\n")
}

/// What follows for short runs from a quarantine that cannot be recorded.
pub(crate) fn between_runs(unrecorded: &str) -> String {
    format!("  the time between runs does not count: {unrecorded}")
}

/// What stands instead, or one line for each node.
fn breaking(error: &BreakError) -> String {
    match error {
        BreakError::Other(other) => format!("{error}\n  it was left alone; look: quorlock status {}", other.name),
        BreakError::NoQuorum { name, tally } => {
            let begin = format!("no quorum for breaking {name}: {tally}");
            node_by_node(begin, tally, &[]).join("\n")
        }
        _ => error.to_string(),
    }
}

fn node_by_node(begin: String, tally: &Tally, silent_for: &[Option<Duration>]) -> Vec<String> {
    let silent_for = silent_for.iter().copied().chain(std::iter::repeat(None));
    let nodes = tally.by_node().zip(silent_for);
    let nodes = nodes.map(|((node, vote), silent)| format!("  {node}  {vote}{}", for_so_long(silent)));
    std::iter::once(begin).chain(nodes).collect()
}

/// How long a node has been silent, unless that has just begun.
pub(crate) fn for_so_long(silent: Option<Duration>) -> String {
    let worth_a_word = silent.filter(|silent| *silent >= Duration::from_secs(1));
    worth_a_word.map_or_else(String::new, |silent| format!("; no vote for {}", show(silent)))
}
