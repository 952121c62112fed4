//! `quorlock completions`: what the shell needs to complete our commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Exit;

/// Print completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  quorlock completions bash > ~/.local/share/bash-completion/completions/quorlock")]
pub(crate) struct CompletionsArgs {
    /// Which shell.
    shell: Shell,
}

/// Prints them.
pub(crate) fn completions(args: &CompletionsArgs) -> Exit {
    clap_complete::generate(args.shell, &mut Cli::command(), "quorlock", &mut std::io::stdout());
    Exit::OK
}
