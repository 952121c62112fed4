//! The command line.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::path::PathBuf;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::command::{acquire, bench, break_lock, demo, history, lease, list, man, nodes, run, serve, watch};
use crate::config::{Flags, flag_args, typed_flags};

/// Run a command while holding a lock, on one machine or on many.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, max_term_width = 100, help_template = HELP, disable_help_flag = true, subcommand_required = true)]
pub(crate) struct Cli {
    /// Read settings from this file [env: QUORLOCK_CONFIG].
    #[arg(long, global = true, value_name = "FILE", help_heading = "Nodes")]
    pub(crate) config: Option<PathBuf>,

    /// Use this profile of the file [env: QUORLOCK_PROFILE].
    #[arg(long, global = true, value_name = "NAME", help_heading = "Nodes")]
    pub(crate) profile: Option<String>,

    /// Print JSON.
    #[arg(long, global = true, help_heading = "Printing")]
    pub(crate) json: bool,

    /// Print only results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Printing")]
    pub(crate) quiet: bool,

    /// Print details.
    #[arg(short, long, global = true, help_heading = "Printing")]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// All commands and flags.
pub(crate) fn command() -> clap::Command {
    // -h and --help print the same text: the manual pages have the details.
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).global(true).help("Print help");
    // Only `quorlock --help` and `quorlock config --help` list the options that every command has.
    let hide = |arg: Arg| match arg.get_help().cloned() {
        Some(help) => arg.long_help(help).hide_short_help(true),
        None => arg,
    };
    Cli::command()
        .arg(help.help_heading("Printing"))
        .args(flag_args())
        .mut_args(hide)
        .mut_subcommands(|command| command.help_template(COMMAND_HELP))
        .mut_subcommand("config", |config| config.args(flag_args()))
        // `doctor` has no options of its own, and clap would print blank lines for an empty list of options.
        .mut_subcommand("doctor", |doctor| {
            doctor.help_template(COMMAND_HELP.replace("\n\n{before-help}{all-args}", ""))
        })
}

/// Reads the arguments of this process.
pub(crate) fn parse() -> Result<(Cli, Flags), clap::Error> {
    let matches = command().try_get_matches()?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))?;
    Ok((cli, typed_flags(&matches)))
}

/// The template for the help of a command. `before_help` is the paragraph about the behaviour of the command.
pub(crate) const COMMAND_HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{all-args}{after-help}

For --nodes, --json and the other options of every command: quorlock --help
";

/// The help of the tool itself, grouped by task. A test checks that no command and no flag is missing.
const HELP: &str = include_str!("help.txt");

/// Commands with several arguments are described beside their code. With `defer`, clap builds only the command that was
/// typed, because building all of them would delay every start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    Run(run::RunArgs),
    Acquire(acquire::AcquireArgs),
    /// Restart the ttl of a lease.
    #[command(before_help = "\
The lease is held for another ttl from now. A lost lease cannot be revived. Everybody on this host can see arguments: \
prefer - or the environment for LEASE.")]
    #[command(after_help = "\
Exit codes:
  0 extended   64 not a lease   69 no quorum: it may still be held   79 lost

Example:
  while sleep 10; do quorlock extend -q || break; done &")]
    Extend(lease::LeaseArgs),
    /// Check whether a lease is still held.
    #[command(before_help = "\
Changes nothing. Everybody on this host can see arguments: prefer - or the environment for LEASE.")]
    #[command(after_help = "\
Exit codes:
  0 held   64 not a lease   69 no quorum: not known   79 lost

Example:
  quorlock check || exit")]
    Check(lease::LeaseArgs),
    /// Release a lock by its lease, from any host.
    #[command(before_help = "\
Releasing a lease that has ended also succeeds. Everybody on this host can see arguments: prefer - or the environment \
for LEASE.")]
    #[command(after_help = "\
Exit codes:
  0 released   64 not a lease
  69 no quorum: unreachable nodes free the lock after the ttl

Example:
  trap 'quorlock release' EXIT")]
    Release(lease::LeaseArgs),
    /// Show who holds a lock on every node, and who waits.
    #[command(before_help = "\
Shows the holder, its fence, how long it has held the lock and when the lease expires. Changes nothing.")]
    #[command(after_help = "\
