//! The date, the commit and the command line of this process, for the page that the process writes.

use std::process::Command;
use std::thread;

/// The facts about this process that its page shows.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// For example `2026-11-16`.
    date: String,
    commit: String,
    command: String,
    /// The system and its number of cores.
    machine: String,
}

impl RunInfo {
    /// Reads the facts about this process, which `./x subcommand` started. A fact that cannot be read is `unknown`.
    pub fn now(subcommand: &str) -> Self {
        let cores = thread::available_parallelism().map_or_else(|_| "unknown".into(), |cores| cores.to_string());
        Self {
            date: output_of("date", &["-u", "+%Y-%m-%d"]),
            commit: output_of("git", &["describe", "--always", "--dirty"]),
            command: std::env::args().skip(1).fold(format!("./x {subcommand}"), |all, word| all + " " + &word),
            machine: format!("{}, {cores} cores", output_of("uname", &["-s", "-m"])),
        }
    }

    /// The facts in one line.
    pub fn line(&self) -> String {
        let Self { date, commit, command, machine } = self;
        let version = env!("CARGO_PKG_VERSION");
        format!("Written by `{command}` on {date}, quorlock {version}, commit {commit}; do not edit. {machine}.")
    }
}

fn output_of(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output().ok().filter(|output| output.status.success());
    output.map_or_else(|| "unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().into())
}
