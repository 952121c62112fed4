//! The command line.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::command::acquire::AcquireArgs;
use crate::command::bench::BenchArgs;
use crate::command::break_lock::BreakArgs;
use crate::command::demo::DemoArgs;
use crate::command::history::HistoryArgs;
use crate::command::lease::LeaseArgs;
use crate::command::list::ListArgs;
use crate::command::man::ManArgs;
use crate::command::nodes::Action;
use crate::command::run::RunArgs;
use crate::command::serve::ServeArgs;
use crate::command::watch::WatchArgs;
use crate::config::{Flags, flag_args, typed_flags};

/// Run a command while holding a lock, on one machine or on many.
#[derive(Debug, Parser)]
#[command(
    name = "quorlock",
    version,
    max_term_width = 100,
    help_template = HELP,
    disable_help_subcommand = true,
    subcommand_required = true
)]
pub(crate) struct Cli {
    /// The configuration file [env: QUORLOCK_CONFIG].
    #[arg(long, global = true, value_name = "FILE", help_heading = "Nodes")]
    pub(crate) config: Option<PathBuf>,

    /// The profile of the configuration file [env: QUORLOCK_PROFILE].
    #[arg(long, global = true, value_name = "NAME", help_heading = "Nodes")]
    pub(crate) profile: Option<String>,

    /// Print JSON.
    #[arg(long, global = true, help_heading = "Printing")]
    pub(crate) json: bool,

    /// Print only results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Printing")]
    pub(crate) quiet: bool,

    /// Print more.
    #[arg(short, long, global = true, help_heading = "Printing")]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// All commands and flags.
pub(crate) fn command() -> clap::Command {
    Cli::command().args(flag_args())
}

/// Reads the arguments of this process.
pub(crate) fn parse() -> Result<(Cli, Flags), clap::Error> {
    let matches = command().try_get_matches()?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))?;
    Ok((cli, typed_flags(&matches)))
}

/// Grouped by task. A test checks that nothing is missing.
const HELP: &str = "\
{about}

Usage: quorlock COMMAND [ARGUMENTS]        quorlock COMMAND --help says more

Run something under a lock
  run NAME -- CMD..      run CMD while holding the lock
  acquire NAME           acquire a lock in a script, and print the lease
  extend, check          [LEASE] restart its ttl; check whether it is still held
  release [LEASE]        release it, from any host

Locks
  status NAME            who holds it on every node, and who waits
  list, watch            [GLOB] all locks that are held or waited for; as they change
  break NAME --fence N   end somebody else's lease
  history                who broke which lock, and why

Nodes
  nodes                  their state; init, reconfigure or wait for them
  doctor                 find problems, and how to fix them
  config                 every setting, and where it came from

HTTP service
  serve                  locks over HTTP, for programs in any language

Try it
  bench                  measure these nodes, or --local ones
  demo                   watch locks survive crashes, with nothing to install

Shell
  completions SHELL      for bash, zsh, fish
  man                    the manual

Where locks are kept: in a file on this host, unless you list a Redis server, or three or more
  --nodes URL,URL,..     or $QUORLOCK_NODES, or the file that --config names; --profile selects a part of it
  --username, --password-file, --key-template, --max-ttl, --max-clock-skew, --max-clock-step-back,
  --node-deadline, --danger-trust-restarts; --require-cluster refuses the file on this host
Printing: --json, -q/--quiet, -v/--verbose, --color auto|always|never; -h/--help, -V/--version

Example:
  quorlock run nightly-report --wait 5m -- /usr/local/bin/report.sh
";

/// Commands with several arguments are described beside their code. Only the command that was typed is built: every run
/// pays for it.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    Run(RunArgs),
    Acquire(AcquireArgs),
    /// Restart the ttl of a lease.
    ///
    /// Exits with 79 if the lease is lost: it cannot be revived.
    #[command(after_help = "\
Exit codes:
  0 extended   64 not a lease   69 no quorum: it may still be held   79 lost

Example:
  while sleep 10; do quorlock extend -q || break; done &")]
    Extend(LeaseArgs),
    /// Check whether a lease is still held. Changes nothing.
    #[command(after_help = "\
Exit codes:
  0 held   64 not a lease   69 no quorum: not known   79 lost

Example:
  quorlock check || exit")]
    Check(LeaseArgs),
    /// Release a lock by its lease, from any host.
    ///
    /// Releasing a lease that has ended also succeeds.
    #[command(after_help = "\
