//! The command and its descendants, in one process group. The *wrapper* is the `quorlock run` process. The command
//! starts when the wrapper opens a gate, and is killed when the wrapper dies.

use std::env::ArgsOs;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use quorlock::LostError;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, set_child_subreaper, set_parent_process_death_signal, wait,
};

use super::bound_program;
use super::environment::Environment;
use super::guard::Guard;
use crate::exit::{Exit, Failure, Outcome};
use crate::process::Process;

/// The hidden command that becomes the command of a run. Its arguments are the wrapper's process id, the gate and the
/// command.
pub(super) const COMMAND: &str = "__exec";

/// A command and its process group, which the command leads.
pub(crate) struct Job {
    /// The id of the command and of its group.
    pub(super) pid: Pid,
    pub(super) leader: Process,
    /// The writing end of the gate: the command starts when the wrapper writes to this pipe.
    opener: PipeWriter,
}

impl Job {
    /// Starts the process of the command, which waits at the gate.
    pub(super) fn prepare(command: &[OsString], environment: &Environment) -> Outcome<Self> {
        let cannot = Failure::cannot("start the command");
        // Orphans of the command become our children, so that we can reap them on any system.
        set_child_subreaper(Some(getpid())).map_err(|error| cannot(error.into()))?;
        let (gate, opener) = io::pipe().map_err(&cannot)?;
        fcntl_setfd(&gate, FdFlags::empty()).map_err(|error| cannot(error.into()))?;
        let mut child = bound_program(Some(gate.as_raw_fd()));
        child.args(command).process_group(0);
        for (key, value) in environment {
            match value {
                Some(value) => child.env(key, value),
                None => child.env_remove(key),
            };
        }
        let child = child.spawn().map_err(&cannot)?;
        let leader = Process::find(child.id())?;
        Ok(Self { pid: Pid::from_child(&child), leader, opener })
    }

    /// Orders the guard to watch the command's process group, then lets the command run.
    pub(super) fn begin(&mut self, guard: &mut Guard) -> Outcome<()> {
        guard.set_command(self.leader).map_err(Failure::cannot("start a guard"))?;
        if guard.is_kill_due() {
            // The deadline passed because this process was stopped for a while.
            return Err(LostError::Expired.into());
        }
        self.opener.write_all(b"\n").map_err(Failure::cannot("start the command"))
    }

    /// Sends a signal to the command and everything in its group.
    pub(super) fn signal(&self, signal: Signal) {
        self.leader.signal_group(signal);
    }

    /// Reaps every child process that has ended. Returns the latest change of the command: that it ended, or stopped.
    pub(crate) fn reap(&self, guard: &mut Guard) -> Option<WaitStatus> {
        let mut latest = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid == self.pid {
                latest = Some(status);
            } else {
                guard.handle_change(pid, status.stopped());
            }
        }
        latest
    }
}

/// Waits at the gate, then replaces this process by the command. Returns only if that fails.
///
/// `gate` is a pipe that the wrapper writes to as soon as the guard knows the process group.
pub(super) fn become_command(wrapper: Option<Pid>, gate: Option<RawFd>, mut command: ArgsOs) -> Exit {
    // Check the parent after this call, because the call has no effect if the wrapper is already dead.
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

/// Waits until the wrapper writes to the gate. Fails if the wrapper closes the gate instead.
fn wait_at(gate: RawFd) -> io::Result<()> {
    let mut pipe = File::open(format!("/proc/self/fd/{gate}"))?;
    // The command must not inherit the pipe.
    nix::unistd::close(gate)?;
    pipe.read_exact(&mut [0])
}
