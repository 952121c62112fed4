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
use crate::fleet::{End, Fleet, Programs};
use crate::history::{History, Record};
use crate::interrupt::Interrupt;
use crate::judge::Findings;
use crate::operation::quick_replication;
use crate::plan::Bound;
use crate::register::Register;
use crate::schedule::POLL_INTERVAL;

pub(super) const HOSTS: usize = 3;
/// The interval at which cron starts the job: once a night in the README.
pub(super) const PERIOD: Duration = Duration::from_secs(2);
/// The ttl of most cases, and the cluster's maximum ttl.
pub(super) const TTL: Duration = Duration::from_secs(6);
/// The arguments of the README's crontab line, with a shorter `--min-hold`.
pub(super) const LINE: [&str; 6] = ["run", "nightly-report", "--if-held", "skip", "--min-hold", "1s"];
/// A short report.
pub(super) const SHORT: Duration = Duration::from_millis(200);
/// How long runs may take to end after the case.
const PATIENCE: Duration = Duration::from_secs(60);

/// The hosts and the servers of one case.
pub(super) struct Crontab<'a> {
    pub(super) servers: Vec<RedisServer>,
    /// The runs of all hosts.
    pub(super) fleet: Fleet,
    interrupt: &'a Interrupt,
    history: Arc<History>,
    // The register serves until it is dropped.
    _register: Register,
    _config: TempDir,
    subscribers: Vec<TcpStream>,
    outcome: Outcome,
    marked: Option<Instant>,
    grants_at_mark: usize,
}

/// The outcome of a case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How often cron started the job on every host.
    pub ticks: usize,
    /// The runs that ended on their own.
    pub ends: Vec<End>,
    /// Reports that began before the operation.
    pub before: usize,
    /// Reports that began after the operation.
    pub after: usize,
    /// The time from the operation to the start of the next report.
    pub takeover: Option<Duration>,
    /// The judge's findings in the history.
    pub found: Findings,
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
        let register = Register::start(Arc::clone(&history))?;
        let mut settings = vec![("QUORLOCK_CONFIG".to_owned(), file.display().to_string())];
        let addr = register.addr().to_string();
        let founder = Fleet::new(programs.clone(), Arc::clone(&history), addr.clone(), settings.clone())?;
        founder.call(0, &["nodes", "init", "--yes"])?;
        settings.extend(case.environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let fleet = Fleet::new(programs.clone(), Arc::clone(&history), addr, settings)?;
        Ok(Self {
            servers,
            fleet,
            interrupt,
            history,
            _register: register,
            _config: config,
            subscribers: Vec::new(),
            outcome: Outcome::default(),
            marked: None,
            grants_at_mark: 0,
        })
    }

    /// Starts the job on every host, as cron does, and waits for a period.
    pub(super) fn tick(&mut self, busy: Duration) -> Result<(), Failure> {
        self.outcome.ticks += 1;
        for host in 0..HOSTS {
            self.fleet.start(host, &LINE, false, busy)?;
        }
        self.wait(PERIOD)
    }

    pub(super) fn ticks(&mut self, count: usize, busy: Duration) -> Result<(), Failure> {
        (0..count).try_for_each(|_| self.tick(busy))
    }

    /// Ticks until a report has begun after the operation, or `limit` is over.
    pub(super) fn tick_until_next(&mut self, limit: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.outcome.takeover.is_none() && begun.elapsed() < limit && !self.interrupt.is_set() {
            self.tick(SHORT)?;
        }
        Ok(())
    }

    pub(super) fn wait(&mut self, length: Duration) -> Result<(), Failure> {
        let end = Instant::now() + length;
        self.until(length, |_| Instant::now() >= end).map(drop)
    }

    /// Waits for a condition, at most for `limit`. Returns whether the condition became true.
    pub(super) fn until(&mut self, limit: Duration, mut is_true: impl FnMut(&Self) -> bool) -> Result<bool, Failure> {
        let begun = Instant::now();
        loop {
            self.look()?;
            if is_true(self) {
                return Ok(true);
            }
            if begun.elapsed() >= limit || self.interrupt.is_set() {
                return Ok(false);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.outcome.ends.extend(self.fleet.reap()?);
        if let Some(marked) = self.marked.filter(|_| self.outcome.takeover.is_none())
            && self.fleet.grants() > self.grants_at_mark
        {
            self.outcome.takeover = Some(marked.elapsed());
        }
        Ok(())
    }

    /// Records the time of the operation. Reports that begin later count as `after`.
    pub(super) fn mark(&mut self) {
        self.marked = Some(Instant::now());
        self.grants_at_mark = self.fleet.grants();
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
        self.history.note(Record::Healed { at: clock::now() });
        let grants = self.fleet.grants();
        let interrupt = self.interrupt;
        self.outcome.ends.extend(self.fleet.finish(|calm| calm < PATIENCE && !interrupt.is_set())?);
        let before = if self.marked.is_some() { self.grants_at_mark } else { grants };
        (self.outcome.before, self.outcome.after) = (before, grants - before);
        self.outcome.found = Findings::of(Bound::Beyond, &self.history.finish()?);
        Ok(self.outcome)
    }
}
