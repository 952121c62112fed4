//! The ceiling: the highest rate of the servers. For each server, one redis-benchmark sends the commands of a cycle.
//! All redis-benchmarks run at the same time.
//!
//! redis-benchmark sends one command again and again, with a random number in its key. So it cannot send acquires and
//! releases alternately. It sends all acquires in a first pass, and all releases in a second pass.
//!
//! - The releases release votes that a script has created. There are four times as many votes as releases. So only about
//!   one release in nine draws a key whose vote is already released, which is less work for the server.
//! - An acquire in its own command replaces the fence of a key that all acquires share. An acquire in a bundle, which is
//!   one command with several requests, creates a fence with its own key.
//!
//! If the floor is faster than the ceiling with the same commands, redis-benchmark itself is the bottleneck, and the
//! ceiling is not a limit of the servers.

use std::process::{Command, Stdio};

use quorlock_testkit::RedisServer;

use crate::Failure;
use crate::case::{Contender, Figures, RATE};
use crate::recording::{Bundles, Command as RecordedCommand, Recording};

/// The pipeline depths to try. The best rate counts.
const PIPELINES: [usize; 3] = [16, 64, 256];
const CONNECTIONS: usize = 4;
/// The number of keys for acquires. It is so large that redis-benchmark hardly draws a key twice.
const ACQUIRE_KEYS: usize = 2_000_000_000;
/// The number of created votes for each release.
const VOTES_PER_RELEASE: usize = 4;
const CREATE_VOTES: &str = "for i = 0, ARGV[2] - 1 do \
    redis.call('SET', KEYS[1] .. string.format('%012d', i), ARGV[1], 'PX', 600000) end return 1";
/// Deletes the votes and the keys of their fences. Returns the number of votes.
const DELETE_VOTES: &str = "local votes = 0 for _, key in ipairs(redis.call('KEYS', '*' .. KEYS[1] .. '?*')) do \
    if string.sub(key, 1, #KEYS[1]) == KEYS[1] then votes = votes + 1 end redis.call('DEL', key) end return votes";

/// The servers, each with its commands.
pub(crate) struct Ceiling {
    servers: Vec<Target>,
    /// The minimum number of requests in a pass.
    count: usize,
}

/// A server with the commands for the two passes. Each command is a single request or a bundle.
struct Target {
    port: u16,
    recording: Recording,
    commands: [RecordedCommand; 2],
}

/// One of the two passes.
#[derive(Clone, Copy)]
enum Pass {
    Acquires,
    Releases,
}

impl Ceiling {
    /// A ceiling that sends every request in its own command.
    pub(crate) fn new(servers: &[RedisServer], recordings: &[Recording], count: usize) -> Self {
        let target = |(server, recording): (&RedisServer, &Recording)| Target {
            port: server.port(),
            recording: recording.clone(),
            commands: recording.with_random_keys(),
        };
        Self { servers: servers.iter().zip(recordings).map(target).collect(), count }
    }

    /// Sends bundles instead of single requests, where our library also bundles requests.
    pub(crate) fn with_bundles(mut self, bundles: &[Bundles]) -> Self {
        for (target, bundles) in self.servers.iter_mut().zip(bundles) {
            target.commands = target.recording.bundled_with_random_keys(bundles);
        }
        self
    }

    /// Runs a pass with this pipeline depth. Returns the requests per second on a server, averaged over the servers.
    fn run_pass(&self, pass: Pass, pipeline: usize) -> Result<f64, Failure> {
        let mut processes = Vec::new();
        for Target { port, commands: [acquire, release], .. } in &self.servers {
            let (sent_command, keys) = match pass {
                Pass::Acquires => (acquire, ACQUIRE_KEYS),
                Pass::Releases => (release, self.requests(pipeline) * VOTES_PER_RELEASE),
            };
            let (port, commands) = (usize::from(*port), self.requests(pipeline) / sent_command.requests);
            let mut command = Command::new("redis-benchmark");
            for (flag, value) in [("-p", port), ("-n", commands), ("-c", CONNECTIONS), ("-P", pipeline), ("-r", keys)] {
                command.args([flag, &value.to_string()]);
            }
            command.args(["-h", "127.0.0.1", "--csv"]).args(&sent_command.words);
            let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
            processes.push((process, sent_command.requests as f64));
        }
        let mut sum = 0.0;
        for (process, requests) in processes {
            let output = process.wait_with_output()?;
            sum +=
                requests * rate(&String::from_utf8_lossy(&output.stdout)).ok_or("redis-benchmark printed no rate")?;
        }
        Ok(sum / self.servers.len() as f64)
    }

