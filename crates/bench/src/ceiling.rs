//! The ceiling: the highest rate of the servers. For each server, one redis-benchmark sends the commands of a cycle.
//! All redis-benchmarks run at the same time.
//!
//! redis-benchmark repeats one command with a random number in its key. Therefore all acquires run first, each on a
//! free key. Then all releases run, on prepared keys. There are four times as many keys as releases. redis-benchmark
//! draws one key in nine a second time, and a release of a missing key is less work for the server. Each acquire that
//! shares a command creates a fence, whereas a single acquire replaces a fence. If the floor is faster than the ceiling
//! with the same commands, redis-benchmark itself is the bottleneck, and the ceiling is not a limit of the servers.

use std::process::{Command, Stdio};

use quorlock_testkit::RedisServer;

use crate::Failure;
use crate::case::{Contender, Figures, RATE};
use crate::recording::{Command as RecordedCommand, Recording, SharedCommands};

/// Pipeline depths to try. The best result is used.
const PIPELINES: [usize; 3] = [16, 64, 256];
const CONNECTIONS: usize = 4;
/// The number of keys for acquires. It is so large that redis-benchmark hardly draws a key twice.
const KEYS_OF_ACQUIRES: usize = 2_000_000_000;
/// Prepared keys for each release.
const KEYS_PER_RELEASE: usize = 4;
const CREATE_VOTES: &str = "for i = 0, ARGV[2] - 1 do \
    redis.call('SET', KEYS[1] .. string.format('%012d', i), ARGV[1], 'PX', 600000) end return 1";
/// Deletes the votes and the keys that were created with them. Returns the number of votes.
const CLEAN_UP: &str = "local votes = 0 for _, key in ipairs(redis.call('KEYS', '*' .. KEYS[1] .. '?*')) do \
    if string.sub(key, 1, #KEYS[1]) == KEYS[1] then votes = votes + 1 end redis.call('DEL', key) end return votes";

/// The servers, each with its commands.
pub(crate) struct Ceiling {
    servers: Vec<Target>,
    /// Requests in one pass.
    count: usize,
}

/// A server with its two commands: one or several acquires, and one or several releases.
struct Target {
    port: u16,
    recording: Recording,
    commands: [RecordedCommand; 2],
}

/// One of the two commands of a cycle.
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

    /// Changes the commands: they contain several requests where our library also sends several requests in one
    /// command.
    pub(crate) fn with_shared_commands(mut self, shared_commands: &[SharedCommands]) -> Self {
        for (target, shared_commands) in self.servers.iter_mut().zip(shared_commands) {
            target.commands = target.recording.with_random_keys_and_shared_commands(shared_commands);
        }
        self
    }

    /// Requests per second on each server, with this pipeline depth.
    fn pass(&self, pass: Pass, pipeline: usize) -> Result<f64, Failure> {
        let mut running = Vec::new();
        for Target { port, commands: [acquire, release], .. } in &self.servers {
            let (sent_command, keys) = match pass {
                Pass::Acquires => (acquire, KEYS_OF_ACQUIRES),
                Pass::Releases => (release, self.requests(pipeline) * KEYS_PER_RELEASE),
            };
            let (port, commands) = (usize::from(*port), self.requests(pipeline) / sent_command.requests);
            let mut command = Command::new("redis-benchmark");
            for (flag, value) in [("-p", port), ("-n", commands), ("-c", CONNECTIONS), ("-P", pipeline), ("-r", keys)] {
                command.args([flag, &value.to_string()]);
            }
            command.args(["-h", "127.0.0.1", "--csv"]).args(&sent_command.words);
            let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
            running.push((process, sent_command.requests as f64));
        }
        let mut sum = 0.0;
        for (process, requests) in running {
            let output = process.wait_with_output()?;
            sum +=
                requests * rate(&String::from_utf8_lossy(&output.stdout)).ok_or("redis-benchmark printed no rate")?;
        }
        Ok(sum / self.servers.len() as f64)
    }

    /// Runs a script on all servers at once, with the vote's key and value. Returns the lowest result.
    fn run_on_all_servers(&self, script: &str, more: &str) -> Result<i64, Failure> {
        let ask = |Target { port, recording, .. }: &Target| {
            let mut command = Command::new("redis-cli");
            command.args(["-p", &port.to_string(), "EVAL", script, "1", recording.key(), recording.value(), more]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
        };
        let started_at = self.servers.iter().map(ask).collect::<Result<Vec<_>, _>>()?;
        let mut lowest = i64::MAX;
        for process in started_at {
            let answer = String::from_utf8_lossy(&process.wait_with_output()?.stdout).trim().to_owned();
            lowest = lowest.min(answer.parse().map_err(|_| answer)?);
        }
        Ok(lowest)
    }

    /// Deletes the keys, and checks the number of keys per request, because commands without effect would make the
    /// ceiling wrong.
    fn clean_up(&self, requests: usize, min_keys: f64, max_keys: f64) -> Result<(), Failure> {
        let keys = self.run_on_all_servers(CLEAN_UP, "")? as f64 / requests as f64;
        let expected = (min_keys..=max_keys).contains(&keys);
        expected.then_some(()).ok_or_else(|| format!("{keys} keys were held for each request").into())
    }

    /// The number of requests in a pass. redis-benchmark sends only whole pipelines, and at least one.
    fn requests(&self, pipeline: usize) -> usize {
        let max_requests =
            self.servers.iter().flat_map(|target| &target.commands).map(|command| command.requests).max().unwrap_or(1);
        self.count.next_multiple_of(pipeline * max_requests)
    }

    fn cycles(&self, pipeline: usize) -> Result<f64, Failure> {
        let requests = self.requests(pipeline);
        let acquires = self.pass(Pass::Acquires, pipeline)?;
        self.clean_up(requests, 0.99, 1.01)?;
        self.run_on_all_servers(CREATE_VOTES, &(requests * KEYS_PER_RELEASE).to_string())?;
        let releases = self.pass(Pass::Releases, pipeline)?;
        let left = KEYS_PER_RELEASE as f64 - 0.8;
        self.clean_up(requests, left - 0.2, left)?;
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

/// Reads the rate from a line of names and a line of values.
fn rate(csv: &str) -> Option<f64> {
    csv.lines().nth(1)?.rsplit("\",\"").nth(COLUMNS_AFTER_RATE)?.parse().ok()
}

/// The first column is the command, which may contain the separator.
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
