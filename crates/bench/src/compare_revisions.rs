//! Compares this tree with another git revision. The workers of both builds take turns. Each build has its own servers,
//! which its own `quorlock` command initializes, because two revisions may store different things on a server.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use quorlock_testkit::RedisServer;

use crate::case::{Case, P50, RATE};
use crate::options::Options;
use crate::report::{CaseResult, number};
use crate::run;
use crate::sorted_readings::SortedReadings;
use crate::worker::{Task, Worker};
use crate::{Failure, Outcome};

const TTL_MS: u64 = 30_000;
const NODES: [usize; 3] = [5, 3, 1];
const CALLERS: [usize; 3] = [1, 64, 512];
const SQLITE_CALLERS: usize = 64;
const HELD_CASE: &str = "held";
const HELD_LEASES: usize = 20_000;
/// A third of the ttl, so that every lease is renewed once in each turn.
const HELD_TURN_LENGTH: Duration = Duration::from_secs(10);
const HELD_TURNS: usize = 3;
const SHARE_OF_A_CORE: &str = "share_of_a_core";
const NOW: &str = "now";
/// The programs of a build: the workers, and the command that initializes servers.
const PROGRAMS: [&str; 2] = ["quorlock-bench", "quorlock"];

/// A case, in which both builds get the same task.
struct Comparison {
    name: String,
    /// The number of Redis servers. If it is 0, the case uses one SQLite file.
    nodes: usize,
    callers: usize,
    plain: bool,
    /// The kind of worker.
    kind: &'static str,
    figure: &'static str,
}

/// All cases. Fenced locks, which are the default, come first.
fn comparisons() -> Vec<Comparison> {
    let cycles = |plain: bool| {
        NODES.into_iter().flat_map(move |nodes| CALLERS.into_iter().map(move |callers| (nodes, callers))).map(
            move |(nodes, callers)| {
                let name = format!("{}-{nodes}-{callers}", if plain { "plain" } else { "fenced" });
                let figure = if callers == 1 { P50 } else { RATE };
                Comparison { name, nodes, callers, plain, kind: "own", figure }
            },
        )
    };
    let sqlite = Comparison {
        name: format!("sqlite-{SQLITE_CALLERS}"),
        nodes: 0,
        callers: SQLITE_CALLERS,
        plain: false,
        kind: "own",
        figure: RATE,
    };
    let held = Comparison {
        name: HELD_CASE.into(),
        nodes: NODES[0],
        callers: HELD_LEASES,
        plain: false,
        kind: "leases",
        figure: SHARE_OF_A_CORE,
    };
    cycles(false).chain(cycles(true)).chain([sqlite, held]).collect()
}

/// The names of all cases.
pub(crate) fn names() -> Vec<String> {
    comparisons().into_iter().map(|comparison| comparison.name).collect()
}

/// Builds the revision, measures both builds in the named cases, and prints a row for each case.
pub(crate) fn compare(revision: &str, names: &[String], turns: usize, options: &Options) -> Outcome {
    let (commit, programs) = build(revision, &options.folder.join("against"))?;
    let then = format!("{revision} ({})", &commit[..commit.len().min(10)]);
    println!("A ratio is the ratio of both medians. A spread is the middle half of {turns} measurements.\n");
    println!("| case | figure | now | spread | {then} | spread | now / then | |\n|---|---|---|---|---|---|---|---|");
    let mut failed_cases = Vec::new();
    for comparison in comparisons().into_iter().filter(|comparison| names.contains(&comparison.name)) {
        let name = comparison.name.clone();
        match comparison.set_up(&programs, &then, options).and_then(|case| run::measure(case, turns)) {
            Ok(measured) => print!("{}", row(&measured, &then)),
            Err(error) => {
                eprintln!("{name}: {error}");
                failed_cases.push(name);
            }
        }
    }
    if failed_cases.is_empty() { Ok(()) } else { Err(format!("not compared: {}", failed_cases.join(", ")).into()) }
}

impl Comparison {
    /// Sets up the case, with separate servers or a separate file for each build.
    fn set_up(self, programs: &Path, revision: &str, options: &Options) -> Result<Case, Failure> {
        let mut case = Case::new(self.name, "", self.figure);
        let turn_length = if self.kind == "leases" { HELD_TURN_LENGTH } else { options.turn_length };
        case.turns = (self.kind == "leases").then_some(HELD_TURNS);
        let own_program = std::env::current_exe()?;
        let own_programs = own_program.parent().ok_or("this program has no folder")?;
        for (name, programs) in [(NOW, own_programs), (revision, programs)] {
            let nodes = if self.nodes == 0 {
                let folder = tempfile::tempdir_in(&options.folder)?;
                let node = format!("sqlite:{}", folder.path().join("locks.db").display());
                case.keep_alive(folder);
                vec![node]
            } else {
                let servers = RedisServer::start_many(self.nodes);
                let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
                case.keep_alive(servers);
                init_cluster(&programs.join("quorlock"), &urls).map_err(|error| format!("{name}: {error}"))?;
                urls
            };
            let task = Task { nodes, callers: self.callers, ttl_ms: TTL_MS, plain: self.plain, ..Task::default() };
            let mut command = Command::new(programs.join("quorlock-bench"));
            command.args(["worker", self.kind]);
            let worker = Worker::start(command, &task, turn_length)
                .map_err(|error| format!("the worker of {name} does not work with this tree's driver: {error}"))?;
            case.add(name, worker);
        }
        Ok(case)
    }
}

