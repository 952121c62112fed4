//! Figures that are the same on a busy machine: instructions and allocations of a cycle, against those that were committed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use quorlock::Client;
use quorlock_testkit::RedisServer;

use crate::options::Options;
use crate::report::number;
use crate::{Failure, Outcome};

/// Cycles of a short run and of a long one: what they differ in is that of a cycle, without the start.
const SHORT: usize = 200;
const LONG: usize = 1_200;
/// How much more than what was committed is too much.
const SLACK: f64 = 1.05;
const NODES: [usize; 3] = [0, 1, 5];

const NONE_COMMITTED: &str = "nothing was committed yet: ./x bench --quick --commit";

/// By what is counted, for example `5 nodes, fenced: instructions`.
type Counts = BTreeMap<String, f64>;

/// Counts, and compares; or commits what was counted.
pub(crate) fn run(options: &Options, commit: bool) -> Outcome {
    let program = build(&options.folder.join("count"))?;
    let counts = count(&program, options)?;
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("committed.json");
    if commit {
        return Ok(std::fs::write(committed, serde_json::to_string_pretty(&counts)? + "\n")?);
    }
    let before = std::fs::read(committed).map_err(|error| format!("{NONE_COMMITTED}: {error}"))?;
    let before: Counts = serde_json::from_slice(&before)?;
    let too_many = compare(&before, &counts);
    for (what, count) in &counts {
        let before = before.get(what).copied().map_or_else(|| "nothing".into(), number);
        println!("{what}: {} ({before} committed)", number(*count));
    }
    if too_many.is_empty() {
        return Ok(());
    }
    let what = too_many.join(", ");
    Err(format!("more than committed: {what}; if that is meant: ./x bench --quick --commit").into())
}

/// What there is too much of, and what nobody has committed.
fn compare(before: &Counts, counts: &Counts) -> Vec<String> {
    let too_much = |(what, count): &(&String, &f64)| before.get(*what).is_none_or(|before| **count > before * SLACK);
    counts.iter().filter(too_much).map(|(what, _)| what.clone()).collect()
}

fn count(program: &Path, options: &Options) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for nodes in NODES {
        let servers = RedisServer::start_many(nodes);
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        if nodes > 0 {
            options.runtime.block_on(async {
                Client::connect(&urls).await?.init_cluster().await?;
                Ok::<(), Failure>(())
            })?;
        }
        for kind in ["plain", "fenced"] {
            let what = match nodes {
                0 => format!("memory, {kind}"),
                1 => format!("1 node, {kind}"),
                nodes => format!("{nodes} nodes, {kind}"),
            };
            let told: serde_json::Value =
                serde_json::from_slice(&tell(Command::new(program), kind, LONG, &urls)?.stdout)?;
            let allocations = told["allocations"].as_f64().ok_or("nothing was counted")?;
            counts.insert(format!("{what}: allocations"), allocations);
            let instructions = instructions(program, kind, LONG, &urls)? - instructions(program, kind, SHORT, &urls)?;
            counts.insert(format!("{what}: instructions"), instructions / (LONG - SHORT) as f64);
        }
    }
    Ok(counts)
}

/// Of a whole run, by callgrind.
fn instructions(program: &Path, kind: &str, cycles: usize, urls: &[String]) -> Result<f64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = tell(valgrind, kind, cycles, urls)?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.ok_or_else(|| "callgrind does not tell".into())
}

fn tell(mut command: Command, kind: &str, cycles: usize, urls: &[String]) -> Result<Output, Failure> {
    command.arg(kind).arg(cycles.to_string()).args(urls);
    let output = command.output().map_err(|error| format!("cannot count: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("cannot count: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// From a package of its own, with the versions that are locked there.
fn build(target: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("count/Cargo.toml")).arg("--target-dir").arg(target);
    match cargo.status()? {
        status if status.success() => Ok(target.join("release/quorlock-count")),
        status => Err(format!("quorlock-count cannot be built: {status}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_twentieth_more_is_too_much() {
        let counts = |instructions: f64| Counts::from([("memory: instructions".to_owned(), instructions)]);
        assert!(compare(&counts(100.0), &counts(105.0)).is_empty());
        assert!(compare(&counts(100.0), &counts(10.0)).is_empty());
        assert_eq!(compare(&counts(100.0), &counts(106.0)), ["memory: instructions"]);
        assert_eq!(compare(&Counts::new(), &counts(1.0)), ["memory: instructions"]);
    }
}
