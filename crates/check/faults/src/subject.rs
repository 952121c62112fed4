//! The libraries under test: quorlock, and controls that show what the judge can detect.

mod prepare;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use quorlock_testkit::command_that_dies_with_parent;
use serde::Serialize;

use crate::Failure;
use crate::task::Task;
pub(crate) use prepare::output;

/// A lock library, as a program that takes a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// quorlock as it is shipped.
    Quorlock,
    /// quorlock without its quarantine: nodes that lost their memory vote at once.
    Trusting,
    /// quorlock with leases that may become valid again after they were lost. A test uses this library to show that the
    /// judge detects revived leases. The library is not on the page of the results.
    Reviving,
    /// rslock, from crates.io.
    Rslock,
    /// `@sesamecare-oss/redlock` on ioredis, from npm.
    NodeRedlock,
}

impl Subject {
    /// The controls on the page of the results.
    pub const CONTROLS: [Self; 3] = [Self::Trusting, Self::Rslock, Self::NodeRedlock];

    /// Whether this is a control.
    pub fn is_control(self) -> bool {
        self != Self::Quorlock
    }

    /// Whether this is a library of another project.
    pub fn is_foreign(self) -> bool {
        matches!(self, Self::Rslock | Self::NodeRedlock)
    }

    /// Whether the library's leases have fences.
    pub fn has_fences(self) -> bool {
        self.needs_init()
    }

    /// Whether the nodes of the library have to be initialized as a cluster.
    pub fn needs_init(self) -> bool {
        matches!(self, Self::Quorlock | Self::Trusting | Self::Reviving)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The program that runs a subject's client processes.
#[derive(Clone, Debug)]
pub struct Program {
    /// The library.
    pub subject: Subject,
    /// The name and the version of the library, for the page of the results.
    pub version: String,
    /// Whether each client locks its own name, and holds the lock for a long time. Otherwise the clients compete.
    pub is_uncontended: bool,
    file: OsString,
    args: Vec<OsString>,
}

impl Program {
    /// Builds the program of a subject, or fetches it from its registry. The harness is also the client program for
    /// quorlock.
    ///
    /// # Errors
    /// When the build fails or a tool is missing.
    pub fn prepare(subject: Subject, harness: PathBuf) -> Result<Self, Failure> {
        match subject {
            Subject::Quorlock | Subject::Trusting | Subject::Reviving => Ok(Self::quorlock(subject, harness)),
            Subject::Rslock => prepare::rslock(),
            Subject::NodeRedlock => prepare::node_redlock(),
        }
    }

    fn quorlock(subject: Subject, harness: PathBuf) -> Self {
        let variant = match subject {
            Subject::Trusting => "without quarantine (`danger_trust_restarts`)",
            Subject::Reviving => "with leases that can be revived",
            _ => "as shipped",
        };
        let version = format!("quorlock {}, {variant}", env!("CARGO_PKG_VERSION"));
        Self { subject, version, is_uncontended: false, file: harness.into(), args: vec!["worker".into()] }
    }

    /// The same program with clients that do not compete.
    #[must_use]
    pub fn uncontended(self) -> Self {
        Self { is_uncontended: true, ..self }
    }

    /// A command that starts a client with this task. The kernel kills the client when the harness ends.
    ///
    /// # Errors
    /// When the task cannot be serialized.
    pub fn command(&self, mut task: Task) -> io::Result<Command> {
        task.trusting = self.subject == Subject::Trusting;
        task.reviving = self.subject == Subject::Reviving;
        if self.is_uncontended {
            task.names = vec![format!("own-{}", task.client)];
            task.long_one_in = 1;
        }
        let mut command = command_that_dies_with_parent(&self.file);
        command.args(&self.args).arg(serde_json::to_string(&task)?);
        Ok(command)
    }
}
