//! Who is judged: quorlock, and others that show what the judge can see.

mod prepare;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;
use quorlock_testkit::mortal_command;
use serde::Serialize;

use crate::Failure;
use crate::task::Task;
pub(crate) use prepare::output;

/// A lock library, as a program that takes a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// quorlock as it is shipped.
    Quorlock,
    /// quorlock without its quarantine: nodes that lost their memory vote at once.
    Trusting,
    /// rslock, from crates.io.
    Rslock,
    /// `@sesamecare-oss/redlock` on ioredis, from npm.
    NodeRedlock,
}

impl Subject {
    /// Those that are here to show what the judge can see.
    pub const CONTROLS: [Self; 3] = [Self::Trusting, Self::Rslock, Self::NodeRedlock];

    /// Whether it is one of them.
    pub fn is_control(self) -> bool {
        self != Self::Quorlock
    }

    /// Whether it is somebody else's.
    pub fn is_foreign(self) -> bool {
        matches!(self, Self::Rslock | Self::NodeRedlock)
    }

    /// Whether its leases have fences.
    pub fn has_fences(self) -> bool {
        self.founds_cluster()
    }

    /// Whether its nodes have to be declared a cluster.
    pub fn founds_cluster(self) -> bool {
        matches!(self, Self::Quorlock | Self::Trusting)
    }
}

/// `node-redlock`, as it is typed.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// How the client processes of a subject are started.
#[derive(Clone, Debug)]
pub struct Program {
    /// Whose.
    pub subject: Subject,
    /// What exactly, for people.
    pub version: String,
    file: OsString,
    args: Vec<OsString>,
}

impl Program {
    /// The program for a subject, made ready: built, or fetched from its registry. `this` is the harness, which is a
    /// client of quorlock, too.
    ///
    /// # Errors
    /// When it cannot be made ready, or what it needs is missing here.
    pub fn prepare(subject: Subject, this: PathBuf) -> Result<Self, Failure> {
        match subject {
            Subject::Quorlock | Subject::Trusting => Ok(Self::own(subject, this)),
            Subject::Rslock => prepare::rslock(),
            Subject::NodeRedlock => prepare::node_redlock(),
        }
    }

    fn own(subject: Subject, this: PathBuf) -> Self {
        let version = match subject {
            Subject::Trusting => "without its quarantine (`danger_trust_restarts`)",
            _ => "as it is",
        };
        let version = format!("quorlock {}, {version}", env!("CARGO_PKG_VERSION"));
        Self { subject, version, file: this.into(), args: vec!["worker".into()] }
    }

    /// A command that starts a client with this task. It dies with this process.
    ///
    /// # Errors
    /// When the task cannot be told.
    pub fn command(&self, mut task: Task) -> io::Result<Command> {
        task.trusting = self.subject == Subject::Trusting;
        let mut command = mortal_command(&self.file);
        command.args(&self.args).arg(serde_json::to_string(&task)?);
        Ok(command)
    }
}
