//! What a lock adds to a command that does nothing: `quorlock run` against `flock`, measured by hyperfine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::spread::Spread;
use crate::turns::TurnArgs;
use crate::{Failure, Outcome};

/// Runs that are not counted: the file is made, and the programs are in memory.
const WARM_UP: usize = 5;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    turns: TurnArgs,
    /// The program to measure [default: the one built beside this one].
    #[arg(long, value_name = "PATH")]
    quorlock: Option<PathBuf>,
}

/// One command, and how long it took.
struct Case {
    name: &'static str,
    command: String,
    /// The median of each turn, in milliseconds.
    millis: Spread,
    /// The median of each turn, in those of the first case in the same turn.
    ratios: Spread,
}

impl Case {
    fn new(name: &'static str, command: String) -> Self {
        Self { name, command, millis: Spread::default(), ratios: Spread::default() }
    }
}

/// Measures and prints.
pub(crate) fn run(args: &Args) -> Outcome {
    let quorlock = match &args.quorlock {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("quorlock"),
    };
    if !quorlock.is_file() {
        return Err(format!("{} is missing: cargo build --release", quorlock.display()).into());
    }
    let folder = tempfile::tempdir()?;
    let program = quorlock.display();
    // The floor first.
    let mut cases = [
        Case::new("flock x true", format!("flock {} true", folder.path().join("x").display())),
        Case::new("quorlock run x -- true", format!("{program} run x -- true")),
        Case::new("quorlock --version", format!("{program} --version")),
    ];
    for _ in 0..args.turns.turns {
        let medians = take_turn(&cases, args.turns.each, folder.path())?;
        let floor = *medians.first().ok_or("hyperfine measured nothing")?;
        for (case, median) in cases.iter_mut().zip(medians) {
            case.millis.add(median * 1e3);
            case.ratios.add(median / floor);
        }
    }
    if args.turns.json {
        print_json(&cases);
    } else {
        print_table(&cases);
    }
    Ok(())
}

/// The median of each case, in seconds.
fn take_turn(cases: &[Case], runs: usize, folder: &Path) -> Result<Vec<f64>, Failure> {
    let results = folder.join("results.json");
    let mut hyperfine = Command::new("hyperfine");
    hyperfine.args(["--shell", "none", "--style", "none", "--warmup", &WARM_UP.to_string()]);
    hyperfine.args(["--runs", &runs.to_string(), "--export-json"]).arg(&results);
    hyperfine.args(cases.iter().map(|case| &case.command)).stdout(Stdio::null()).stderr(Stdio::null());
    hyperfine.env("XDG_STATE_HOME", folder).env("XDG_CONFIG_HOME", folder).env_remove("QUORLOCK_NODES");
    let status = hyperfine.status().map_err(|error| format!("cannot run hyperfine: {error}"))?;
    if !status.success() {
        return Err(format!("hyperfine failed: {status}").into());
    }
    let results: serde_json::Value = serde_json::from_slice(&std::fs::read(results)?)?;
    let medians = results["results"].as_array().ok_or("no results")?.iter().map(|result| result["median"].as_f64());
    medians.collect::<Option<Vec<f64>>>().ok_or_else(|| "a result without a median".into())
}

fn print_table(cases: &[Case]) {
    println!(
        "Starting under a lock: a command that does nothing, on one machine, by hyperfine. The file is at rest: nobody"
    );
    println!("else has it open. The floor is flock, measured in the same turn; the bar is 5 times that.");
    println!();
    println!("| command | p50 (ms) | in flocks | spread |");
    println!("|---|---|---|---|");
    for case in cases {
        let (low, high) = (case.ratios.quantile(0.0), case.ratios.quantile(1.0));
        let (millis, ratio) = (case.millis.median(), case.ratios.median());
        println!("| `{}` | {millis:.2} | {ratio:.2} | {low:.2} to {high:.2} |", case.name);
    }
}

fn print_json(cases: &[Case]) {
    let cases: Vec<_> = cases
        .iter()
        .map(|case| {
            serde_json::json!({
                "command": case.name, "turns": case.ratios.len(), "p50_ms": case.millis.median(),
                "flocks": case.ratios.median(),
                "flocks_low": case.ratios.quantile(0.0), "flocks_high": case.ratios.quantile(1.0),
            })
        })
        .collect();
    println!("{}", serde_json::json!({ "start": cases }));
}