Exit codes:
  0 released   64 not a lease   69 no quorum: unreachable nodes free it after the ttl

Example:
  trap 'quorlock release' EXIT")]
    Release(LeaseArgs),
    /// Show who holds a lock, on every node, and who waits for it. Changes nothing.
    #[command(after_help = "\
Exit codes:
  0 known, held or not   69 no quorum

Example:
  quorlock status nightly-report")]
    Status {
        /// The lock.
        name: String,
    },
    /// List the locks that are held or waited for. Changes nothing.
    ///
    /// Redis servers are scanned step by step: locks that come or go meanwhile may be missing. With -v, every node has a
    /// line of its own.
    #[command(after_help = "\
Exit codes:
  0 listed, also if there is nothing   69 no quorum

Example:
  quorlock list 'invoices/*'")]
    List(ListArgs),
    Watch(WatchArgs),
    Break(BreakArgs),
    History(HistoryArgs),
    /// Show the nodes, declare a new cluster, wait until all nodes can vote, or change a cluster's constants.
    #[command(after_help = "\
Exit codes:
  0 a majority of the nodes can vote   69 it cannot   77 access denied   78 configuration

Example:
  quorlock nodes init --yes --nodes redis://a,redis://b,redis://c")]
    Nodes {
        #[command(subcommand)]
        action: Option<Action>,
    },
    /// Find problems with the nodes, and say how to fix them.
    ///
    /// Examines every node and changes nothing: whether it answers and how fast, our permissions, whether it is independent
    /// of the others, what survives a restart, whether it can vote, its clock, and the constants of its cluster.
    #[command(after_help = "\
Exit codes:
  0 no errors, though there may be warnings
  69 too few nodes answer or can vote   77 access denied   78 configuration

Example:
  quorlock doctor --nodes redis://a,redis://b,redis://c")]
    Doctor,
    /// Show every setting and where it came from.
    #[command(after_help = "\
Flags come first, then the environment, then the file, then the defaults. The file is the one that --config or
$QUORLOCK_CONFIG names, or ~/.config/quorlock/config.toml, or /etc/quorlock/config.toml. It may have profiles:

  ttl = \"30s\"
  nodes = [\"redis://10.0.0.1\", \"redis://10.0.0.2\", \"redis://10.0.0.3\"]
  require_cluster = true
  password_file = \"/etc/quorlock/password\"

  [profile.staging]
  nodes = [\"redis://10.1.0.1\"]

Example:
  quorlock config --profile staging")]
    Config,
    Serve(ServeArgs),
    Bench(BenchArgs),
    Demo(DemoArgs),
    /// Print completions for a shell.
    #[command(
        after_help = "Example:\n  quorlock completions bash > ~/.local/share/bash-completion/completions/quorlock"
    )]
    Completions {
        /// Which shell.
        shell: Shell,
    },
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KEYS;

    /// With all that is put together only when it is asked for.
    fn whole() -> clap::Command {
        let mut root = command();
        root.build();
        root
    }

    #[test]
    fn the_help_names_every_command_and_every_flag() {
        let root = command();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            let rows = HELP.lines().filter_map(|line| line.strip_prefix("  "));
            let mut named = rows.flat_map(|row| row.split("  ").next().unwrap_or_default().split([' ', ',']));
            assert!(named.any(|word| word == command.get_name()), "{} is missing in the help", command.get_name());
        }
        for flag in root.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(HELP.contains(&format!("--{flag}")), "--{flag} is missing in the help");
        }
    }

    #[test]
    fn every_key_has_its_flag_somewhere() {
        let root = whole();
        let commands = std::iter::once(&root).chain(root.get_subcommands());
        let flags: Vec<String> = commands
            .flat_map(clap::Command::get_arguments)
            .filter_map(clap::Arg::get_long)
            .map(|flag| format!("--{flag}"))
            .collect();
        for key in KEYS {
            assert!(flags.contains(&key.flag()), "{} is missing", key.flag());
        }
    }

    #[test]
    fn the_commands_are_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn every_command_ends_its_help_with_an_example() {
        for command in whole().get_subcommands().filter(|command| !command.is_hide_set()) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let last = text.rsplit("\n\n").next().unwrap_or_default();
            assert!(last.starts_with("Example"), "{}: {text}", command.get_name());
        }
    }

    #[test]
    fn the_help_fits_on_a_screen() {
        assert!(HELP.lines().count() <= 40, "{} lines", HELP.lines().count());
        assert!(HELP.lines().all(|line| line.chars().count() <= 110));
    }
}
