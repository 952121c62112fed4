//! The command and what it has started: one process group.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

use quorlock::LostError;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};

use super::group::Group;
use super::guard::{self, Guard};
use super::mortal;
use crate::exit::{Exit, Failure};
use crate::process::Process;

/// A command and its process group, which it leads.
pub(crate) struct Job {
    pid: Pid,
    group: Group,
    /// The command waits for this to be written to.
    gate: Option<PipeWriter>,
}

/// What has become of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is over, and reaped.
    Ended(Ending),
    /// It stands still.
    Stopped(i32),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) exit: Exit,
    /// The signal that killed it.
    pub(crate) signal: Option<i32>,
}

impl Job {
    /// Starts the command up to the gate.
    pub(super) fn prepare(command: &[OsString], environment: &[(String, Option<String>)]) -> Result<Self, Failure> {
        let internal = |error: io::Error| Failure::internal(format!("cannot start the command: {error}"));
        // The processes that the command leaves behind become our children, and can be reaped wherever we run.
        set_child_subreaper(Some(getpid())).map_err(|error| internal(error.into()))?;
        let (gate, opener) = io::pipe().map_err(internal)?;
        fcntl_setfd(&gate, FdFlags::empty()).map_err(|error| internal(error.into()))?;
        let mut child = mortal(Some(gate.as_raw_fd()));
        child.args(command).process_group(0);
        for (key, value) in environment {
            match value {
                Some(value) => child.env(key, value),
                None => child.env_remove(key),
            };
        }
        let child = child.spawn().map_err(internal)?;
        let group = Group::led_by(Process::find(child.id())?);
        Ok(Self { pid: guard::pid(&child).map_err(internal)?, group, gate: Some(opener) })
    }

    /// Lets the command run, once the guard knows its group.
    pub(super) fn begin(&mut self, guard: &mut Guard) -> Result<(), Failure> {
        let internal = |what: &str, error: io::Error| Failure::internal(format!("{what}: {error}"));
        guard.watch(self.group).map_err(|error| internal("cannot start a guard", error))?;
        if guard.is_kill_due() {
            // We were stopped meanwhile.
            return Err(LostError::Expired.into());
        }
        match self.gate.take() {
            Some(mut gate) => gate.write_all(b"\n").map_err(|error| internal("cannot start the command", error)),
            None => Ok(()),
        }
    }

    /// The id of the command, and of its group.
    pub(super) fn id(&self) -> Pid {
        self.pid
    }

    pub(super) fn group(&self) -> Group {
        self.group
    }

    /// Reaps every child that has ended, and tells what that means for the command.
    pub(crate) fn change(&self, guard: &mut Guard) -> Option<Change> {
        let mut latest = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid == self.pid {
                latest = read(status).or(latest);
            } else if guard.has_id(pid) {
                if status.stopped() { guard.resume() } else { guard.died() }
            }
        }
        latest
    }
}

fn read(status: WaitStatus) -> Option<Change> {
    let ended = |exit, signal| Some(Change::Ended(Ending { exit, signal }));
    if let Some(code) = status.exit_status() {
        return ended(Exit(u8::try_from(code).unwrap_or(Exit::INTERNAL.0)), None);
    }
    if let Some(signal) = status.terminating_signal() {
        return ended(Exit::signal(signal), Some(signal));
    }
    status.stopping_signal().map(Change::Stopped)
}
