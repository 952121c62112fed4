//! `./x faults`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use quorlock_faults::episode::{Failure, play};
use quorlock_faults::interrupt::Interrupt;
use quorlock_faults::judge::Findings;
use quorlock_faults::plan::{Bound, Plan};
use quorlock_faults::report::Row;
use quorlock_faults::subject::{Program, Subject};
use quorlock_faults::worker;

/// How long faults are inflicted in one episode.
const LENGTH: Duration = Duration::from_secs(18);
/// How many findings are told in words.
const TOLD: usize = 5;

/// Real servers, real clients, real faults; and a judge of what came of it.
#[derive(Parser)]
#[command(name = "./x faults")]
struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// How long it goes on, in minutes, for all subjects together.
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    minutes: f64,
    /// Decides everything that is done [default: a random one].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Who is judged; several with commas between them.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["quorlock"])]
    subjects: Vec<Subject>,
    /// Where the histories go.
    #[arg(long, value_name = "FOLDER", default_value = "target/faults")]
    histories: PathBuf,
}

#[derive(Subcommand)]
enum Part {
    /// One client, started by the harness.
    #[command(hide = true)]
    Worker { task: String },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.part {
        Some(Part::Worker { task }) => work(task).map(|()| true),
        None => run(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn work(task: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(worker::work(serde_json::from_str(task)?))
}

/// Whether all was well.
fn run(options: &Options) -> Result<bool, Failure> {
    let interrupt = Interrupt::listen()?;
    fs::create_dir_all(&options.histories)?;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let length = Duration::try_from_secs_f64(options.minutes * 60.0)?;
    let bounds = [Bound::Within, Bound::Beyond];
    let mut rows: Vec<Row> =
        options.subjects.iter().flat_map(|subject| bounds.map(|bound| Row::new(*subject, bound))).collect();
    println!("seed {seed}");
    let started = Instant::now();
    for episode in seed.. {
        for row in &mut rows {
            if interrupt.is_set() || started.elapsed() >= length {
                break;
            }
            let (subject, bound) = (row.subject, row.bound);
            let name = format!("{subject}-{bound}-{episode}.jsonl");
            let plan = Plan::new(episode, bound, LENGTH);
            let begun = Instant::now();
            let records = play(&plan, &Program::of_this(subject)?, &options.histories.join(name), &interrupt)?;
            row.add(begun.elapsed(), Findings::of(bound, &records));
            println!("{episode}: {}\n{}", row.line(), row.stories(TOLD));
        }
        if interrupt.is_set() || started.elapsed() >= length {
            break;
        }
    }
    Ok(rows.iter().all(|row| row.subject.is_control() || row.found.violations(row.bound) == 0))
}
