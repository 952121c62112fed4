//! Runs the real binary as a user, with a real SQLite file and real servers as nodes.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of this module; a test fails by panicking"
)]

pub(crate) mod pty;
pub(crate) mod setup;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use quorlock_testkit::{RedisServer, eventually};
use tempfile::TempDir;

/// A user of the tool, with a home directory of their own.
pub(crate) struct User {
    pub(crate) home: TempDir,
}

impl User {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// Returns `quorlock` with these arguments. Its folders are in the home directory.
    pub(crate) fn quorlock(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
        command.args(arguments).env("XDG_STATE_HOME", self.home.path()).env("XDG_CONFIG_HOME", self.home.path());
        // The variables of the user who runs the tests must have no effect.
        let is_read_by_quorlock = |name: &str| name.starts_with("QUORLOCK_") || name == "NO_COLOR";
        for (name, _) in std::env::vars().filter(|(name, _)| is_read_by_quorlock(name)) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.quorlock(arguments).output().unwrap()
    }

    /// Starts a run whose command ends when its stdin ends. Returns when the run holds the lock.
    pub(crate) fn hold(&self, arguments: &[&str]) -> Holder {
        let script = "echo started; read _";
        let all_arguments: Vec<&str> = arguments.iter().copied().chain(["--", "sh", "-c", script]).collect();
        let mut child = self.quorlock(&all_arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        Holder(child)
    }
}

/// Starts the servers of a cluster that can vote. Returns the servers, and their URLs for `--nodes`.
pub(crate) fn start_cluster(user: &User, size: usize) -> (Vec<RedisServer>, String) {
    let servers = RedisServer::start_many(size);
    let nodes = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",");
    let init = || user.run(&["nodes", "init", "--yes", "--nodes", &nodes]).status.success();
    eventually("nodes init succeeds", init);
    (servers, nodes)
}

/// A `quorlock run` that holds its lock until `end` is called.
pub(crate) struct Holder(pub(crate) Child);

impl Holder {
    pub(crate) fn end(mut self) -> Option<i32> {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
pub(crate) fn assert_fails(output: &Output, code: i32, message: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    assert!(stderr(output).contains(message), "{message:?} is not in: {}", stderr(output));
}

pub(crate) fn is_alive(pid: &str) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success());
}
