//! What can be typed.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::duration::parse_duration;

/// Run a command while holding a lock, on one machine or on many.
///
/// Without --nodes the lock lives in one file of this machine. With three or more Redis servers it is held by whoever
/// has the votes of a majority of them.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the locks live.
#[derive(Args, Debug)]
pub(crate) struct PlaceArgs {
    /// The nodes: one redis:// or sqlite:PATH, or three and more redis:// or rediss://, separated by commas
    /// [default: a file in the user's state directory].
    #[arg(
        long,
        global = true,
        value_name = "URL,URL,..",
        env = "QUORLOCK_NODES",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub(crate) nodes: Vec<String>,

    /// How a name becomes a Redis key; {name} shares locks with other Redlock clients.
    #[arg(long, global = true, value_name = "TEMPLATE", env = "QUORLOCK_KEY_TEMPLATE", hide_env_values = true)]
    pub(crate) key_template: Option<String>,

    /// The longest ttl that the cluster allows; all its clients have to agree on it [default: 60s].
    #[arg(long, global = true, value_name = "DURATION", env = "QUORLOCK_MAX_TTL", hide_env_values = true, value_parser = parse_duration)]
    pub(crate) max_ttl: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding the lock.
    Run(RunArgs),
    /// Show the nodes, or declare a new cluster.
    Nodes(NodesArgs),
}

/// Run a command while holding the lock.
///
/// The command gets its arguments untouched (there is no shell), and in its environment QUORLOCK_NAME, QUORLOCK_FENCE,
/// QUORLOCK_LEASE and QUORLOCK_TTL_MS. Its exit code is passed on. If the lock may be lost, the command is ended before
/// anybody else can have it.
#[derive(Args, Debug)]
#[command(after_help = RUN_NOTES)]
pub(crate) struct RunArgs {
    /// What to lock.
    pub(crate) name: String,

    /// The lock is free this long after this machine has died; it is renewed while the command runs.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) ttl: Duration,

    /// How long to wait for the lock [default: for ever on a terminal, else not at all].
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: if the lock is held, exit with 75.
    #[arg(short, long)]
    pub(crate) no_wait: bool,

    /// How long the command has after SIGTERM, before SIGKILL, when the lock may be lost.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub(crate) kill_grace: Duration,

    /// Shown to whoever finds the lock held [default: the command's name].
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Say nothing but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

const RUN_NOTES: &str = "\
Exit codes:
  the command's own, or 128+N if signal N killed it
  64 usage   69 no quorum   75 held   77 access denied   78 configuration
  79 lock lost, or not provable, during the run   126/127 not executable/not found
  130/143 interrupted while waiting

Example:
  quorlock run nightly-report --wait 5m -- /usr/local/bin/report.sh";

/// Show the nodes, or declare a new cluster.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  quorlock nodes init --yes --nodes redis://a,redis://b,redis://c")]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    pub(crate) action: Option<NodesAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodesAction {
    /// Declare that no lock can be outstanding: the nodes become one new cluster and may vote at once.
    Init {
        /// Yes, no lock can be outstanding on these nodes.
        #[arg(long)]
        yes: bool,
    },
}