Exit codes:
  0 shown, held or not   69 no quorum

Example:
  quorlock status nightly-report")]
    Status {
        /// The lock.
        name: String,
    },
    /// List the locks that are held or waited for.
    #[command(before_help = "\
Changes nothing. Redis servers are scanned step by step: locks that come or go meanwhile may be missing. With -v, every \
node has a line of its own.")]
    #[command(after_help = "\
Exit codes:
  0 listed, even if there are none   69 no quorum

Example:
  quorlock list 'invoices/*'")]
    List(list::ListArgs),
    Watch(watch::WatchArgs),
    Break(break_lock::BreakArgs),
    History(history::HistoryArgs),
    /// Show the nodes, found a cluster, or change it.
    #[command(disable_help_subcommand = true)]
    #[command(before_help = "Without a command, show whether each node answers and can vote.")]
    #[command(after_help = "\
Exit codes:
  0 a majority of the nodes can vote   69 it cannot   77 access denied
  78 configuration

Example:
  quorlock nodes init --yes --nodes redis://a,redis://b,redis://c")]
    Nodes {
        #[command(subcommand)]
        action: Option<nodes::Action>,
    },
    /// Find problems with the nodes, and say how to fix them.
    #[command(after_help = "\
Examines every node and changes nothing: whether it answers and how fast, our permissions, whether it is independent \
of the others, what survives a restart, whether it can vote, its clock, and the constants of its cluster.

Exit codes:
  0 no errors, though there may be warnings
  69 too few nodes answer or can vote   77 access denied   78 configuration

Example:
  quorlock doctor --nodes redis://a,redis://b,redis://c")]
    Doctor,
    /// Show every setting and where it came from.
    #[command(before_help = "\
Flags come first, then the environment, then the file, then the defaults. The file is --config or $QUORLOCK_CONFIG, or \
~/.config/quorlock/config.toml, or /etc/quorlock/config.toml. Its keys are the flags with _ for -. It may have \
profiles, which --profile or $QUORLOCK_PROFILE selects.")]
    #[command(after_help = "\
A configuration file:
  ttl = \"30s\"
  nodes = [\"redis://10.0.0.1\", \"redis://10.0.0.2\", \"redis://10.0.0.3\"]
  require_cluster = true
  password_file = \"/etc/quorlock/password\"

  [profile.staging]
  nodes = [\"redis://10.1.0.1\"]

Example:
  quorlock config --profile staging")]
    Config,
    Serve(serve::ServeArgs),
    Bench(bench::BenchArgs),
    Demo(demo::DemoArgs),
    /// Print completions for a shell.
    #[command(before_help = "Write them to where your shell looks for completions, and start a new shell.")]
    #[command(after_help = "\
Example:
  quorlock completions bash > \\
    ~/.local/share/bash-completion/completions/quorlock")]
    Completions {
        /// bash, elvish, fish, powershell or zsh.
        #[arg(hide_possible_values = true)]
        shell: Shell,
    },
    Man(man::ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KEYS;

    /// Returns the whole command line, including the parts that clap builds only on demand.
    fn built_command() -> clap::Command {
        let mut root = command();
        root.build();
        root
    }

    #[test]
    fn the_help_names_every_command_and_every_flag() {
        let root = command();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            let rows = HELP.lines().filter_map(|line| line.strip_prefix("  "));
            let mut words = rows.flat_map(|row| row.split("  ").next().unwrap_or_default().split([' ', ',']));
            assert!(words.any(|word| word == command.get_name()), "{} is missing in the help", command.get_name());
        }
        for flag in root.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(HELP.contains(&format!("--{flag}")), "--{flag} is missing in the help");
        }
    }

    #[test]
    fn every_setting_is_a_flag_of_some_command() {
        let root = built_command();
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
        for command in built_command().get_subcommands().filter(|command| command.get_name() != "help") {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let last = text.rsplit("\n\n").next().unwrap_or_default();
            assert!(last.starts_with("Example"), "{}: {text}", command.get_name());
        }
    }

    #[test]
    fn the_help_fits_on_a_screen() {
        assert!(HELP.lines().count() <= 50, "{} lines", HELP.lines().count());
        assert!(HELP.lines().all(|line| line.chars().count() <= 80));
    }
}
