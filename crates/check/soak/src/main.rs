//! `./x soak`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use quorlock_model::run_info::RunInfo;
use quorlock_soak::{Plan, page, run};

/// Acquire and release locks of every kind on memory, SQLite and Redis nodes, and fail if anything is left over
#[derive(Parser)]
struct Args {
    /// Run for this many minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Busy time of each round, in seconds.
    #[arg(long, default_value_t = 10.0)]
    busy: f64,
    /// Seed of all choices [default: random].
    #[arg(long)]
    seed: Option<u64>,
    /// Write a page: docs/evidence/soak.md unless another file is given.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/evidence/soak.md")]
    write: Option<PathBuf>,
    /// Leak this many KiB after each round, to test that the soak notices.
    #[arg(long, value_name = "KIB", default_value_t = 0)]
    leak: usize,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let args = Args::parse();
    let (Ok(time), Ok(busy)) =
        (Duration::try_from_secs_f64(args.minutes * 60.0), Duration::try_from_secs_f64(args.busy))
    else {
        eprintln!("soak: --minutes and --busy must not be negative");
        return ExitCode::from(64);
    };
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    // Recorded at the start, because HEAD may move during the run.
    let (run_info, begun) = (RunInfo::now("soak"), Instant::now());
    match run(Plan { time, busy, seed, leak: args.leak }).await {
        Ok(rounds) => {
            println!("soak: {} rounds, nothing left over", rounds.len());
            let page = page(&run_info, &server(), begun.elapsed(), &rounds);
            match args.write.map(|path| fs::write(path, page)) {
                Some(Err(error)) => {
                    eprintln!("soak: {error}");
                    ExitCode::FAILURE
                }
                Some(Ok(())) | None => ExitCode::SUCCESS,
            }
        }
        Err(leaks) => {
            eprintln!("soak: {leaks}");
            ExitCode::FAILURE
        }
    }
}

/// The version of redis-server, such as `Redis 7.0.15`.
fn server() -> String {
    let said = Command::new("redis-server").arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.split(" sha=").next().unwrap_or_default().replace("server v=", "")
}
