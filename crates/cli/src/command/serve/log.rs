//! The log of a service, on stderr. If nobody reads it, lines are lost, and not the service.

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

/// A pipe that takes anything takes this much at once.
const PIECE: usize = 4_096;

/// How it is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Writes what the service and the library tell from now on: warnings alone if it is to be quiet, every step if it is to
/// say more.
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
    // A second log in one process is none of ours to refuse.
    let _ = tracing_subscriber::registry().with(layer.with_filter(ours)).try_init();
}

/// Stderr, for what is taken there at once. Whoever answers a request does not wait for a reader of the log.
struct Taken {
    format: Format,
    lost: Mutex<Lost>,
}

/// What was not taken, and has not been told yet.
#[derive(Default)]
struct Lost {
    lines: u64,
    /// The last line that was written has no end.
    is_cut: bool,
}

impl<'a> MakeWriter<'a> for Taken {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &Taken {
    /// One line, or several.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // One at a time: what there is room for is not promised to two.
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

/// Whether all of it was taken. A line that was taken in part is cut.
fn put_all(line: &[u8], is_cut: &mut bool) -> bool {
    for (at, piece) in line.chunks(PIECE).enumerate() {
        if !put(piece) {
            *is_cut = at > 0;
            return false;
        }
    }
    true
}

/// Whether it was taken. What cannot be written to at all takes everything: there is nobody to tell.
fn put(piece: &[u8]) -> bool {
    let mut stderr = io::stderr().lock();
    let is_taken = !matches!(poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&Timespec::default())), Ok(0));
    if is_taken {
        let _ = stderr.write_all(piece);
    }
    is_taken
}
