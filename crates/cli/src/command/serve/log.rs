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
    // Only one writer at a time, because a writer checks the free space in the pipe before it writes. No write panics,
    // so the mutex is never poisoned.
    let layer = fmt::layer().with_writer(Mutex::new(Taken { format, lost: 0, is_cut: false }));
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
    /// The number of dropped lines that were not reported yet.
    lost: u64,
    /// Whether the first of these lines was written in part.
    is_cut: bool,
}

impl Write for Taken {
    /// Writes one line or several.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lost > 0 && put(self.notice().as_bytes()) {
            self.lost = 0;
        }
        if self.lost > 0 || !self.put_all(line) {
            self.lost += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Taken {
    fn notice(&self) -> String {
        let (end, lines) = (if self.is_cut { "\n" } else { "" }, self.lost);
        match self.format {
            Format::Text => format!("{end}WARN nobody read this log: {lines} lines are missing here\n"),
            Format::Json => {
                format!("{end}{{\"level\":\"WARN\",\"message\":\"nobody read this log\",\"missing_lines\":{lines}}}\n")
            }
        }
    }

    /// Writes a line. Returns whether the whole line was written, and records in `is_cut` if only a part was.
    fn put_all(&mut self, line: &[u8]) -> bool {
        let refused = line.chunks(PIECE).position(|piece| !put(piece));
        self.is_cut = refused.is_some_and(|at| at > 0);
        refused.is_none()
    }
}

/// Writes a piece of a line. Returns whether it was written. If stderr is unusable, returns true, because nobody could
/// read a report about dropped lines.
fn put(piece: &[u8]) -> bool {
    let mut stderr = io::stderr().lock();
    let is_taken = !matches!(poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&Timespec::default())), Ok(0));
    if is_taken {
        let _ = stderr.write_all(piece);
    }
    is_taken
}
