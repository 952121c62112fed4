//! Episodes with clients behind a sentinel. The sentinel restarts or falls silent, and then makes a planned failover.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quorlock_testkit::{Proxy, Sentinels};

use crate::Failure;
use crate::clock;
use crate::history::{History, Record};
use crate::interrupt::Interrupt;
use crate::plan::{Act, CLIENTS, Fault, Plan};
use crate::processes::Processes;
use crate::register::Register;
use crate::schedule::{Scene, carry_out};
use crate::subject::Program;

/// How often the library polls an idle node, which is also how late the library may notice a failover.
pub const HEARTBEAT: Duration = quorlock::fuzzing::HEARTBEAT;

/// How long clients continue after the failover. The sentinel demotes the old master about ten seconds after the
/// failover.
const AFTER_FAILOVER: Duration = Duration::from_secs(14);
/// How long the sentinel may take to find a replica that it can promote.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(30);
/// Clients that wait longer than this after the last fault are starved.
const STARVED_AFTER: Duration = Duration::from_secs(30);

/// Carries out the plan of [`Series::Sentinel`](crate::series::Series::Sentinel). Returns the history.
///
/// # Errors
/// When something cannot be started, or the file cannot be written.
pub fn play(plan: &Plan, program: &Program, path: &Path, interrupt: &Interrupt) -> Result<Vec<Record>, Failure> {
    let history = Arc::new(History::create(path)?);
    let sentinels = Sentinels::builder().replicas(1).start();
    // Clients listen to the sentinel at the first of two addresses. The first address leads through a proxy, which can
    // hold all messages back, so that the sentinel seems to fall silent.
    let first = Proxy::start(sentinels.sentinel.addr());
    let url = sentinels.url_among(&[&first.addr().to_string()]);
    let register = Register::start(Arc::clone(&history))?;
    let networks = std::array::from_fn(|_| vec![url.clone()]);
    let processes =
        Processes::new(program.clone(), Arc::clone(&history), networks, register.addr().to_string(), plan.seed);
    let mut watched = Watched { sentinels, first, processes, history: &history, switched: None };
    watched.processes.start_all(CLIENTS)?;
    carry_out(plan, &mut watched, &history, interrupt)?;
    while watched.switched.is_some_and(|at| at.elapsed() < AFTER_FAILOVER) && !interrupt.is_set() {
        thread::sleep(crate::schedule::POLL_INTERVAL);
    }
    history.note(Record::Healed { at: clock::now() });
    watched.processes.finish(|calm| calm < STARVED_AFTER && !interrupt.is_set())?;
    drop(watched);
    Ok(history.finish()?)
}

struct Watched<'a> {
    sentinels: Sentinels,
    first: Proxy,
    processes: Processes,
    history: &'a History,
    switched: Option<Instant>,
}

impl Scene for Watched<'_> {
    fn begin(&mut self, fault: &Fault) -> Result<bool, Failure> {
        match fault.act {
            Act::RestartSentinel => self.sentinels.sentinel.restart(),
            Act::SilenceSentinel => self.first.hold(true),
            Act::FailOver => self.fail_over()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self, fault: &Fault) -> Result<(), Failure> {
        if fault.act == Act::SilenceSentinel {
            self.first.hold(false);
        }
        Ok(())
    }
}

impl Watched<'_> {
    /// Makes the sentinel fail over. Retries, because a sentinel that has just started does not know the replica yet.
    fn fail_over(&mut self) -> Result<(), Failure> {
        let url = self.sentinels.url();
        let service = url.rsplit('/').next().unwrap_or_default();
        let before = self.sentinels.master().port();
        let begun = Instant::now();
        while self.sentinels.sentinel.try_command(&["SENTINEL", "FAILOVER", service])?.as_str() != Some("OK") {
            if begun.elapsed() > FAILOVER_TIMEOUT {
                return Err("the sentinel never promoted the replica".into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        while self.sentinels.master().port() == before {
            thread::sleep(Duration::from_millis(1));
        }
        self.history.note(Record::Switched { at: clock::now() });
        self.switched = Some(Instant::now());
        Ok(())
    }
}
