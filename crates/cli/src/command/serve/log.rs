//! The log of a service, on stderr.

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::output::Output;

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
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        Format::Text => layer.with_ansi(false).boxed(),
        Format::Json => layer.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
    };
    // A second log in one process is none of ours to refuse.
    let _ = tracing_subscriber::registry().with(layer.with_filter(ours)).try_init();
}
