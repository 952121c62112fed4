//! A user, and the nodes of a test.

use std::process::{Command, Output};

use quorlock_testkit::{RedisServer, eventually};

use super::{User, cluster};

/// A user with a file or with servers. The servers end when this is dropped.
pub(crate) struct Setup {
    pub(crate) user: User,
    pub(crate) flags: Vec<String>,
    pub(crate) servers: Vec<RedisServer>,
}

impl Setup {
    pub(crate) fn file() -> Self {
        Self { user: User::new(), flags: Vec::new(), servers: Vec::new() }
    }

    /// Starts three servers.
    pub(crate) fn servers() -> Self {
        Self::with_servers(3)
    }

    /// Starts this number of servers.
    pub(crate) fn with_servers(size: usize) -> Self {
        let user = User::new();
        let (servers, nodes) = cluster(&user, size);
        Self { user, flags: vec!["--nodes".into(), nodes], servers }
    }

    /// Runs a test on a file, and then on three servers.
    pub(crate) fn on_both(test: impl Fn(&Self)) {
        test(&Self::file());
        test(&Self::servers());
    }

    /// Returns `quorlock` with these arguments.
    pub(crate) fn quorlock(&self, arguments: &[&str]) -> Command {
        let mut command = self.user.quorlock(&[]);
        command.args(&self.flags).args(arguments);
        command
    }

    /// Runs the command, and repeats it while it ends without a quorum: on a busy machine the nodes may answer too
    /// late.
    pub(crate) fn run_with_quorum(&self, arguments: &[&str]) -> Output {
        let mut decided = None;
        eventually("a quorum answers in time", || {
            let output = self.quorlock(arguments).output().unwrap();
            decided = Some(output).filter(|output| output.status.code() != Some(69));
            decided.is_some()
        });
        decided.unwrap()
    }

    /// Returns whether a run gets the lock without waiting. Retries if the nodes of a busy machine answer too late.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        let mut code = None;
        eventually("a quorum answers in time", || {
            code = self.quorlock(&["run", name, "-n", "--", "true"]).output().unwrap().status.code();
            matches!(code, Some(0 | 75))
        });
        code == Some(0)
    }
}
