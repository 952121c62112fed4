//! The log of a service, on stderr. If nobody reads it, lines are dropped, and the service continues.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::output::Output;

/// The number of bytes that a writable pipe takes at once.
const PIECE: usize = 4_096;

/// How it is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Starts to log the events of the service and the library: only warnings if `output` is quiet, and every step if it is
/// verbose.
pub(super) fn start(format: Format, output: Output) {
    let level = match (output.quiet, output.verbose) {
        (true, _) => LevelFilter::WARN,
        (_, true) => LevelFilter::DEBUG,
        _ => LevelFilter::INFO,
    };
    let ours = Targets::new().with_target("quorlock", level).with_target("quorlock_server", level);
    let layer = fmt::layer().with_writer(Taken { format, lost: Mutex::default() });
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        Format::Text => layer.with_ansi(false).boxed(),
        Format::Json => layer.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
    };
    // If there is already a log in this process, keep it.
    let _ = tracing_subscriber::registry().with(layer.with_filter(ours)).try_init();
}

/// Writes to stderr without blocking, so that requests do not wait for a reader of the log.
struct Taken {
    format: Format,
    lost: Mutex<Lost>,
}

/// The lines that were dropped and not reported yet.
#[derive(Default)]
struct Lost {
    lines: u64,
    /// Whether the last line was written only in part.
    is_cut: bool,
}

impl<'a> MakeWriter<'a> for Taken {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &Taken {
    /// Writes one line or several.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // One writer at a time, because the room in the pipe is checked before writing.
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.lines > 0 && put(self.notice(&lost).as_bytes()) {
            *lost = Lost::default();
        }
        if lost.lines > 0 || !put_all(line, &mut lost.is_cut) {
            lost.lines += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Taken {
    fn notice(&self, lost: &Lost) -> String {
        let (end, lines) = (if lost.is_cut { "\n" } else { "" }, lost.lines);
        match self.format {
            Format::Text => format!("{end}WARN nobody read this log: {lines} lines are missing here\n"),
            Format::Json => {
                format!("{end}{{\"level\":\"WARN\",\"message\":\"nobody read this log\",\"missing_lines\":{lines}}}\n")
            }
        }
    }
}

/// Writes a line. Returns whether all of it was written; a line that was written in part is cut.
fn put_all(line: &[u8], is_cut: &mut bool) -> bool {
    for (at, piece) in line.chunks(PIECE).enumerate() {
        if !put(piece) {
            *is_cut = at > 0;
            return false;
        }
    }
    true
}

/// Returns whether the piece was written. If stderr is unusable, everything counts as written, because nobody could be
/// told.
fn put(piece: &[u8]) -> bool {
    let mut stderr = io::stderr().lock();
    let is_taken = !matches!(poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&Timespec::default())), Ok(0));
    if is_taken {
        let _ = stderr.write_all(piece);
    }
    is_taken
}
