//! The command and its descendants: one process group.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

use quorlock::LostError;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};

use super::environment::Environment;
use super::guard::Guard;
use super::mortal;
use crate::exit::{Failure, Outcome};
use crate::process::Process;

/// A command and its process group, which it leads.
pub(crate) struct Job {
    /// The id of the command and of its group.
    pub(super) pid: Pid,
    pub(super) leader: Process,
    /// The command starts when this pipe is written to.
    gate: PipeWriter,
}

impl Job {
    /// Starts the command, which waits at the gate.
    pub(super) fn prepare(command: &[OsString], environment: &Environment) -> Outcome<Self> {
        let cannot = Failure::cannot("start the command");
        // Orphans of the command become our children, so that we can reap them on any system.
        set_child_subreaper(Some(getpid())).map_err(|error| cannot(error.into()))?;
        let (gate, opener) = io::pipe().map_err(&cannot)?;
        fcntl_setfd(&gate, FdFlags::empty()).map_err(|error| cannot(error.into()))?;
        let mut child = mortal(Some(gate.as_raw_fd()));
        child.args(command).process_group(0);
        for (key, value) in environment {
            match value {
                Some(value) => child.env(key, value),
                None => child.env_remove(key),
            };
        }
        let child = child.spawn().map_err(&cannot)?;
        let leader = Process::find(child.id())?;
        Ok(Self { pid: Pid::from_child(&child), leader, gate: opener })
    }

    /// Lets the command run, after the guard knows its group.
    pub(super) fn begin(&mut self, guard: &mut Guard) -> Outcome<()> {
        guard.watch(self.leader).map_err(Failure::cannot("start a guard"))?;
        if guard.is_kill_due() {
            // This process was stopped meanwhile.
            return Err(LostError::Expired.into());
        }
        self.gate.write_all(b"\n").map_err(Failure::cannot("start the command"))
    }

    /// Sends a signal to the command and everything in its group.
    pub(super) fn signal(&self, signal: Signal) {
        self.leader.signal_group(signal);
    }

    /// Reaps every child that has ended. Returns how the command ended, or that it has stopped.
    pub(crate) fn change(&self, guard: &mut Guard) -> Option<WaitStatus> {
        let mut latest = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid == self.pid {
                latest = Some(status);
            } else {
                guard.changed(pid, status.stopped());
            }
        }
        latest
    }
}
