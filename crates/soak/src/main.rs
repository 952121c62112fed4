//! `./x soak`: leases coming and going for a long time, and what is left of them.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use quorlock_soak::{Plan, run};

/// Leases of every kind come and go on memory, SQLite and Redis nodes. Fails if anything is left of them.
#[derive(Parser)]
struct Args {
    /// How long, in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The busy time of each round, in seconds.
    #[arg(long, default_value_t = 10.0)]
    busy: f64,
    /// Decides who does what; fresh unless given.
    #[arg(long)]
    seed: Option<u64>,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let args = Args::parse();
    let (Ok(time), Ok(busy)) =
        (Duration::try_from_secs_f64(args.minutes * 60.0), Duration::try_from_secs_f64(args.busy))
    else {
        eprintln!("soak: times are numbers that are not negative");
        return ExitCode::from(64);
    };
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    match run(Plan { time, busy, seed }).await {
        Ok(rounds) => {
            println!("soak: {} rounds, and nothing is left of them", rounds.len());
            ExitCode::SUCCESS
        }
        Err(growth) => {
            eprintln!("soak: {growth}");
            ExitCode::FAILURE
        }
    }
}
