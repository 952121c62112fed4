//! Measures quorlock, a minimal client (the *floor*), redis-benchmark (the *ceiling*) and other libraries. They take
//! turns, and only their ratios are compared.

mod bare_handoff;
mod case;
mod cases;
mod ceiling;
mod compare_revisions;
mod cycles;
mod etcd;
mod machine;
mod options;
mod peers;
mod ping_round;
mod processor_time;
mod recorded_cluster;
mod recording;
#[path = "../count/src/replies.rs"]
mod replies;
mod report;
mod run;
mod service;
mod sorted_readings;
mod worker;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use cases::PlannedCase;
use options::Options;
use report::{CaseResult, Pages, Report, case_as_markdown};
use worker::Task;

/// Measure quorlock, a minimal client, redis-benchmark and other libraries in turns
///
/// Prints a table for each case. The latest figures of every case are in bench/report.json of the build folder.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Run only cases whose names start with this text; may be repeated [default: all].
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// List the cases.
    #[arg(long)]
    list: bool,
    /// Number of measurements (turns) of every contender, after one that does not count [default: 5, or 11 with
    /// --against].
    #[arg(long)]
    turns: Option<usize>,
    /// Length of a turn in milliseconds, in cases that measure for a fixed time.
    #[arg(long, default_value_t = 400)]
    length: u64,
    /// Number of operations in a turn, in cases that measure a number of operations.
    #[arg(long, default_value_t = 100)]
    each: usize,
    /// Compare this tree with another git revision, by measuring the workers of both builds alternately.
    ///
    /// The revision's worker must speak the protocol of crates/bench/src/worker.rs, and accept nodes that this tree has
    /// initialized. Its build is kept in bench/against of the build folder.
    #[arg(long, value_name = "REV", conflicts_with_all = ["write", "write_only"])]
    against: Option<String>,
    /// Write docs/performance.md and the README's table from the last figures of all cases.
    #[arg(long)]
    write: bool,
    /// Write the pages from the latest figures, without measuring.
    #[arg(long)]
    write_only: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run a contender in its own process; started by this program.
    #[command(hide = true)]
    Worker { kind: WorkerKind, task: String },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum WorkerKind {
    /// Its name is `own`, because `--against` also starts older revisions, which use this name.
    #[value(name = "own")]
    Ours,
    Floor,
    Flock,
    Leases,
    Detached,
    Http,
}

const TURNS: usize = 5;
/// The number of turns with `--against`. It is higher, because the figures of two builds differ little.
const TURNS_AGAINST: usize = 11;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Outcome = Result<(), Failure>;

fn main() -> Outcome {
    let args = Args::parse();
    if let Some(Command::Worker { kind, task }) = args.command {
        return work(kind, &serde_json::from_str(&task)?);
    }
    let options = Options::new(Duration::from_millis(args.length), args.each)?;
    if args.list {
        for name in names(&args) {
            println!("{name}");
        }
        return Ok(());
    }
    if args.write_only {
        return write_pages(&Report::read(&options.report_file())?);
    }
    if names(&args).is_empty() {
        return Err("no such case; see --list".into());
    }
    match &args.against {
        Some(revision) => {
            compare_revisions::compare(revision, &names(&args), args.turns.unwrap_or(TURNS_AGAINST), &options)
        }
        None => measure(&args, &options),
    }
}

/// The names of the selected cases.
fn names(args: &Args) -> Vec<String> {
    let mut names = if args.against.is_some() { compare_revisions::names() } else { all_names() };
    names.retain(|name| args.cases.is_empty() || args.cases.iter().any(|wanted| name.starts_with(wanted)));
    names
}

fn all_names() -> Vec<String> {
    cases::all().into_iter().map(|case| case.name).collect()
}

/// Writes the pages. Fails if a case has no figures.
fn write_pages(report: &Report) -> Outcome {
    let missing: Vec<String> = all_names().into_iter().filter(|name| report.case(name).is_none()).collect();
    if !missing.is_empty() {
        return Err(format!(
            "the pages need all cases, and these have never been measured here: {}",
            missing.join(", ")
        )
        .into());
    }
    Pages::here().write(report)
}

fn work(kind: WorkerKind, task: &Task) -> Outcome {
    let threads = if task.one_thread { 1 } else { 2 };
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    match kind {
        WorkerKind::Ours => worker::ours::work(task, &runtime()?),
        WorkerKind::Floor => worker::floor::work(task),
        WorkerKind::Leases => worker::leases::work(task, &runtime()?),
        WorkerKind::Flock => worker::flock::work(task),
        WorkerKind::Detached => worker::ours::work_detached(task, &runtime()?),
        WorkerKind::Http => worker::http_load::work(task),
    }
}

fn measure(args: &Args, options: &Options) -> Outcome {
    let (begun, wanted) = (Instant::now(), names(args));
    let mut report = Report::read(&options.report_file())?;
    let (mut measured, mut failed_cases) = (0, Vec::new());
    for case in cases::all().into_iter().filter(|case| wanted.contains(&case.name)) {
        let name = case.name.clone();
        match measure_case(case, options, args.turns.unwrap_or(TURNS)) {
            Ok(case) => {
                println!("{}", case_as_markdown(&case));
                report.add(case);
                report.put_in_order(&all_names());
                // Written after each case, so that the figures are kept if a later case fails.
                report.write(&options.report_file())?;
                measured += 1;
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                failed_cases.push(name);
            }
        }
    }
    eprintln!("{measured} cases in {:.0} minutes", begun.elapsed().as_secs_f64() / 60.0);
    if args.write {
        write_pages(&report)?;
    }
    if failed_cases.is_empty() { Ok(()) } else { Err(format!("not measured: {}", failed_cases.join(", ")).into()) }
}

/// Runs one case. Converts a panic, for example of a server that does not start, into a failure, so that the other
/// cases still run.
fn measure_case(case: PlannedCase, options: &Options, turns: usize) -> Result<CaseResult, Failure> {
    let work = || (case.set_up)(options).and_then(|case| run::measure(case, turns));
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("the case panicked".into()))
}
