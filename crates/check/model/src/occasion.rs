//! When, where and of what a page was written.

use std::process::Command;
use std::thread;

/// What a page says about the run that wrote it.
#[derive(Clone, Debug)]
pub struct Occasion {
    /// When, as `2026-11-16`.
    date: String,
    /// Of which commit.
    commit: String,
    /// With which command.
    command: String,
    /// On which machine.
    machine: String,
}

impl Occasion {
    /// Here and now, by this verb of `./x`, with the arguments of this process. What the system does not tell is left open.
    pub fn now(verb: &str) -> Self {
        let cores = thread::available_parallelism().map_or_else(|_| "unknown".into(), |cores| cores.to_string());
        Self {
            date: said("date", &["-u", "+%Y-%m-%d"]),
            commit: said("git", &["describe", "--always", "--dirty"]),
            command: std::env::args().skip(1).fold(format!("./x {verb}"), |all, word| all + " " + &word),
            machine: format!("{}, {cores} cores", said("uname", &["-s", "-m"])),
        }
    }

    /// One line.
    pub fn told(&self) -> String {
        let Self { date, commit, command, machine } = self;
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "Written by `{command}` on {date}, of quorlock {version}, commit {commit}; not to be edited. {machine}."
        )
    }
}

fn said(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output().ok().filter(|output| output.status.success());
    output.map_or_else(|| "unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().into())
}
