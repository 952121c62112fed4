//! The last step before the command: from here on it dies with the wrapper.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::exit::Failure;

/// The hidden command, with the wrapper's id and the command behind it.
pub(super) const COMMAND: &str = "__exec";

/// Becomes the command. Returns only if that is impossible.
pub(super) fn become_command(wrapper: Option<Pid>, mut command: impl Iterator<Item = OsString>) -> ExitCode {
    // The order matters: a wrapper that died before the first call is noticed by the second.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return Failure::Internal(format!("the command would outlive its lock: {error}")).report();
    }
    if getppid() != wrapper {
        return Failure::Internal("the wrapper is gone".into()).report();
    }
    let Some(program) = command.next() else { return Failure::Usage("no command".into()).report() };
    let error = Command::new(&program).args(command).exec();
    Failure::Spawn { command: program.to_string_lossy().into_owned(), error }.report()
}
