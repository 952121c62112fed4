//! Three hosts with the same crontab, on a cluster of three servers.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quorlock_testkit::{Aof, RedisServer};
use tempfile::TempDir;

use super::case::Case;
use crate::Failure;
use crate::clock;
use crate::history::{History, Record};
use crate::host_runs::{HostRuns, Programs, RunResult};
use crate::inject::POLL_INTERVAL;
use crate::interrupt::Interrupt;
use crate::judge::Findings;
use crate::operation::quick_replication;
use crate::plan::Assumptions;
use crate::register::RegisterServer;

pub(super) const HOSTS: usize = 3;
/// The interval at which cron starts the line. In the README, cron starts it once a night.
pub(super) const PERIOD: Duration = Duration::from_secs(2);
/// The ttl of most cases, and the cluster's maximum ttl.
pub(super) const TTL: Duration = Duration::from_secs(6);
/// The arguments of the README's crontab line, with a shorter `--min-hold`.
pub(super) const CRONTAB_LINE: [&str; 6] = ["run", "nightly-report", "--if-held", "skip", "--min-hold", "1s"];
/// How long the command of the line, a report, works if it is short.
pub(super) const SHORT_REPORT: Duration = Duration::from_millis(200);
/// How long the runs of a case may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// The hosts and the servers of one case.
pub(super) struct Crontab<'a> {
    pub(super) servers: Vec<RedisServer>,
    /// The runs of all hosts.
    pub(super) host_runs: HostRuns,
    interrupt: &'a Interrupt,
    history: Arc<History>,
    // These two are only kept: dropping them ends the server and deletes the folder.
    _register: RegisterServer,
    _config: TempDir,
    /// The connections of a dashboard.
    subscribers: Vec<TcpStream>,
    outcome: Outcome,
    /// The time of the case's operation.
    operation_at: Option<Instant>,
    reports_before_operation: usize,
}

/// The outcome of a case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How often cron started the line on every host.
    pub cron_ticks: usize,
    /// The results of the runs that the test did not kill.
    pub run_results: Vec<RunResult>,
    /// The number of reports that began before the operation.
    pub reports_before: usize,
    /// The number of reports that began after the operation.
    pub reports_after: usize,
    /// The time from the operation to the start of the next report.
    pub time_to_next_report: Option<Duration>,
    /// The judge's findings in the history.
    pub findings: Findings,
}

impl<'a> Crontab<'a> {
    /// Starts the servers, and initializes the cluster as the README says.
    pub(super) fn start(
        programs: &Programs,
        history: &Path,
        case: &Case,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Failure> {
        let servers = quick_replication(RedisServer::builder().aof(Aof::Everysec)).start_many(3);
        let config = TempDir::with_prefix("quorlock-cron-")?;
        let file = config.path().join("config.toml");
        let nodes: Vec<String> = servers.iter().map(|server| format!("{:?}", server.url())).collect();
        let ttl = case.ttl.as_secs();
        let text = format!(
            "nodes = [{}]\nttl = \"{ttl}s\"\nmax_ttl = \"{ttl}s\"\nmax_clock_skew = \"1s\"\nmax_clock_step_back = \"1s\"\nkill_grace = \"500ms\"\n",
            nodes.join(", ")
        );
        fs::write(&file, text)?;
        let history = Arc::new(History::create(history)?);
        let register = RegisterServer::start(Arc::clone(&history))?;
        let mut settings = vec![("QUORLOCK_CONFIG".to_owned(), file.display().to_string())];
        let addr = register.addr().to_string();
        let runs_for_init = HostRuns::new(programs.clone(), Arc::clone(&history), addr.clone(), settings.clone())?;
        runs_for_init.call(0, &["nodes", "init", "--yes"])?;
        settings.extend(case.environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let host_runs = HostRuns::new(programs.clone(), Arc::clone(&history), addr, settings)?;
        Ok(Self {
            servers,
            host_runs,
            interrupt,
            history,
            _register: register,
            _config: config,
            subscribers: Vec::new(),
            outcome: Outcome::default(),
            operation_at: None,
            reports_before_operation: 0,
        })
    }

    /// Starts the line on every host, as cron does, and waits for a period. Each report works for `busy`.
    pub(super) fn tick(&mut self, busy: Duration) -> Result<(), Failure> {
        self.outcome.cron_ticks += 1;
        for host in 0..HOSTS {
            self.host_runs.start(host, &CRONTAB_LINE, false, busy)?;
        }
        self.wait(PERIOD)
    }

    /// Lets cron start the line `count` times.
    pub(super) fn tick_times(&mut self, count: usize, busy: Duration) -> Result<(), Failure> {
        (0..count).try_for_each(|_| self.tick(busy))
    }

    /// Lets cron start the line until a report has begun after the operation, for at most `limit`.
    pub(super) fn tick_until_next_report(&mut self, limit: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.outcome.time_to_next_report.is_none() && begun.elapsed() < limit && !self.interrupt.is_set() {
            self.tick(SHORT_REPORT)?;
        }
        Ok(())
    }

    pub(super) fn wait(&mut self, length: Duration) -> Result<(), Failure> {
        let end = Instant::now() + length;
        self.wait_until(length, |_| Instant::now() >= end).map(drop)
    }

    /// Waits until a condition is true, for at most `limit`. Returns whether the condition became true.
    pub(super) fn wait_until(
        &mut self,
        limit: Duration,
        mut is_true: impl FnMut(&Self) -> bool,
    ) -> Result<bool, Failure> {
        let begun = Instant::now();
        loop {
            self.update()?;
            if is_true(self) {
                return Ok(true);
            }
            if begun.elapsed() >= limit || self.interrupt.is_set() {
                return Ok(false);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Collects the runs that have ended, and notices the first report after the operation.
    fn update(&mut self) -> Result<(), Failure> {
        self.outcome.run_results.extend(self.host_runs.collect_ended()?);
        if let Some(operation_at) = self.operation_at.filter(|_| self.outcome.time_to_next_report.is_none())
            && self.host_runs.grants() > self.reports_before_operation
        {
            self.outcome.time_to_next_report = Some(operation_at.elapsed());
        }
        Ok(())
    }

    /// Records that the operation begins now.
    pub(super) fn mark_operation(&mut self) {
        self.operation_at = Some(Instant::now());
        self.reports_before_operation = self.host_runs.grants();
    }

    /// Subscribes to all channels of every node, as a dashboard does.
    pub(super) fn subscribe_to_all_channels(&mut self) -> Result<(), Failure> {
        for server in &self.servers {
            let mut stream = TcpStream::connect(server.addr())?;
            stream.write_all(b"PSUBSCRIBE *\r\n")?;
            self.subscribers.push(stream);
        }
        Ok(())
    }

    /// Waits for every run to end, and judges the history.
    pub(super) fn finish(mut self) -> Result<Outcome, Failure> {
        self.history.record(Record::FaultsEnded { at: clock::now() });
        let reports = self.host_runs.grants();
        let interrupt = self.interrupt;
        self.outcome.run_results.extend(self.host_runs.finish(|elapsed| elapsed < END_TIMEOUT && !interrupt.is_set())?);
        self.outcome.reports_before = if self.operation_at.is_some() { self.reports_before_operation } else { reports };
        self.outcome.reports_after = reports - self.outcome.reports_before;
        self.outcome.findings = Findings::of(Assumptions::Broken, &self.history.finish()?);
        Ok(self.outcome)
    }
}
