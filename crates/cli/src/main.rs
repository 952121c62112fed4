//! `quorlock`: run a command under a distributed lock.

mod args;
mod child;
mod duration;
mod exit;
mod nodes;
mod place;
mod run;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use exit::{Exit, Failure};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for; anything else is a mistake, and has a code of its own.
            let _ = error.print();
            return if error.use_stderr() { Exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("quorlock: cannot start: {error}");
            return Exit::INTERNAL.into();
        }
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Run(run) => run::run(&cli.place, run).await,
            Command::Nodes(nodes) => nodes::nodes(&cli.place, &nodes).await,
        }
    });
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}

/// What a command comes to.
type Outcome = Result<Exit, Failure>;
