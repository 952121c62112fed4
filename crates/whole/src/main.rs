//! `./x sim`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use quorlock::Rule;
use quorlock_whole::dice::Seeded;
use quorlock_whole::kept;
use quorlock_whole::report::{Hunt, Sweep, page};
use quorlock_whole::run::{Options, run};

/// Runs the whole library on virtual time: one seed decides everything that happens.
#[derive(Parser)]
#[command(name = "./x sim")]
struct Arguments {
    /// The run of this seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// How many runs of fresh seeds.
    #[arg(long, default_value_t = 10_000)]
    runs: u64,
    /// Tell what happens, in the run of --seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Without this rule of the protocol: how many runs does it take to notice?
    #[arg(long, value_parser = rule)]
    without: Option<Rule>,
    /// Without each rule of the protocol in turn.
    #[arg(long, conflicts_with_all = ["seed", "without"])]
    mutants: bool,
    /// Where to write the page with the figures.
    #[arg(long, requires = "mutants")]
    write: Option<PathBuf>,
}

fn rule(name: &str) -> Result<Rule, String> {
    let found = Rule::ALL.iter().find(|(other, _)| *other == name);
    let names = || Rule::ALL.map(|(name, _)| name).join(", ");
    found.map(|(_, rule)| *rule).ok_or_else(|| format!("the rules are {}", names()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        return tell(seed, Options { without: arguments.without, is_told: arguments.trace });
    }
    let base = Seeded::fresh();
    if let Some(rule) = arguments.without {
        let hunt = Hunt::of(rule, base, arguments.runs);
        println!("{hunt}");
        return if hunt.first.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let began = Instant::now();
    let mut sweep = Sweep::default();
    for (name, seed, _) in kept::ALL {
        if let Some(breach) = run(*seed, Options::default()).breach {
            eprintln!("{name} is back, with seed {seed}: {breach}");
            return ExitCode::FAILURE;
        }
    }
    for seed in base..base + arguments.runs {
        sweep.add(seed, &run(seed, Options::default()));
        if sweep.first.is_some() {
            break;
        }
    }
    sweep.took = began.elapsed();
    println!("{sweep}");
    if let Some((seed, _)) = &sweep.first {
        println!("the same again, told: ./x sim --seed {seed} --trace");
        return ExitCode::FAILURE;
    }
    if !arguments.mutants {
        return ExitCode::SUCCESS;
    }
    let hunts: Vec<Hunt> = Rule::ALL
        .into_iter()
        .map(|(_, rule)| {
            let hunt = Hunt::of(rule, base, arguments.runs);
            println!("{hunt}");
            hunt
        })
        .collect();
    if let Some(path) = &arguments.write
        && let Err(error) = std::fs::write(path, page(&sweep, &hunts))
    {
        eprintln!("{} cannot be written: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if hunts.iter().all(|hunt| hunt.first.is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One run, with everything that is known of it.
fn tell(seed: u64, options: Options) -> ExitCode {
    let outcome = run(seed, options);
    for line in &outcome.story {
        println!("{line}");
    }
    let mut sweep = Sweep::default();
    sweep.add(seed, &outcome);
    println!("{sweep}");
    println!("fingerprint {:016x}, {:.1?} of virtual time", outcome.fingerprint, outcome.lasted);
    if outcome.breach.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
