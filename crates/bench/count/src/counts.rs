//! Counts instructions and allocations.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Output};

use quorlock::Client;
use quorlock_testkit::RedisServer;

use crate::Failure;

/// Counts by name, for example `5 nodes, fenced: instructions`.
pub(crate) type Counts = BTreeMap<String, f64>;

/// The numbers of cycles in a short and in a long run. Both counts contain the start of the program, so their difference
/// does not.
const SHORT_RUN: usize = 100;
const LONG_RUN: usize = 500;
/// The numbers of servers. 0 means a memory node.
const NODES: [usize; 3] = [0, 1, 5];
/// The number of runs of each kind. The median counts, because in some runs a timer fires.
const RUNS: usize = 3;

/// Counts on a memory node, on one server and on five servers.
pub(crate) fn count() -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for nodes in NODES {
        let servers = RedisServer::start_many(nodes);
        init(&servers)?;
        let servers: Vec<SocketAddr> = servers.iter().map(RedisServer::addr).collect();
        for kind in ["plain", "fenced"] {
            let case = match nodes {
                0 => format!("memory, {kind}"),
                1 => format!("1 node, {kind}"),
                nodes => format!("{nodes} nodes, {kind}"),
            };
            counts.insert(format!("{case}: allocations"), allocations(kind, &servers)?);
            let difference = instructions(kind, LONG_RUN, &servers)? - instructions(kind, SHORT_RUN, &servers)?;
            counts.insert(format!("{case}: instructions"), difference / (LONG_RUN - SHORT_RUN) as f64);
        }
    }
    Ok(counts)
}

/// Initializes the cluster, so that new servers need no quarantine.
fn init(servers: &[RedisServer]) -> Result<(), Failure> {
    if servers.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        Client::builder().nodes(servers.iter().map(RedisServer::url)).init_cluster().await?;
        Ok(())
    })
}

/// The number of allocations in one cycle.
fn allocations(kind: &str, servers: &[SocketAddr]) -> Result<f64, Failure> {
    median_of_runs(|| {
        let output = run_cycles(Command::new(std::env::current_exe()?), kind, LONG_RUN, servers)?.stdout;
        Ok(String::from_utf8(output)?.trim().parse()?)
    })
}

/// The number of instructions of a whole run.
fn instructions(kind: &str, count: usize, servers: &[SocketAddr]) -> Result<f64, Failure> {
    median_of_runs(|| count_with_callgrind(kind, count, servers))
}

fn median_of_runs(mut run: impl FnMut() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let mut counts = (0..RUNS).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
    counts.sort_by(f64::total_cmp);
    Ok(counts[RUNS / 2])
}

/// Counts the instructions of a run with callgrind, without the instructions of the relays.
fn count_with_callgrind(kind: &str, count: usize, servers: &[SocketAddr]) -> Result<f64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    // `--toggle-collect` switches `--collect-atstart` off, so `--collect-atstart=yes` must come after it.
    valgrind.args(["--toggle-collect=quorlock_count::relay::exchange", "--collect-atstart=yes"]);
    valgrind.arg(std::env::current_exe()?);
    let output = run_cycles(valgrind, kind, count, servers)?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.ok_or_else(|| "callgrind printed no count".into())
}

/// Runs cycles in their own process.
fn run_cycles(mut command: Command, kind: &str, count: usize, servers: &[SocketAddr]) -> Result<Output, Failure> {
    command.args(["cycles", kind, &count.to_string()]).args(servers.iter().map(SocketAddr::to_string));
    let output = command.output().map_err(|error| format!("cannot count: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("cannot count: {}", String::from_utf8_lossy(&output.stderr)).into())
}
