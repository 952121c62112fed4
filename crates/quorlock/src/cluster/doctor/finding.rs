//! What was found, how bad it is, and what to do about it.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// It works, but not as well as it could, or not for long.
    Warning,
    /// It keeps a node from voting, or locks from being safe.
    Wrong,
}

/// One word.
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// Whether it answers, and how fast.
    Reach,
    /// Whether it lets us in, and do what has to be done.
    Access,
    /// Which server it is: its version and role, and whether it is there twice.
    Server,
    /// What it keeps over a restart.
    Persistence,
    /// What it does when its memory is full.
    Memory,
    /// Whether it may vote: its epoch, quarantine and restarts.
    Life,
    /// What everyone who uses the cluster has to agree on.
    Constants,
    /// Its wall clock.
    Clock,
    /// The file of an SQLite node.
    File,
    /// How many nodes there are, and how many may fail.
    Quorum,
    /// What was configured on this side.
    Settings,
}

/// One word.
impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub topic: Topic,
    /// What was found, in one sentence.
    pub text: String,
    /// What to do about it, unless that is nothing.
    pub advice: Option<String>,
}

impl Finding {
    /// A finding with advice; an empty one is none.
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
