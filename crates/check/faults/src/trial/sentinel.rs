//! Episodes with clients that find the master through a sentinel. The sentinel restarts or falls silent, and then
//! replaces the master (a failover).

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quorlock_testkit::{Proxy, Sentinels};

use crate::Failure;
use crate::clock;
use crate::history::{History, Record};
use crate::inject::{FaultTargets, inject_faults};
use crate::interrupt::Interrupt;
use crate::plan::{CLIENTS, Fault, FaultKind, Plan};
use crate::processes::Processes;
use crate::register::RegisterServer;
use crate::subject::Program;

/// The interval at which the library polls an idle node. The library notices a failover at the latest with the next poll.
pub const HEARTBEAT: Duration = quorlock::fuzzing::HEARTBEAT;

/// How long clients continue after the failover. About ten seconds after the failover, the sentinel turns the old master
/// into a replica.
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
    // The URL has two addresses of the sentinel, and clients listen at the first one. It belongs to a proxy, which can hold
    // all messages back, so that the sentinel seems to fall silent.
    let proxy = Proxy::start(sentinels.sentinel.addr());
    let url = sentinels.url_after(&[&proxy.addr().to_string()]);
    let register = RegisterServer::start(Arc::clone(&history))?;
    let networks = std::array::from_fn(|_| vec![url.clone()]);
    let processes =
        Processes::new(program.clone(), Arc::clone(&history), networks, register.addr().to_string(), plan.seed);
    let mut clients = ClientsBehindSentinel { sentinels, proxy, processes, history: &history, failed_over_at: None };
    clients.processes.start_all(CLIENTS)?;
    inject_faults(plan, &mut clients, &history, interrupt)?;
    while clients.failed_over_at.is_some_and(|at| at.elapsed() < AFTER_FAILOVER) && !interrupt.is_set() {
        thread::sleep(crate::inject::POLL_INTERVAL);
    }
    history.record(Record::FaultsEnded { at: clock::now() });
    clients.processes.finish(|elapsed| elapsed < STARVED_AFTER && !interrupt.is_set())?;
    drop(clients);
    Ok(history.finish()?)
}

struct ClientsBehindSentinel<'a> {
    sentinels: Sentinels,
    /// The first address of the sentinel.
    proxy: Proxy,
    processes: Processes,
    history: &'a History,
    failed_over_at: Option<Instant>,
}

impl FaultTargets for ClientsBehindSentinel<'_> {
    fn begin(&mut self, fault: &Fault) -> Result<bool, Failure> {
        match fault.kind {
            FaultKind::RestartSentinel => self.sentinels.sentinel.restart(),
            FaultKind::SilenceSentinel => self.proxy.hold(true),
            FaultKind::FailOver => self.fail_over()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self, fault: &Fault) -> Result<(), Failure> {
        if fault.kind == FaultKind::SilenceSentinel {
            self.proxy.hold(false);
        }
        Ok(())
    }
}

impl ClientsBehindSentinel<'_> {
    /// Makes the sentinel fail over. Retries, because a sentinel that has just started does not know the replica yet.
    fn fail_over(&mut self) -> Result<(), Failure> {
        let url = self.sentinels.url();
        let service = url.rsplit('/').next().unwrap_or_default();
        let old_master = self.sentinels.master().port();
        let begun = Instant::now();
        while self.sentinels.sentinel.try_command(&["SENTINEL", "FAILOVER", service])?.as_str() != Some("OK") {
            if begun.elapsed() > FAILOVER_TIMEOUT {
                return Err("the sentinel never promoted the replica".into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        while self.sentinels.master().port() == old_master {
            thread::sleep(Duration::from_millis(1));
        }
        self.history.record(Record::FailedOver { at: clock::now() });
        self.failed_over_at = Some(Instant::now());
        Ok(())
    }
}
