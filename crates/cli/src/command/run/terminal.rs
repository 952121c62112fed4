//! The terminal, which is lent to the command as a shell does with its jobs.

use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::process::{Pid, Signal, getpgid, getpgrp, getpid, getsid, kill_current_process_group, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

use crate::process::parent;

/// The terminal that controls this session, and how it was before it was lent.
pub(crate) struct Terminal {
    tty: File,
    own: Pid,
    modes: Option<Termios>,
    /// Whether the command gets it from the start, and not only when it asks for it. In a pipeline there are others who
    /// need it.
    pub(crate) is_for_command: bool,
}

impl Terminal {
    /// `None` where there is none, as in a cron job.
    pub(crate) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // Taking the terminal back from the background would otherwise stop us.
        let mut mask = SigSet::empty();
        mask.add(Blocked::SIGTTOU);
        mask.thread_block().ok()?;
        let is_for_command = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let modes = tcgetattr(&tty).ok();
        Some(Self { tty, own: getpgrp(), modes, is_for_command })
    }

    /// Whether we are in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(self.own)
    }

    /// Whether this group has it.
    pub(crate) fn is_lent_to(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(group)
    }

    /// Lends it to this group, if it is ours to lend.
    pub(crate) fn lend(&self, group: Pid) {
        if self.is_ours() {
            // Without it the command is in the background, and stops when it wants to read: then we try again.
            let _ = tcsetpgrp(&self.tty, group);
        }
    }

    /// Takes it back from this group. Whether the group had it.
    pub(crate) fn take_back(&self, group: Pid) -> bool {
        self.is_lent_to(group) && tcsetpgrp(&self.tty, self.own).is_ok()
    }

    /// Undoes what a command that was killed has done to it.
    pub(crate) fn repair(&self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.tty, OptionalActions::Now, modes);
        }
    }

    /// Stops, together with everyone else in our group. Returns when we are continued.
    pub(crate) fn stop() {
        // Those around us, the shell of a script or the rest of a pipeline, are stopped as the terminal would do it.
        let _ = kill_current_process_group(Signal::TSTP);
        let _ = kill_process(getpid(), Signal::STOP);
    }

    /// Whether there is a shell that would continue us: the parent of our group, in another group of the same session.
    pub(crate) fn has_shell(&self) -> bool {
        let mut process = getpid();
        while let Some(parent) = parent(process) {
            match getpgid(Some(parent)) {
                Ok(group) if group == self.own => process = parent,
                Ok(_) => return getsid(Some(parent)).is_ok_and(|session| getsid(None) == Ok(session)),
                Err(_) => return false,
            }
        }
        false
    }
}