    /// Runs a script on all servers at once. Its arguments are the vote's key, the vote's value and `argument`. Returns the
    /// lowest result.
    fn run_on_all_servers(&self, script: &str, argument: &str) -> Result<i64, Failure> {
        let start_cli = |Target { port, recording, .. }: &Target| {
            let mut command = Command::new("redis-cli");
            command.args(["-p", &port.to_string(), "EVAL", script, "1", recording.key(), recording.value(), argument]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
        };
        let processes = self.servers.iter().map(start_cli).collect::<Result<Vec<_>, _>>()?;
        let mut lowest = i64::MAX;
        for process in processes {
            let reply = String::from_utf8_lossy(&process.wait_with_output()?.stdout).trim().to_owned();
            lowest = lowest.min(reply.parse().map_err(|_| reply)?);
        }
        Ok(lowest)
    }

    /// Deletes all votes. Checks that there was an expected number of votes per request, because commands without effect
    /// would make the ceiling wrong.
    fn delete_votes(&self, requests: usize, min_per_request: f64, max_per_request: f64) -> Result<(), Failure> {
        let votes = self.run_on_all_servers(DELETE_VOTES, "")? as f64 / requests as f64;
        let is_expected = (min_per_request..=max_per_request).contains(&votes);
        is_expected.then_some(()).ok_or_else(|| format!("there were {votes} votes for each request").into())
    }

    /// The number of requests in a pass. It is a multiple of the pipeline depth, because redis-benchmark sends only whole
    /// pipelines.
    fn requests(&self, pipeline: usize) -> usize {
        let max_requests =
            self.servers.iter().flat_map(|target| &target.commands).map(|command| command.requests).max().unwrap_or(1);
        self.count.next_multiple_of(pipeline * max_requests)
    }

    /// The cycles per second with this pipeline depth.
    fn cycles(&self, pipeline: usize) -> Result<f64, Failure> {
        let requests = self.requests(pipeline);
        let acquires = self.run_pass(Pass::Acquires, pipeline)?;
        self.delete_votes(requests, 0.99, 1.01)?;
        self.run_on_all_servers(CREATE_VOTES, &(requests * VOTES_PER_RELEASE).to_string())?;
        let releases = self.run_pass(Pass::Releases, pipeline)?;
        let max_per_request = VOTES_PER_RELEASE as f64 - 0.8;
        self.delete_votes(requests, max_per_request - 0.2, max_per_request)?;
        Ok(1.0 / (1.0 / acquires + 1.0 / releases))
    }
}

impl Contender for Ceiling {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let mut best: f64 = 0.0;
        for pipeline in PIPELINES {
            best = best.max(self.cycles(pipeline)?);
        }
        Ok(Figures::from([(RATE.to_owned(), best)]))
    }
}

/// Reads the rate from the output of redis-benchmark: a line of names and a line of values.
fn rate(csv: &str) -> Option<f64> {
    csv.lines().nth(1)?.rsplit("\",\"").nth(COLUMNS_AFTER_RATE)?.parse().ok()
}

/// The rate is found from the end of the line, because the first column is the command, which may contain the separator.
const COLUMNS_AFTER_RATE: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_second_column() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                   \"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"SET \",\" x\",\"125000.00\",\"0.2\",\"0.1\",\"0.2\",\"0.3\",\"0.4\",\"0.5\"\n";
        assert_eq!(rate(csv), Some(125_000.0));
        assert_eq!(rate(""), None);
    }
}
