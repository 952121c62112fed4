//! `./x soak`: leases coming and going for a long time, and what is left of them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use quorlock_model::occasion::Occasion;
use quorlock_soak::{Plan, page, run};

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
    /// Write a page about it: docs/evidence/soak.md unless another file is given.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/evidence/soak.md")]
    write: Option<PathBuf>,
    /// Give so many KiB never back after each round, to see that it is noticed.
    #[arg(long, value_name = "KIB", default_value_t = 0)]
    leak: usize,
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
    // Before it begins: what is measured is this commit, whatever is committed meanwhile.
    let (occasion, begun) = (Occasion::now("soak"), Instant::now());
    match run(Plan { time, busy, seed, leak: args.leak }).await {
        Ok(rounds) => {
            println!("soak: {} rounds, and nothing is left of them", rounds.len());
            let page = page(&occasion, &server(), begun.elapsed(), &rounds);
            match args.write.map(|path| fs::write(path, page)) {
                Some(Err(error)) => {
                    eprintln!("soak: {error}");
                    ExitCode::FAILURE
                }
                Some(Ok(())) | None => ExitCode::SUCCESS,
            }
        }
        Err(growth) => {
            eprintln!("soak: {growth}");
            ExitCode::FAILURE
        }
    }
}

/// `Redis 7.0.15`, as the program says.
fn server() -> String {
    let said = Command::new("redis-server").arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.split(" sha=").next().unwrap_or_default().replace("server v=", "")
}
