//! The nodes of a test.

use std::process::{Command, Output};

use quorlock_testkit::{RedisServer, eventually};

use super::{User, cluster};

/// A user with a file or with servers, which live as long as this.
pub(crate) struct Place {
    pub(crate) user: User,
    pub(crate) flags: Vec<String>,
    pub(crate) servers: Vec<RedisServer>,
}

impl Place {
    pub(crate) fn file() -> Self {
        Self { user: User::new(), flags: Vec::new(), servers: Vec::new() }
    }

    /// Three servers.
    pub(crate) fn servers() -> Self {
        Self::of(3)
    }

    /// Servers of this number.
    pub(crate) fn of(size: usize) -> Self {
        let user = User::new();
        let (servers, nodes) = cluster(&user, size);
        Self { user, flags: vec!["--nodes".into(), nodes], servers }
    }

    /// Runs a claim on a file and on three servers.
    pub(crate) fn both(claim: impl Fn(&Self)) {
        claim(&Self::file());
        claim(&Self::servers());
    }

    /// `quorlock` with these arguments.
    pub(crate) fn quorlock(&self, arguments: &[&str]) -> Command {
        let mut command = self.user.quorlock(&[]);
        command.args(&self.flags).args(arguments);
        command
    }

    /// Runs the command, again while it ends without a quorum: on a busy machine the nodes may answer too late.
    pub(crate) fn decided(&self, arguments: &[&str]) -> Output {
        let mut decided = None;
        eventually("the nodes answer in time", || {
            let output = self.quorlock(arguments).output().unwrap();
            decided = Some(output).filter(|output| output.status.code() != Some(69));
            decided.is_some()
        });
        decided.unwrap()
    }

    /// Whether a run gets the lock without waiting. Retries if the nodes of a busy machine reply too late.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        let mut code = None;
        eventually("the nodes decide", || {
            code = self.quorlock(&["run", name, "-n", "--", "true"]).output().unwrap().status.code();
            matches!(code, Some(0 | 75))
        });
        code == Some(0)
    }
}
