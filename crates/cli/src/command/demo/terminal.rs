//! The terminal while it shows the picture. Dropping [`Terminal`] restores the terminal.

use std::io::{self, IsTerminal};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::output::write_stdout;

/// Switches to the alternate screen, and turns off the cursor and wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Synchronized output: terminals that support it show a frame as a whole, and others ignore it.
const BEGIN_FRAME: &str = "\x1b[?2026h\x1b[H";
const END_FRAME: &str = "\x1b[J\x1b[?2026l";

pub(super) struct Terminal {
    /// The settings before this process changed them.
    before: Termios,
}

impl Terminal {
    /// Takes over the terminal on stdout. Ctrl-C still sends a signal.
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdout())?;
        let mut ours = before.clone();
        ours.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // Disable Ctrl-Z: suspended workers would lose all their leases, and the shell would get our screen.
        ours.special_codes[SpecialCodeIndex::VSUSP] = 0;
        tcsetattr(io::stdout(), OptionalActions::Now, &ours)?;
        let terminal = Self { before };
        write_stdout(ENTER)?;
        Ok(terminal)
    }

    pub(super) fn draw(rows: &[String]) -> io::Result<()> {
        write_stdout(&format!("{BEGIN_FRAME}{}{END_FRAME}", rows.join("\r\n")))
    }

    /// Returns whether q was typed, without waiting.
    pub(super) fn is_q_typed() -> io::Result<bool> {
        let mut typed = [0; 16];
        let stdin = io::stdin();
        if !stdin.is_terminal() || poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&Timespec::default()))? == 0 {
            return Ok(false);
        }
        let count = rustix::io::read(&stdin, &mut typed)?;
        Ok(typed[..count].contains(&b'q'))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write_stdout(LEAVE);
        let _ = tcsetattr(io::stdout(), OptionalActions::Flush, &self.before);
    }
}
