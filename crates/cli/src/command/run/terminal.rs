//! The terminal of a run. The command gets the terminal and gives it back, as a job does under a shell.

use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{Pid, Signal, getpgid, getpgrp, getpid, getsid, kill_current_process_group, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

use crate::process::parent;

/// The controlling terminal of this session, and its settings before it was lent to the command.
pub(crate) struct Terminal {
    tty: File,
    /// The process group of this process.
    own_group: Pid,
    modes: Option<Termios>,
    /// Whether the command gets the terminal when it starts. If not, the command gets the terminal only on demand,
    /// because in a pipeline other processes may need the terminal.
    pub(crate) is_for_command: bool,
}

impl Terminal {
    /// Returns `None` if there is no terminal, as in a cron job.
    pub(crate) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // If SIGTTOU were not blocked, it would stop this process when this process takes the terminal back from the
        // background.
        let mut mask = SigSet::empty();
        mask.add(NixSignal::SIGTTOU);
        mask.thread_block().ok()?;
        let is_for_command = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let modes = tcgetattr(&tty).ok();
        Some(Self { tty, own_group: getpgrp(), modes, is_for_command })
    }

    /// Returns whether this process is in the foreground.
    pub(crate) fn is_in_foreground(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(self.own_group)
    }

    /// Returns whether this group has the terminal.
    pub(crate) fn is_lent_to(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(group)
    }

    /// Lends the terminal to this group, if this process is in the foreground.
    pub(crate) fn lend(&self, group: Pid) {
        if self.is_in_foreground() {
            // If this fails, the command stays in the background, and stops when it reads from the terminal. We try
            // again when the command stops.
            let _ = tcsetpgrp(&self.tty, group);
        }
    }

    /// Takes the terminal back from this group. Returns whether the group had it.
    pub(crate) fn take_back(&self, group: Pid) -> bool {
        self.is_lent_to(group) && tcsetpgrp(&self.tty, self.own_group).is_ok()
    }

    /// Restores the settings that a killed command may have changed.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.tty, OptionalActions::Now, modes);
        }
    }

    /// Stops this process and its group. Returns after this process is continued.
    pub(crate) fn stop_this_process() {
        // The terminal has stopped only the command's group. Without this process, it would also have stopped the other
        // processes of our group, such as the shell of a script.
        let _ = kill_current_process_group(Signal::TSTP);
        let _ = kill_process(getpid(), Signal::STOP);
    }

    /// Returns whether a shell would continue this process. The closest ancestor outside our group is such a shell if
    /// it is in the same session.
    pub(crate) fn has_shell(&self) -> bool {
        let mut process = getpid();
        while let Some(parent) = parent(process) {
            match getpgid(Some(parent)) {
                Ok(group) if group == self.own_group => process = parent,
                Ok(_) => return getsid(Some(parent)).is_ok_and(|session| getsid(None) == Ok(session)),
                Err(_) => return false,
            }
        }
        false
    }
}
