//! Measures how soon a waiting `quorlock run` starts its command after the holder has been killed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use quorlock_testkit::RedisServer;

use super::PlannedCase;
use crate::Failure;
use crate::case::{Bar, Case, Contender, Figures, Limit};
use crate::options::{Options, quorlock};
use crate::sorted_readings::SortedReadings;

const NAME: &str = "takeover";
const NODES: usize = 3;
const P50: &str = "p50_ms";
const FIGURES: [(&str, f64); 5] = [("min_ms", 0.0), (P50, 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("max_ms", 1.0)];
const COMMAND_KILLED: &str = "`kill -9` of the command";
const WRAPPER_KILLED: &str = "`kill -9` of the wrapper";
/// The bar. It is far below the ttl of 30 s, for which the waiter must not wait.
const P50_MAX_MS: f64 = 1000.0;
const ABOUT: &str = "A `quorlock run` holds the lock with the default ttl of 30 s on three Redis nodes, and a \
    second `quorlock run` waits. Each time is measured from the signal to the first output of the second command. \
    In the first row the signal kills the command, and the *wrapper* (the `quorlock run` process) releases the \
    lock. In the second row the signal kills the wrapper. The *guard*, a second process of each run, then kills \
    the command, waits for its end, connects to the nodes and releases the lock. For comparison: after the death of \
    a leader in Kubernetes, the next leader begins after 15 s (the default `LeaseDuration`); with Hazelcast's \
    `FencedLock` the next holder begins after 5 min (the default `session-time-to-live-seconds`); a failover of \
    Chubby's master took 14 s (Burrows, 2006). \
    These three figures also apply if the whole machine dies. If a machine dies with its guard, quorlock's \
    next holder has to wait for the end of the ttl.";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![PlannedCase::new(NAME, set_up)]
}

fn set_up(options: &Options) -> Result<Case, Failure> {
    let servers = RedisServer::start_many(NODES);
    let nodes = servers.iter().map(RedisServer::url).collect::<Vec<_>>();
    options.runtime.block_on(async {
        quorlock::Client::builder().nodes(&nodes).init_cluster().await?;
        Ok::<(), Failure>(())
    })?;
    let mut case = Case::new(NAME, "Takeover: the holder is killed, and the next command starts", P50);
    case.about = ABOUT.into();
    let setup = Arc::new(Setup {
        program: quorlock()?,
        nodes: nodes.join(","),
        takeovers_per_turn: options.operations_per_turn.div_ceil(5),
    });
    for (name, kills_wrapper) in [(COMMAND_KILLED, false), (WRAPPER_KILLED, true)] {
        case.add(name, Takeover { setup: Arc::clone(&setup), kills_wrapper });
    }
    case.bars.push(Bar::figure(WRAPPER_KILLED, P50, Limit::AtMost(P50_MAX_MS)));
    case.keep_alive(servers);
    Ok(case)
}

/// The command, its nodes, and the number of takeovers in a turn.
struct Setup {
    program: PathBuf,
    nodes: String,
    takeovers_per_turn: usize,
}

struct Takeover {
    setup: Arc<Setup>,
    /// Whether the wrapper is killed. Otherwise the command is killed.
    kills_wrapper: bool,
}

/// A `quorlock run` process. Dropping this kills it.
struct Run(Child);

impl Setup {
    fn start_run(&self, script: &str) -> Result<Run, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["--nodes", &self.nodes, "run", "takeover", "--wait", "1m", "--", "sh", "-c", script]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Run(command.spawn()?))
    }
}

impl Run {
    /// The first line of the command's output.
    fn first_output(&mut self) -> Result<String, Failure> {
        first_line(self.0.stdout.take())
    }

    /// Waits until the run is in the queue.
    fn wait_until_queued(&mut self) -> Result<(), Failure> {
        let line = first_line(self.0.stderr.take())?;
        if line.contains("waiting for") { Ok(()) } else { Err(format!("the second run does not wait: {line}").into()) }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_line(pipe: Option<impl std::io::Read>) -> Result<String, Failure> {
    let mut line = String::new();
    BufReader::new(pipe.ok_or("the output was read before")?).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

impl Contender for Takeover {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let mut readings = SortedReadings::default();
        for _ in 0..self.setup.takeovers_per_turn {
            let mut holder = self.setup.start_run("echo $$; exec sleep 1000")?;
            let command_pid = holder.first_output()?;
            let mut waiter = self.setup.start_run("echo begun")?;
            waiter.wait_until_queued()?;
            let begun = Instant::now();
            if self.kills_wrapper {
                holder.0.kill()?;
            } else {
                Command::new("kill").args(["-KILL", &command_pid]).status()?;
            }
            if waiter.first_output()? != "begun" {
                return Err("the second command did not run".into());
            }
            readings.add(begun.elapsed().as_secs_f64() * 1e3);
            waiter.0.wait()?;
        }
        Ok(FIGURES.iter().map(|(name, share)| ((*name).to_owned(), readings.quantile(*share))).collect())
    }
}
