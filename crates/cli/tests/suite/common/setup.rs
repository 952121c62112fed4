//! A user, and the nodes of a test.

use std::process::{Command, Output};

use quorlock_testkit::{RedisServer, eventually};

use super::{User, start_cluster};

/// A user whose only node is an SQLite file, or whose nodes are servers. Dropping it stops the servers.
pub(crate) struct Setup {
    pub(crate) user: User,
    /// The flags that name the nodes.
    pub(crate) flags: Vec<String>,
    pub(crate) servers: Vec<RedisServer>,
}

impl Setup {
    pub(crate) fn with_file() -> Self {
        Self { user: User::new(), flags: Vec::new(), servers: Vec::new() }
    }

    /// Starts three servers.
    pub(crate) fn with_three_servers() -> Self {
        Self::with_servers(3)
    }

    /// Starts this number of servers.
    pub(crate) fn with_servers(size: usize) -> Self {
        let user = User::new();
        let (servers, nodes) = start_cluster(&user, size);
        Self { user, flags: vec!["--nodes".into(), nodes], servers }
    }

    /// Runs a test with an SQLite file as the only node, and then with three servers.
    pub(crate) fn on_file_and_servers(test: impl Fn(&Self)) {
        test(&Self::with_file());
        test(&Self::with_three_servers());
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
        let mut decided_output = None;
        eventually("a quorum answers in time", || {
            let output = self.quorlock(arguments).output().unwrap();
            decided_output = Some(output).filter(|output| output.status.code() != Some(69));
            decided_output.is_some()
        });
        decided_output.unwrap()
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
