//! The log of a service, on stderr. If nobody reads stderr, lines are dropped, and the service continues.

use std::io::{self, Write};
use std::sync::Mutex;

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::output::Output;

/// The number of bytes that can be written without blocking to a pipe that `poll` reports as writable.
const CHUNK_BYTES: usize = 4_096;

/// The format of the log.
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
    let targets = Targets::new().with_target("quorlock", level).with_target("quorlock_server", level);
    // The mutex admits one writer at a time, because a writer checks the free space in the pipe before it writes. No
    // write panics, so the mutex is never poisoned.
    let layer = fmt::layer().with_writer(Mutex::new(LossyStderr { format, dropped: 0, is_cut: false }));
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        Format::Text => layer.with_ansi(false).boxed(),
        Format::Json => layer.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
    };
    // If this process already has a log, keep that log.
    let _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
}

/// Writes to stderr without blocking, so that requests do not wait for a reader of the log.
struct LossyStderr {
    format: Format,
    /// The number of dropped lines that the log does not report yet.
    dropped: u64,
    /// Whether the first of the dropped lines was written in part.
    is_cut: bool,
}

impl Write for LossyStderr {
    /// Writes the lines of one event.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if self.dropped > 0 && try_write(self.notice().as_bytes()) {
            self.dropped = 0;
        }
        if self.dropped > 0 || !self.try_write_all(lines) {
            self.dropped += 1;
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LossyStderr {
    /// Returns the line that reports the dropped lines. It first ends a line that was written in part.
    fn notice(&self) -> String {
        let (end, lines) = (if self.is_cut { "\n" } else { "" }, self.dropped);
        match self.format {
            Format::Text => format!("{end}WARN nobody read this log: {lines} lines are missing here\n"),
            Format::Json => {
                format!("{end}{{\"level\":\"WARN\",\"message\":\"nobody read this log\",\"missing_lines\":{lines}}}\n")
            }
        }
    }

    /// Writes lines chunk by chunk. Returns whether all chunks were written, and records in `is_cut` whether only some
    /// of them were written.
    fn try_write_all(&mut self, lines: &[u8]) -> bool {
        let first_dropped = lines.chunks(CHUNK_BYTES).position(|chunk| !try_write(chunk));
        self.is_cut = first_dropped.is_some_and(|index| index > 0);
        first_dropped.is_none()
    }
}

/// Writes a chunk, unless the write would block. Returns whether the chunk was written. If stderr is unusable, returns
/// true, because nobody could read a report about dropped lines.
fn try_write(chunk: &[u8]) -> bool {
    let mut stderr = io::stderr().lock();
    let is_writable = !matches!(poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&Timespec::default())), Ok(0));
    if is_writable {
        let _ = stderr.write_all(chunk);
    }
    is_writable
}
