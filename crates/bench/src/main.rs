//! Measures quorlock against the floor: every case and its floor take turns in one run, and what counts is their ratio.

mod bare;
mod busy;
mod handoff;
mod round;
mod spread;
mod start;
mod turns;

use clap::{Parser, Subcommand};

/// quorlock against the floor, side by side in one run.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    case: Case,
}

#[derive(Subcommand)]
enum Case {
    /// From a release to the next grant, in rounds: with 1, 8 and 32 waiters, directly and with a millisecond of network.
    Handoff(handoff::Args),
    /// `quorlock run x -- true` on an SQLite file against `flock x true`, by hyperfine.
    Start(start::Args),
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Outcome = Result<(), Failure>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Outcome {
    match Args::parse().case {
        // On a worker of the runtime, as those are whom it measures: the thread of main would have to be woken for each reply.
        Case::Handoff(args) => tokio::spawn(async move { handoff::run(&args).await }).await?,
        Case::Start(args) => start::run(&args),
    }
}
