//! The findings of an examination, with their severity and advice.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// Information that an operator should know.
    Note,
    /// The cluster works, but is slow or fragile, or will stop working.
    Warning,
    /// A node cannot vote, or locks are unsafe.
    Error,
}

/// Shows the value as one lowercase word.
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// The topic of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Topic {
    /// Whether the node answers, and how fast.
    Reach,
    /// Whether the node accepts the login, and permits the commands that locks need.
    Access,
    /// The server: its version and role, and whether it is listed twice.
    Server,
    /// The data that the node keeps across a restart.
    Persistence,
    /// The behaviour of the node when its memory is full.
    Memory,
    /// Whether the node may vote: its epoch, quarantine and restarts.
    Life,
    /// The constants that all users of the cluster must share.
    Constants,
    /// The node's wall clock.
    Clock,
    /// The file of an SQLite node.
    File,
    /// The number of nodes, and how many may fail.
    Quorum,
    /// The configuration of this client.
    Settings,
}

/// Shows the value as one lowercase word.
impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// The severity of the finding.
    pub severity: Severity,
    /// The topic of the finding.
    pub topic: Topic,
    /// The finding in one sentence.
    pub text: String,
    /// What to do about the finding; `None` if nothing needs to be done.
    pub advice: Option<String>,
}

impl Finding {
    /// Creates a finding. An empty `advice` means that there is no advice.
    pub(crate) fn new(severity: Severity, topic: Topic, text: impl Into<String>, advice: &str) -> Self {
        let advice = (!advice.is_empty()).then(|| advice.to_owned());
        Self { severity, topic, text: text.into(), advice }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.text)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}
