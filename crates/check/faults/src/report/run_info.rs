//! The date, the machine and the versions of a run of the harness.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::Failure;
use crate::run::Run;
use crate::subject::{Subject, output};

/// The date, the commit, the version of the servers and the machine of a run.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The date, as `2026-11-16`.
    pub date: String,
    /// The commit, or `unknown`.
    pub commit: String,
    /// The version of the servers.
    pub server: String,
    /// The system and its cores.
    pub system: String,
}

impl Environment {
    /// Describes this machine and the current commit.
    ///
    /// # Errors
    /// When a system tool fails.
    pub fn read() -> Result<Self, Failure> {
        let server = output(Command::new("redis-server").arg("--version"))?;
        // `Redis server v=7.0.15 sha=..`
        let server = server.split(" sha=").next().unwrap_or_default().replace("server v=", "");
        let system = output(Command::new("uname").args(["-s", "-m"]))?;
        let commit = output(Command::new("git").args(["describe", "--always", "--dirty"])).unwrap_or_default();
        let cores = thread::available_parallelism()?;
        Ok(Self {
            date: output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?,
            commit: if commit.is_empty() { "unknown".into() } else { commit },
            server,
            system: format!("{system}, {cores} cores"),
        })
    }
}

/// The facts about a run at the top of its page.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// The date, the machine and the commit.
    pub environment: Environment,
    /// The command line.
    pub command: String,
    /// The duration of the run.
    pub duration: Duration,
    /// Each subject, and its name and version.
    pub versions: Vec<(Subject, String)>,
    /// The seed of the first episode.
    pub seed: u64,
}

impl RunInfo {
    /// The facts about a run that has just ended.
    ///
    /// # Errors
    /// When a system tool fails.
    pub fn now(command: String, seed: u64, run: &Run) -> Result<Self, Failure> {
        Ok(Self {
            environment: Environment::read()?,
            command,
            duration: run.duration(),
            versions: run.versions(),
            seed,
        })
    }
}
