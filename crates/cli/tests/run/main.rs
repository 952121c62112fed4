//! `quorlock run` as its users meet it: the real binary, a real file, real servers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod codes;
#[path = "../common/mod.rs"]
mod common;
mod held;
mod killed;
mod kinds;
mod lost;
mod signals;
mod terminal;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus};

use common::{User, cluster};
use quorlock_testkit::{RedisServer, eventually};

/// Where the locks of a test live: in a file, or on three servers.
struct Place {
    user: User,
    flags: Vec<String>,
    servers: Vec<RedisServer>,
}

impl Place {
    fn file() -> Self {
        Self { user: User::new(), flags: Vec::new(), servers: Vec::new() }
    }

    fn servers() -> Self {
        let user = User::new();
        let (servers, nodes) = cluster(&user, 3);
        Self { user, flags: vec!["--nodes".into(), nodes], servers }
    }

    /// What is true of both.
    fn both(claim: impl Fn(&Self)) {
        claim(&Self::file());
        claim(&Self::servers());
    }

    /// `quorlock run` with these arguments.
    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = self.user.quorlock(&["run"]);
        command.args(&self.flags).args(arguments);
        command
    }

    /// A shell script under the lock, which has said its first line.
    fn script(&self, flags: &[&str], script: &str) -> Running {
        Running::start(&mut self.run(&[flags, &["--", "sh", "-c", script]].concat()))
    }

    /// A run that holds the lock until it is killed or told to end.
    fn hold(&self, flags: &[&str]) -> common::Holder {
        let nodes = self.flags.iter().map(String::as_str);
        self.user.hold(&["run"].into_iter().chain(nodes).chain(flags.iter().copied()).collect::<Vec<_>>())
    }

    fn is_free(&self, name: &str) -> bool {
        self.run(&[name, "--", "true"]).output().unwrap().status.success()
    }
}

/// A run that says something.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    first: String,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, stdout, first: String::new() };
        running.first = running.line();
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, name: &str) {
        common::signal(self.child.id(), name);
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    fn code(self) -> Option<i32> {
        self.wait().code()
    }
}

fn eventually_gone(pids: &str) {
    for pid in pids.split_whitespace() {
        eventually("the process is gone", || !common::is_alive(pid));
    }
}
