//! The command `./x sim`: simulates runs, prints their results, and writes the page.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use quorlock::Rule;
use quorlock_model::run_info::RunInfo;
use quorlock_sim::past_bugs::{self, PastBug};
use quorlock_sim::report::{MutantRuns, RunResults, page};
use quorlock_sim::run::{Options, fresh_seed, run};
use rustix::time::{ClockId, clock_gettime};

/// Simulate the whole library on virtual time; the seed decides all events of a run
#[derive(Parser)]
#[command(name = "./x sim")]
struct Arguments {
    /// Run only this seed; with --runs or --mutants, start with this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of runs with fresh seeds [default: 10000].
    #[arg(long)]
    runs: Option<u64>,
    /// Print the events of the run of --seed.
    #[arg(long, requires = "seed", conflicts_with = "runs")]
    trace: bool,
    /// Switch off this rule of the protocol, and count the runs with a violation. With --seed, run only that seed.
    #[arg(long, value_parser = parse_rule)]
    without: Option<Rule>,
    /// After the runs, switch off each rule of the protocol in turn, and run its stored seed and fresh seeds.
    #[arg(long, conflicts_with_all = ["trace", "without"])]
    mutants: bool,
    /// Write the page with the figures to this file.
    #[arg(long, requires = "mutants")]
    write: Option<PathBuf>,
}

fn parse_rule(name: &str) -> Result<Rule, String> {
    let found = Rule::ALL.iter().find(|(other, _)| *other == name);
    let names = || Rule::ALL.map(|(name, _)| name).join(", ");
    found.map(|(_, rule)| *rule).ok_or_else(|| format!("unknown rule; the rules are {}", names()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let (Some(seed), None, false) = (arguments.seed, arguments.runs, arguments.mutants) {
        return print_run(
            seed,
            Options { without: arguments.without, has_trace: arguments.trace, ..Options::default() },
        );
    }
    let (first_seed, runs) = (arguments.seed.unwrap_or_else(fresh_seed), arguments.runs.unwrap_or(10_000));
    if let Some(rule) = arguments.without {
        let mutant = MutantRuns::of(rule, first_seed, runs);
        println!("{mutant}");
        return if mutant.first_failure.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let time_at_start = processor_time();
    let mut results = RunResults::default();
    for PastBug { name, seed, .. } in past_bugs::ALL {
        if let Some(violation) = run(*seed, Options::default()).violation {
            eprintln!("a past bug has returned: {name}; seed {seed}: {violation}");
            return ExitCode::FAILURE;
        }
    }
    for seed in (0..runs).map(|index| first_seed.wrapping_add(index)) {
        results.add(seed, &run(seed, Options::default()));
        if results.first_failure.is_some() {
            break;
        }
    }
    results.processor_time = processor_time().saturating_sub(time_at_start);
    println!("{results}");
    if let Some((seed, _)) = &results.first_failure {
        println!("to print this run: ./x sim --seed {seed} --trace");
        return ExitCode::FAILURE;
    }
    if !arguments.mutants {
        return ExitCode::SUCCESS;
    }
    let mutants: Vec<MutantRuns> = Rule::ALL
        .into_iter()
        .map(|(_, rule)| {
            let mutant = MutantRuns::of(rule, first_seed, runs);
            println!("{mutant}");
            mutant
        })
        .collect();
    if let Some(path) = &arguments.write
        && let Err(error) = std::fs::write(path, page(&RunInfo::now("sim"), first_seed, &results, &mutants))
    {
        eprintln!("cannot write {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if mutants.iter().all(|mutant| mutant.first_failure.is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The processor time that this process has used so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Prints the trace and the results of one run.
fn print_run(seed: u64, options: Options) -> ExitCode {
    let outcome = run(seed, options);
    for line in &outcome.trace {
        println!("{line}");
    }
    let mut results = RunResults::default();
    results.add(seed, &outcome);
    println!("{results}");
    println!("fingerprint {:016x}, {:.1?} of virtual time", outcome.fingerprint, outcome.virtual_time);
    if outcome.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
