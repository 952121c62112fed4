//! The guardian: a process that outlives a killed wrapper for as long as it takes to kill the command's process group.
//!
//! It is started before the command, as the leader of the group that the command will join. So it knows which group that
//! is without being told, and the terminal can be given to the group before anybody in it could read. Once the command
//! has joined, the guardian goes back to the wrapper's group. End of file on its pipe without a farewell means that the
//! wrapper is dead.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpgrp, getpid, kill_process_group, setpgid, waitpid};

use super::group::is_alive;
use super::hidden;

/// The hidden command, with the wrapper's process group behind it.
pub(super) const COMMAND: &str = "__guard";
/// The command has joined the group: step out of it.
const JOINED: u8 = b'j';
/// The command is over: go.
const FAREWELL: u8 = b'f';
/// The longest rest between two tries to kill what is left.
const REST_MAX: Duration = Duration::from_secs(1);

/// The guardian, as its wrapper sees it.
pub(crate) struct Guard {
    pid: Pid,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Posts one.
    pub(crate) fn post() -> io::Result<Self> {
        let mut command = hidden(COMMAND);
        command.arg(getpgrp().to_string()).process_group(0);
        // A pipe that someone reads to its end must not stay open for our sake.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        Ok(Self { pid: pid(&child)?, pipe: child.stdin.take() })
    }

    /// Its own id: as long as it lives, something of the command may.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The process group that it guards, which the command is to join.
    pub(crate) fn group(&self) -> Pid {
        self.pid
    }

    /// The command is in the group.
    pub(crate) fn joined(&mut self) -> io::Result<()> {
        self.tell(JOINED)
    }

    /// There is nothing left to guard. Dropped without this, it kills the group.
    pub(crate) fn dismiss(&mut self) {
        // If it is gone already, it does not need to be told.
        let _ = self.tell(FAREWELL);
    }

    fn tell(&mut self, what: u8) -> io::Result<()> {
        self.pipe.as_mut().ok_or(Errno::PIPE)?.write_all(&[what])
    }
}

/// Waits until it has done what it has to: then nothing of the command is left, and no zombie either.
impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        while waitpid(Some(self.pid), WaitOptions::empty()).err() == Some(Errno::INTR) {}
    }
}

/// A child's id, in the terms of the calls that are made with it.
pub(super) fn pid(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process without an id"))
}

/// The guardian's own life.
pub(super) fn stand(wrappers_group: Option<Pid>) -> ExitCode {
    // It goes when there is nothing left to guard, and not with its neighbours.
    if SigSet::all().thread_block().is_err() {
        return ExitCode::FAILURE;
    }
    let group = getpid();
    loop {
        let mut said = [0];
        match rustix::io::read(rustix::stdio::stdin(), &mut said) {
            Ok(1) if said == [FAREWELL] => return ExitCode::SUCCESS,
            // If that fails, it dies with the group that it kills, which is early but not wrong.
            Ok(1) => drop(setpgid(None, wrappers_group)),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let mut rest = Duration::from_millis(1);
    // Whoever sees that the guardian is gone may take it that the group is.
    while kill_process_group(group, Signal::KILL) != Err(Errno::SRCH) && is_alive(group) {
        std::thread::sleep(rest);
        rest = (rest * 2).min(REST_MAX);
    }
    ExitCode::SUCCESS
}
