//! Who is judged: quorlock, and others that show what the judge can see.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;
use quorlock_testkit::mortal_command;
use serde::Serialize;

use crate::task::Task;

/// A lock library, as a program that takes a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// quorlock as it is shipped.
    Quorlock,
    /// quorlock without its quarantine: nodes that lost their memory vote at once.
    Trusting,
}

impl Subject {
    /// What it is, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Quorlock => "quorlock",
            Self::Trusting => "quorlock, `danger_trust_restarts`",
        }
    }

    /// Whether it is here to show what the judge can see.
    pub fn is_control(self) -> bool {
        self != Self::Quorlock
    }

    /// Whether its nodes have to be declared a cluster.
    pub fn founds_cluster(self) -> bool {
        matches!(self, Self::Quorlock | Self::Trusting)
    }
}

/// `quorlock`, as it is typed.
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
    file: OsString,
    args: Vec<OsString>,
}

impl Program {
    /// The program for a subject; `this` is the harness, which is a client of quorlock, too.
    pub fn new(subject: Subject, this: PathBuf) -> Self {
        Self { subject, file: this.into(), args: vec!["worker".into()] }
    }

    /// The same, when this process is the harness itself.
    ///
    /// # Errors
    /// When it is not known where it was started from.
    pub fn of_this(subject: Subject) -> io::Result<Self> {
        Ok(Self::new(subject, env::current_exe()?))
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
