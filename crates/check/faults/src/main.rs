//! `./x faults`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use quorlock_faults::Failure;
use quorlock_faults::cron;
use quorlock_faults::host_runs::Programs;
use quorlock_faults::interrupt::Interrupt;
use quorlock_faults::report::{Environment, RunInfo, control_findings, missing_results, page, summary};
use quorlock_faults::run::{Run, RunOptions};
use quorlock_faults::series::Series;
use quorlock_faults::subject::Subject;
use quorlock_faults::worker::{QuorlockLibrary, work};

/// The maximum number of findings that are printed at the end.
const SHOWN_MAX: usize = 20;

/// Inject faults into real servers and clients, and judge the recorded history
#[derive(Parser)]
#[command(name = "./x faults")]
struct Options {
    #[command(subcommand)]
    process: Option<Process>,
    /// Run for this many minutes, all libraries together. The last episode may end later.
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    minutes: f64,
    /// Seed of the first episode. Each further episode uses the next seed [default: random].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Also judge other libraries, and quorlock without its quarantine, to show what the judge can detect. Writes a
    /// page: docs/evidence/faults.md unless another file is given.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/evidence/faults.md")]
    report: Option<PathBuf>,
    /// Series to run, separated by commas [default: all].
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "report")]
    series: Vec<Series>,
    /// Do not run episodes, but test the README's crontab line in every case. Writes a page: docs/evidence/cron.md
    /// unless another file is given.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/evidence/cron.md",
          conflicts_with_all = ["report", "series", "minutes", "seed"])]
    cron: Option<PathBuf>,
    /// Folder for the histories.
    #[arg(long, value_name = "FOLDER", default_value = "target/faults")]
    histories: PathBuf,
}

#[derive(Subcommand)]
enum Process {
    /// One client, started by the harness.
    #[command(hide = true)]
    Worker { task: String },
    /// The command of a `quorlock run`, started by the harness.
    #[command(hide = true)]
    Command { job: String },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.process {
        Some(Process::Worker { task }) => run_client(task).map(|()| ExitCode::SUCCESS),
        Some(Process::Command { job }) => run_command(job).map(|()| ExitCode::SUCCESS),
        None => options.cron.as_ref().map_or_else(|| run_episodes(&options), |page| run_cron_cases(&options, page)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn run_client(task: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work::<QuorlockLibrary>(serde_json::from_str(task)?))
}

fn run_command(job: &str) -> Result<(), Failure> {
    quorlock_faults::run_command::work(&serde_json::from_str(job)?)
}

fn run_cron_cases(options: &Options, page: &Path) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen()?;
    fs::create_dir_all(&options.histories)?;
    let programs = Programs::next_to(&env::current_exe()?)?;
    let results = cron::run_all_cases(&programs, &options.histories, &interrupt, |result| println!("{result}"))?;
    if interrupt.is_set() {
        return Ok(ExitCode::from(130));
    }
    fs::write(page, cron::page(&Environment::read()?, &results))?;
    let failed = results.iter().filter(|result| !result.has_passed()).count();
    println!("{failed} of {} cases failed; see {}", results.len(), page.display());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_episodes(options: &Options) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen()?;
    fs::create_dir_all(&options.histories)?;
    let subjects = match &options.report {
        Some(_) => [Subject::Quorlock].into_iter().chain(Subject::CONTROLS).collect(),
        None => vec![Subject::Quorlock],
    };
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("seed {seed}");
    let time_limit = Duration::try_from_secs_f64(options.minutes * 60.0)?;
    let series = if options.series.is_empty() { Series::ALL.into() } else { options.series.clone() };
    let run_options = RunOptions { subjects, series, seed, time_limit, histories: options.histories.clone() };
    let run =
        Run::new(run_options, &env::current_exe()?)?.play(&interrupt, |episode| println!("{}", summary(episode)))?;
    println!("\nAll together:");
    for row in run.rows().iter().filter(|row| row.episodes > 0) {
        println!("{}", summary(row));
    }
    for finding in run.rows().iter().flat_map(|row| &row.findings.messages).take(SHOWN_MAX) {
        println!("{finding}");
    }
    if interrupt.is_set() {
        return Ok(ExitCode::from(130));
    }
    if let Some(path) = &options.report {
        let command = format!("./x faults --minutes {} --seed {seed} --report", options.minutes);
        fs::write(path, page(&RunInfo::now(command, seed, &run)?, run.rows()))?;
    }
    for line in control_findings(run.rows()) {
        println!("{line}");
    }
    let mut failures = run.failures();
    if options.report.is_some() {
        failures.extend(missing_results(run.rows()));
    }
    for failure in &failures {
        eprintln!("{failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
