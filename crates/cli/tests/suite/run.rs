//! `quorlock run` with the real binary, a real SQLite file and real servers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arguments_and_exit_codes;
mod guard;
mod held_lock;
mod killed_wrapper;
mod lost_lock;
mod nested;
mod signals;
mod terminal;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus};

use crate::common::setup::Setup;
use crate::common::{Holder, is_alive, signal};
use quorlock_testkit::eventually;

impl Setup {
    /// Returns `quorlock run` with these arguments.
    fn run(&self, arguments: &[&str]) -> Command {
        self.quorlock(&[&["run"], arguments].concat())
    }

    /// Starts a shell script under the lock. Returns when the script has printed its first line.
    fn start_script(&self, flags: &[&str], script: &str) -> StartedRun {
        StartedRun::start(&mut self.run(&[flags, &["--", "sh", "-c", script]].concat()))
    }

    /// Starts a run that holds the lock until it is killed, or until `end` is called.
    fn hold(&self, flags: &[&str]) -> Holder {
        let nodes = self.flags.iter().map(String::as_str);
        self.user.hold(&["run"].into_iter().chain(nodes).chain(flags.iter().copied()).collect::<Vec<_>>())
    }
}

/// A `quorlock run` whose output the test reads.
struct StartedRun {
    child: Child,
    stdout: BufReader<ChildStdout>,
    first_line: String,
}

impl StartedRun {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut run = Self { child, stdout, first_line: String::new() };
        run.first_line = run.read_line();
        run
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    fn exit_code(self) -> Option<i32> {
        self.wait().code()
    }
}

/// Waits until none of these processes, whose ids are separated by spaces, is alive.
fn wait_until_gone(pids: &str) {
    for pid in pids.split_whitespace() {
        eventually("the process is gone", || !is_alive(pid));
    }
}
