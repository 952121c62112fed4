//! The command and what it has started: one process group.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, test_kill_process_group,
    wait,
};

use super::group::is_alive;
use super::guard::{self, Guard};
use super::mortal;
use crate::exit::Exit;

/// A running command, in the group that its guardian guards.
pub(crate) struct Job {
    pid: Pid,
    group: Pid,
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
    /// Starts the command.
    pub(crate) fn start(
        guard: &mut Guard,
        command: &[OsString],
        environment: &[(&str, Option<String>)],
    ) -> io::Result<Self> {
        // What the command leaves behind comes to us, and can be reaped wherever we run.
        set_child_subreaper(Some(getpid()))?;
        let mut child = mortal();
        child.args(command).process_group(guard.group().as_raw_nonzero().get());
        for (key, value) in environment {
            match value {
                Some(value) => child.env(key, value),
                None => child.env_remove(key),
            };
        }
        let pid = guard::pid(&child.spawn()?)?;
        let job = Self { pid, group: guard.group() };
        // A guardian that is not there any more is no reason to run without one.
        guard.joined().inspect_err(|_| job.signal(Signal::KILL))?;
        Ok(job)
    }

    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended in this moment: then there is nobody to tell.
        let _ = kill_process_group(self.group, signal);
    }

    /// Whether anybody is left in the group, be it dead or the guardian on its way out.
    pub(crate) fn has_members(&self) -> bool {
        test_kill_process_group(self.group) != Err(Errno::SRCH)
    }

    /// Whether anything in the group still runs: a look at every process of the machine.
    pub(crate) fn is_alive(&self) -> bool {
        is_alive(self.group)
    }

    /// Reaps whoever has ended, and tells what that means for the command.
    pub(crate) fn change(&self) -> Option<Change> {
        let mut latest = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid == self.pid {
                latest = read(status).or(latest);
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
