//! The time that a lock adds to a command that does nothing. hyperfine compares `quorlock run` with `flock`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use super::PlannedCase;
use crate::Failure;
use crate::case::{Bar, Case, Contender, Figures, Limit};
use crate::options::{Options, quorlock};

const NAME: &str = "start";
const P50: &str = "p50_ms";
/// The processor time of all processes of a command. It depends less on other load than the elapsed time.
const PROCESSOR_TIME: &str = "processor_time_ms";
/// The number of turns. It is high, because other load easily disturbs a measurement of milliseconds.
const TURNS: usize = 25;
/// The number of times that hyperfine runs the command in a turn.
const RUNS_PER_TURN: usize = 5;
/// The number of runs before those, which create the file and load the programs into memory.
const WARM_UP_RUNS: usize = 1;
const FLOCK: &str = "`flock x true`";
const RUN: &str = "`quorlock run x -- true`";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![PlannedCase::new(NAME, set_up)]
}

fn set_up(_: &Options) -> Result<Case, Failure> {
    let quorlock = quorlock()?;
    let folder = Arc::new(tempfile::tempdir()?);
    let program = quorlock.display();
    let mut case = Case::new(NAME, "Starting a command that does nothing under a lock", P50);
    case.about =
        "In each repetition, hyperfine measures 5 runs of each command. quorlock stores the lock in an SQLite file, which no other process has open."
            .into();
    let commands = [
        (FLOCK, format!("flock {} true", folder.path().join("x").display())),
        (RUN, format!("{program} run x -- true")),
        ("`quorlock --version`", format!("{program} --version")),
    ];
    for (name, command) in commands {
        case.add(name, Start { command, folder: Arc::clone(&folder) });
    }
    case.turns = Some(TURNS);
    case.bars.push(Bar::ratio(RUN, P50, FLOCK, Limit::AtMost(5.0)));
    Ok(case)
}

struct Start {
    command: String,
    folder: Arc<TempDir>,
}

impl Start {
    fn results_file(&self) -> PathBuf {
        self.folder.path().join("results.json")
    }
}

impl Contender for Start {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let folder = self.folder.path();
        let mut hyperfine = Command::new("hyperfine");
        hyperfine.args(["--shell", "none", "--style", "none", "--warmup", &WARM_UP_RUNS.to_string()]);
        hyperfine.args(["--runs", &RUNS_PER_TURN.to_string(), "--export-json"]).arg(self.results_file());
        hyperfine.arg(&self.command).stdout(Stdio::null()).stderr(Stdio::null());
        hyperfine.env("XDG_STATE_HOME", folder).env("XDG_CONFIG_HOME", folder).env_remove("QUORLOCK_NODES");
        let status = hyperfine.status().map_err(|error| format!("cannot run hyperfine: {error}"))?;
        if !status.success() {
            return Err(format!("hyperfine failed: {status}").into());
        }
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(self.results_file())?)?;
        let seconds =
            |field: &str| json["results"][0][field].as_f64().ok_or_else(|| format!("a result without {field}"));
        let processor_time = seconds("user")? + seconds("system")?;
        Ok(Figures::from([
            (P50.to_owned(), seconds("median")? * 1e3),
            (PROCESSOR_TIME.to_owned(), processor_time * 1e3),
        ]))
    }
}
