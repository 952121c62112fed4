//! The terminal while it belongs to us: given back as it was, however this ends.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::ink::Row;
use crate::output::room;

/// The other screen, no cursor, no wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Terminals that know these show a frame as a whole; others ignore them.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";
/// A read of the keyboard ends after so many tenths of a second.
const READ_TENTHS: u8 = 1;

/// The screen and the keyboard. Dropped, the terminal is as before; a panic gives it back, too, before it is told.
pub(crate) struct Terminal {
    before: Termios,
    over: Arc<AtomicBool>,
    keyboard: Option<JoinHandle<()>>,
    /// What the screen shows, row by row.
    shown: Vec<String>,
    size: (usize, usize),
}

impl Terminal {
    /// Takes the terminal on stdout. Keys that are typed go to the queue; Ctrl-C is a signal, as ever.
    pub(crate) fn open(keys: mpsc::UnboundedSender<u8>) -> io::Result<Self> {
        let before = tcgetattr(io::stdout())?;
        let mut ours = before.clone();
        ours.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        ours.special_codes[SpecialCodeIndex::VMIN] = 0;
        ours.special_codes[SpecialCodeIndex::VTIME] = READ_TENTHS;
        // Stopped, the workers would lose all their leases, and the shell would get our screen.
        ours.special_codes[SpecialCodeIndex::VSUSP] = 0;
        let over = Arc::new(AtomicBool::new(false));
        let (panicked, mode, told) = (Arc::clone(&over), before.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            give_back(&panicked, &mode);
            told(panic);
        }));
        tcsetattr(io::stdout(), OptionalActions::Now, &ours)?;
        let mut terminal = Self { before, over, keyboard: None, shown: Vec::new(), size: (0, 0) };
        print(ENTER)?;
        let ended = Arc::clone(&terminal.over);
        if io::stdin().is_terminal() {
            terminal.keyboard = Some(std::thread::spawn(move || listen(&ended, &keys)));
        }
        Ok(terminal)
    }

    /// How many columns and rows there are.
    pub(crate) fn size() -> (usize, usize) {
        room(io::stdout())
    }

    /// Shows these rows, and writes only what is not there already.
    pub(crate) fn draw(&mut self, rows: &[Row], colored: bool) -> io::Result<()> {
        let size = Self::size();
        let mut frame = BEGIN_FRAME.to_owned();
        if size != self.size {
            frame += "\x1b[2J";
            self.shown.clear();
            self.size = size;
        }
        self.shown.resize(rows.len(), String::new());
        let fitting = rows.iter().zip(&mut self.shown).enumerate().take(size.1);
        for (at, (row, shown)) in fitting {
            // Up to the edge, so that nothing has to be erased.
            let text = row.clone().cut(size.0).pad(size.0).encode(colored);
            if text != *shown {
                frame.extend([format!("\x1b[{};1H", at + 1), text.clone()]);
                *shown = text;
            }
        }
        if frame == BEGIN_FRAME {
            return Ok(());
        }
        print(&(frame + END_FRAME))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back(&self.over, &self.before);
        if let Some(keyboard) = self.keyboard.take() {
            let _ = keyboard.join();
        }
    }
}

/// Once, whoever comes first. What cannot be written cannot be mended either.
fn give_back(over: &AtomicBool, before: &Termios) {
    if !over.swap(true, Ordering::AcqRel) {
        let _ = print(LEAVE);
        let _ = tcsetattr(io::stdout(), OptionalActions::Flush, before);
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Passes on what is typed until it is over.
fn listen(over: &AtomicBool, keys: &mpsc::UnboundedSender<u8>) {
    let mut typed = [0; 16];
    while !over.load(Ordering::Acquire) {
        // Nothing within the time is no end; an error is.
        let Ok(count) = rustix::io::read(io::stdin(), &mut typed) else { return };
        for key in &typed[..count] {
            if keys.send(*key).is_err() {
                return;
            }
        }
    }
}
