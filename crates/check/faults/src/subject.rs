//! Who is judged: quorlock, and others that show what the judge can see.

mod prepare;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use quorlock_testkit::mortal_command;
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
    /// quorlock with leases that may be valid again after they were lost. It shows what the judge of quorlock itself can see, in a
    /// test; the others have nothing like it, so it is not on the page.
    Reviving,
    /// rslock, from crates.io.
    Rslock,
    /// `@sesamecare-oss/redlock` on ioredis, from npm.
    NodeRedlock,
}

impl Subject {
    /// Those that are compared with quorlock, to show what the judge can see.
    pub const CONTROLS: [Self; 3] = [Self::Trusting, Self::Rslock, Self::NodeRedlock];

    /// Whether it is not quorlock as it is shipped.
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
        matches!(self, Self::Quorlock | Self::Trusting | Self::Reviving)
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
    /// Whether nobody competes: each client has a name of its own, and keeps it for long.
    pub is_apart: bool,
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
            Subject::Quorlock | Subject::Trusting | Subject::Reviving => Ok(Self::own(subject, this)),
            Subject::Rslock => prepare::rslock(),
            Subject::NodeRedlock => prepare::node_redlock(),
        }
    }

    fn own(subject: Subject, this: PathBuf) -> Self {
        let version = match subject {
            Subject::Trusting => "without its quarantine (`danger_trust_restarts`)",
            Subject::Reviving => "without its rule that lost is final",
            _ => "as it is",
        };
        let version = format!("quorlock {}, {version}", env!("CARGO_PKG_VERSION"));
        Self { subject, version, is_apart: false, file: this.into(), args: vec!["worker".into()] }
    }

    /// The same, where nobody competes.
    #[must_use]
    pub fn apart(self) -> Self {
        Self { is_apart: true, ..self }
    }

    /// A command that starts a client with this task. It dies with this process.
    ///
    /// # Errors
    /// When the task cannot be told.
    pub fn command(&self, mut task: Task) -> io::Result<Command> {
        task.trusting = self.subject == Subject::Trusting;
        task.reviving = self.subject == Subject::Reviving;
        if self.is_apart {
            task.names = vec![format!("own-{}", task.client)];
            task.long_one_in = 1;
        }
        let mut command = mortal_command(&self.file);
        command.args(&self.args).arg(serde_json::to_string(&task)?);
        Ok(command)
    }
}
