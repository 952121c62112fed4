//! The last step before the command starts: from here on it dies with the wrapper.

use std::env::ArgsOs;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::exit::{Exit, Failure};

/// The hidden command. Its arguments are the wrapper's id, the gate and the command.
pub(super) const COMMAND: &str = "__exec";

/// Replaces this process by the command. Returns only if that fails.
///
/// `gate` is a pipe that the wrapper writes to as soon as the guard knows the process group.
pub(super) fn become_command(wrapper: Option<Pid>, gate: Option<RawFd>, mut command: ArgsOs) -> ExitCode {
    // The order matters: the second call detects a wrapper that died before the first.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return Failure::internal(format!("the command would outlive its lock: {error}")).report();
    }
    if getppid() != wrapper {
        return Failure::internal("the wrapper is gone").report();
    }
    if let Some(gate) = gate
        && let Err(error) = wait_at(gate)
    {
        return Failure::internal(format!("the wrapper has given up: {error}")).report();
    }
    let Some(program) = command.next() else { return Failure::usage("no command").report() };
    let error = Command::new(&program).args(command).exec();
    let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NOT_FOUND } else { Exit::NOT_EXECUTABLE };
    Failure::new(exit, format_args!("cannot run {}: {error}", program.display())).report()
}

fn wait_at(gate: RawFd) -> io::Result<()> {
    let mut pipe = File::open(format!("/proc/self/fd/{gate}"))?;
    // The command must not inherit it.
    nix::unistd::close(gate)?;
    pipe.read_exact(&mut [0])
}
