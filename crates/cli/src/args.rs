//! What can be typed.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::command::acquire::AcquireArgs;
use crate::command::bench::BenchArgs;
use crate::command::breaking::BreakArgs;
use crate::command::completions::CompletionsArgs;
use crate::command::config::ConfigArgs;
use crate::command::demo::DemoArgs;
use crate::command::doctor::DoctorArgs;
use crate::command::history::HistoryArgs;
use crate::command::lease::{CheckArgs, ExtendArgs, ReleaseArgs};
use crate::command::list::ListArgs;
use crate::command::man::ManArgs;
use crate::command::nodes::NodesArgs;
use crate::command::run::RunArgs;
use crate::command::serve::ServeArgs;
use crate::command::status::StatusArgs;
use crate::command::watch::WatchArgs;
use crate::config::{Flags, KEYS};

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
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Grouped by what people are up to; a test sees to it that nothing is missing.
const HELP: &str = "\
{about}

Usage: quorlock COMMAND [ARGUMENTS]        quorlock COMMAND --help says more

Run something under a lock
  run NAME -- CMD..      run CMD while holding the lock
  acquire NAME           print a lease, for scripts
  extend, check          [LEASE] let it last for another ttl; look whether it stands
  release [LEASE]        give it back, from any host

Look after the locks
  status NAME            who has it on every node, and who waits
  list, watch            [GLOB] all that is held or waited for; as it changes
  break NAME --fence N   end somebody else's lease
  history                who broke which, and why

Look after the nodes
  nodes                  how they are; init, reconfigure or wait for them
  doctor                 what is wrong with them, and what to do about it
  config                 every setting, and where it came from

Let others use them
  serve                  locks over HTTP, for programs in any language

Try it
  bench                  measure these nodes, or --local ones
  demo                   watch locks survive crashes, with nothing to install

Shell
  completions SHELL      for bash, zsh, fish
  man                    the manual

Where the locks live: a file of this machine, unless three or more Redis servers are named by
  --nodes URL,URL,..     or $QUORLOCK_NODES, or the file that --config names; --profile picks a part of it
  --username, --password-file, --key-template, --max-ttl, --max-clock-skew, --max-clock-step-back,
  --node-deadline, --danger-trust-restarts; --require-cluster refuses the file of this machine
Printing: --json, -q/--quiet, -v/--verbose, --color auto|always|never; -h/--help, -V/--version

Example:
  quorlock run nightly-report --wait 5m -- /usr/local/bin/report.sh
";

/// Where the locks live.
#[derive(Args, Debug)]
#[command(next_help_heading = "Where the locks live")]
pub(crate) struct PlaceArgs {
    /// The nodes: three or more redis:// or rediss:// (with TLS), separated by commas; or one of these, or of sqlite:PATH,
    /// redis+sentinel://HOST:PORT,HOST:PORT/SERVICE and redis+cluster://HOST:PORT, which stand alone
    /// [default: a file in the user's state directory] [env: QUORLOCK_NODES].
    #[arg(long, global = true, value_name = "URL,URL,..")]
    pub(crate) nodes: Option<String>,

    /// Refuse locks of this host alone (sqlite:, memory: and the default file) with exit code 78
    /// [env: QUORLOCK_REQUIRE_CLUSTER].
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) require_cluster: bool,

    /// The configuration file [env: QUORLOCK_CONFIG].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Which profile of the configuration file [env: QUORLOCK_PROFILE].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// The user for nodes whose URL has no password [env: QUORLOCK_USERNAME].
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) username: Option<String>,

    /// A file with the password for nodes whose URL has none; or put it into $QUORLOCK_PASSWORD
    /// [env: QUORLOCK_PASSWORD_FILE].
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) password_file: Option<String>,

    /// How a name becomes a Redis key; {name} shares locks with other Redlock clients [env: QUORLOCK_KEY_TEMPLATE].
    #[arg(long, global = true, value_name = "TEMPLATE", hide_short_help = true)]
    pub(crate) key_template: Option<String>,

    /// The longest ttl that the cluster allows; all its clients have to agree on it [default: 60s]
    /// [env: QUORLOCK_MAX_TTL].
    #[arg(long, global = true, value_name = "DURATION", hide_short_help = true)]
    pub(crate) max_ttl: Option<String>,

    /// How far the nodes' clocks may be apart; all clients of a cluster have to agree on it [default: 10s]
    /// [env: QUORLOCK_MAX_CLOCK_SKEW].
    #[arg(long, global = true, value_name = "DURATION", hide_short_help = true)]
    pub(crate) max_clock_skew: Option<String>,

    /// How far a node's clock may step back [default: 10s] [env: QUORLOCK_MAX_CLOCK_STEP_BACK].
    #[arg(long, global = true, value_name = "DURATION", hide_short_help = true)]
    pub(crate) max_clock_step_back: Option<String>,

    /// How long to wait for a node, for those that are far away or busy; at most half of the ttl
    /// [default: a twentieth of the ttl, at most 200ms] [env: QUORLOCK_NODE_DEADLINE].
    #[arg(long, global = true, value_name = "DURATION", hide_short_help = true)]
    pub(crate) node_deadline: Option<String>,

    /// No quarantine for nodes that lost their memory: two holders, and fences that repeat, may come of it
    /// [env: QUORLOCK_DANGER_TRUST_RESTARTS].
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) danger_trust_restarts: bool,
}

/// How to print.
#[derive(Args, Debug)]
#[command(next_help_heading = "Printing")]
pub(crate) struct PrintArgs {
    /// One JSON object instead of text for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Say nothing but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    /// Whether to colour what is printed: auto, always or never; NO_COLOR is honoured [env: QUORLOCK_COLOR].
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<String>,
}

impl Cli {
    /// What was typed, by the keys of the configuration.
    pub(crate) fn flags(&self) -> Flags {
        let place = &self.place;
        let typed = [
            ("nodes", &place.nodes),
            ("require_cluster", &place.require_cluster.then(|| "true".to_owned())),
            ("username", &place.username),
            ("password_file", &place.password_file),
            ("key_template", &place.key_template),
            ("max_ttl", &place.max_ttl),
            ("max_clock_skew", &place.max_clock_skew),
            ("max_clock_step_back", &place.max_clock_step_back),
            ("node_deadline", &place.node_deadline),
            ("danger_trust_restarts", &place.danger_trust_restarts.then(|| "true".to_owned())),
            ("color", &self.print.color),
        ];
        let of_key = |(name, text): (&str, &Option<String>)| {
            let key = KEYS.iter().find(|key| key.name == name)?;
            Some((key, text.clone()?))
        };
        typed.into_iter().filter_map(of_key).collect()
    }
}

/// Each says what it is beside its own code. Only the one that is asked for is put together: every run pays for it.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    Run(RunArgs),
    Break(BreakArgs),
    Acquire(AcquireArgs),
    Extend(ExtendArgs),
    Release(ReleaseArgs),
    Check(CheckArgs),
    Status(StatusArgs),
    History(HistoryArgs),
    List(ListArgs),
    Watch(WatchArgs),
    Nodes(NodesArgs),
    Serve(ServeArgs),
    Bench(BenchArgs),
    Demo(DemoArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// With all that is put together only when it is asked for.
    fn whole() -> clap::Command {
        let mut root = Cli::command();
        root.build();
        root
    }

    #[test]
    fn the_help_names_every_command_and_every_flag() {
        let root = Cli::command();
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
            assert!(flags.iter().any(|flag| flag == key.flag), "{} is nowhere", key.flag);
        }
    }

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
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