/// Initializes a cluster of new servers with the `quorlock` command of a build.
fn init_cluster(quorlock: &Path, urls: &[String]) -> Result<(), Failure> {
    let mut command = Command::new(quorlock);
    command.args(["nodes", "init", "--yes", "--nodes", &urls.join(",")]);
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", quorlock.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`nodes init` failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

/// The row of a case: the median and the spread of both builds, the ratio of the medians, and whether this tree is slower
/// by more than the wider spread.
fn row(case: &CaseResult, revision: &str) -> String {
    let readings_of = |name: &str| {
        SortedReadings::of(
            case.contender(name).map(|contender| contender.turns(&case.figure).to_vec()).unwrap_or_default(),
        )
    };
    let (now, then) = (readings_of(NOW), readings_of(revision));
    let mut row = format!("| {} | {} |", case.name, case.figure.replace('_', " "));
    for readings in [&now, &then] {
        let (low, high) = (number(readings.quantile(0.25)), number(readings.quantile(0.75)));
        let _ = write!(row, " {} | {low} to {high} |", number(readings.median()));
    }
    let verdict = if is_slower(&now, &then, case.figure == RATE) { "slower by more than its spread" } else { "" };
    let _ = writeln!(row, " {:.2} | {verdict} |", now.median() / then.median());
    row
}

/// Whether this tree's median is worse by more than the wider spread.
fn is_slower(now: &SortedReadings, then: &SortedReadings, is_higher_better: bool) -> bool {
    let spread = |readings: &SortedReadings| readings.quantile(0.75) - readings.quantile(0.25);
    let difference = if is_higher_better { then.median() - now.median() } else { now.median() - then.median() };
    difference > spread(now).max(spread(then))
}

/// Builds the programs of a revision, unless an earlier run has built them. Returns the commit and the folder of the
/// programs.
fn build(revision: &str, folder: &Path) -> Result<(String, PathBuf), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut git = Command::new("git");
    git.arg("-C").arg(&root).args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    let output =
        git.arg(format!("{revision}^{{commit}}")).output().map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("{revision} is not a revision of this repository").into());
    }
    let commit = String::from_utf8(output.stdout)?.trim().to_owned();
    let programs = folder.join(&commit);
    if PROGRAMS.iter().all(|program| programs.join(program).is_file()) {
        return Ok((commit, programs));
    }
    eprintln!("building {revision} ({commit}); its build is kept in {}", folder.display());
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    let _ = std::fs::remove_dir_all(&tree);
    std::fs::create_dir_all(&tree)?;
    let result = unpack(&root, &commit, &tree).and_then(|()| cargo_build(&tree, &target));
    std::fs::remove_dir_all(&tree)?;
    result.map_err(|error| format!("cannot build {revision} ({commit}): {error}"))?;
    std::fs::create_dir_all(&programs)?;
    for program in PROGRAMS {
        // A program gets its final name only when it is complete.
        let copy = programs.join(format!("{program}.new"));
        std::fs::copy(target.join("release").join(program), &copy)?;
        std::fs::rename(copy, programs.join(program))?;
    }
    Ok((commit, programs))
}

/// Unpacks the files of a commit. Does not use a git worktree, because an interrupted run would not remove it.
fn unpack(root: &Path, commit: &str, tree: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["archive", "--format=tar", commit]).stdout(Stdio::piped());
    let mut git = git.spawn().map_err(|error| format!("git: {error}"))?;
    let archive = git.stdout.take().ok_or("git archive has no output")?;
    // The files get new time stamps, because cargo would not rebuild files with the older time stamps of the commit.
    let mut tar = Command::new("tar");
    tar.args(["-x", "--touch", "-C"]).arg(tree).stdin(archive);
    let unpacked = tar.status().map_err(|error| format!("tar: {error}"))?;
    let archived = git.wait().map_err(|error| format!("git: {error}"))?;
    if archived.success() && unpacked.success() { Ok(()) } else { Err("its files cannot be unpacked".into()) }
}

fn cargo_build(tree: &Path, target: &Path) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--quiet", "--locked", "--package", "quorlock-bench", "--package", "quorlock-cli"])
        .arg("--target-dir")
        .arg(target);
    cargo.arg("--manifest-path").arg(tree.join("Cargo.toml"));
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("cargo build failed; its messages are above".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_slower_if_its_median_is_worse_by_more_than_both_spreads() {
        let readings = |values: &[f64]| SortedReadings::of(values.to_vec());
        let (narrow, wide) =
            (readings(&[100.0, 101.0, 102.0, 103.0, 104.0]), readings(&[50.0, 80.0, 100.0, 120.0, 150.0]));
        let slow = readings(&[90.0, 91.0, 92.0, 93.0, 94.0]);
        assert!(is_slower(&slow, &narrow, true), "fewer cycles per second must count as slower");
        assert!(!is_slower(&narrow, &slow, true), "a faster build must not count as slower");
        assert!(is_slower(&narrow, &slow, false), "longer cycles must count as slower");
        assert!(!is_slower(&slow, &wide, true), "a difference within the spread of the other build must not count");
    }

    #[test]
    fn fenced_cases_come_first() {
        let names = names();
        assert_eq!(names[0], "fenced-5-1");
        let plain = names.iter().position(|name| name.starts_with("plain")).unwrap();
        assert!(names[plain..].iter().all(|name| !name.starts_with("fenced")));
    }

    #[test]
    fn the_error_names_a_revision_that_does_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let error = build("no-such-revision", folder.path()).unwrap_err();
        assert_eq!(error.to_string(), "no-such-revision is not a revision of this repository");
    }
}
