//! Episodes of ordinary operations: the real `quorlock run` on three nodes, or clients of the library and a sentinel.

mod sentinel;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;
use crate::clock;
use crate::cluster::Cluster;
use crate::episode::init_cluster;
use crate::history::{History, Record};
use crate::host_runs::{HostRuns, Programs};
use crate::inject::{FaultTargets, POLL_INTERVAL, inject_faults};
use crate::interrupt::Interrupt;
use crate::plan::{Fault, FaultKind, Plan, Target};
use crate::register::RegisterServer;
use crate::series::Series;
use crate::task::{MAX_CLOCK_SKEW, MAX_CLOCK_STEP_BACK, NAMES, NODE_DEADLINE};

pub use sentinel::{HEARTBEAT, play as play_sentinel};

/// The ttl of every run, and the cluster's maximum ttl.
pub const TTL: Duration = Duration::from_secs(4);
/// How long `quorlock run` waits between SIGTERM and SIGKILL to its command.
const KILL_GRACE: Duration = Duration::from_millis(200);
const HOSTS: usize = 4;
/// How long a fault of the holder waits for a run that holds the lock.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(20);
/// A run that waits for longer than this after the end of all faults is starved. If no host gets the lock in this time,
/// the hosts are stuck.
const STARVED_AFTER: Duration = Duration::from_secs(30);

/// Runs an episode of a series with `quorlock run`. Returns the history, and writes it to the file.
///
/// # Errors
/// When something cannot be started, or the file cannot be written.
///
/// # Panics
/// When a server cannot be restarted or refuses a command.
pub fn play(
    series: Series,
    plan: &Plan,
    programs: &Programs,
    path: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<Record>, Failure> {
    let history = Arc::new(History::create(path)?);
    let cluster = Cluster::start(plan);
    init_cluster(&cluster, TTL, TTL)?;
    let register = RegisterServer::start(Arc::clone(&history))?;
    let addr = register.addr().to_string();
    let host_runs = HostRuns::new(programs.clone(), Arc::clone(&history), addr, settings(&cluster.addrs()))?;
    let mut hosts = Hosts {
        cluster,
        host_runs,
        behaviour: HostBehaviour::of(series),
        next_starts: vec![Instant::now(); HOSTS],
        rng: Rng::with_seed(plan.seed),
        stopped_processes: Vec::new(),
    };
    inject_faults(plan, &mut hosts, &history, interrupt)?;
    history.record(Record::FaultsEnded { at: clock::now() });
    hosts.finish(interrupt)?;
    drop(hosts);
    Ok(history.finish()?)
}

/// The settings of `quorlock`, as environment variables.
pub(crate) fn settings(nodes: &[std::net::SocketAddr]) -> Vec<(String, String)> {
    let nodes: Vec<String> = nodes.iter().map(|addr| format!("redis://{addr}")).collect();
    let millis = |length: Duration| format!("{}ms", length.as_millis());
    let settings = [
        ("NODES", nodes.join(",")),
        ("TTL", millis(TTL)),
        ("MAX_TTL", millis(TTL)),
        ("MAX_CLOCK_SKEW", millis(MAX_CLOCK_SKEW)),
        ("MAX_CLOCK_STEP_BACK", millis(MAX_CLOCK_STEP_BACK)),
        ("KILL_GRACE", millis(KILL_GRACE)),
        ("NODE_DEADLINE", millis(NODE_DEADLINE)),
    ];
    settings.map(|(name, value)| (format!("QUORLOCK_{name}"), value)).into()
}

/// How the hosts use the lock.
#[derive(Clone, Copy, Debug)]
struct HostBehaviour {
    /// Whether a run waits if the lock is held. Otherwise it exits.
    waits: bool,
    /// The duration of a command, in milliseconds.
    busy_ms: (u64, u64),
    /// The pause between two runs on a host, in milliseconds.
    rest_ms: (u64, u64),
}

impl HostBehaviour {
    fn of(series: Series) -> Self {
        match series {
            Series::Restarts => Self { waits: false, busy_ms: (20, 200), rest_ms: (200, 800) },
            // Commands run for longer than a ttl, so that the judge notices a command that works after its lease has ended.
            Series::Processes => Self { waits: true, busy_ms: (3_000, 12_000), rest_ms: (0, 200) },
            Series::Stopped => Self { waits: true, busy_ms: (12_000, 14_000), rest_ms: (0, 200) },
            _ => Self { waits: true, busy_ms: (100, 4_000), rest_ms: (0, 200) },
        }
    }
}

struct Hosts {
    cluster: Cluster,
    host_runs: HostRuns,
    behaviour: HostBehaviour,
    /// When each host starts its next run, if the previous run has ended.
    next_starts: Vec<Instant>,
    rng: Rng,
    /// The processes that each fault has stopped.
    stopped_processes: Vec<(Fault, Vec<Pid>)>,
}

impl FaultTargets for Hosts {
    fn begin(&mut self, fault: &Fault) -> Result<bool, Failure> {
        if fault.target != Target::Holder {
            self.cluster.begin(fault);
            return Ok(true);
        }
        let Some((client, wrapper, guard)) = self.wait_for_holder(fault)? else { return Ok(false) };
        let processes_to_stop: &[Pid] = match fault.kind {
            FaultKind::StopWrapper => &[wrapper],
            FaultKind::StopGuard => guard.as_slice(),
            FaultKind::StopBoth => &[wrapper].into_iter().chain(guard).collect::<Vec<_>>(),
            _ => &[],
        };
        signal_all(processes_to_stop, Signal::STOP);
        self.stopped_processes.push((*fault, processes_to_stop.into()));
        if matches!(fault.kind, FaultKind::KillGuard | FaultKind::KillGuardThenWrapper) {
            signal_all(guard.as_slice(), Signal::KILL);
        }
        thread::sleep(Duration::from_millis(fault.amount));
        if matches!(fault.kind, FaultKind::KillWrapper | FaultKind::KillGuardThenWrapper) {
            self.host_runs.kill(client)?;
        }
        Ok(true)
    }

    fn end(&mut self, fault: &Fault) -> Result<(), Failure> {
        if fault.target != Target::Holder {
            self.cluster.end(fault);
        }
        if let Some(index) = self.stopped_processes.iter().position(|(stopped_by, _)| stopped_by == fault) {
            signal_all(&self.stopped_processes.swap_remove(index).1, Signal::CONT);
        }
        Ok(())
    }

    /// Starts a run on every host without a run.
    fn tick(&mut self) -> Result<(), Failure> {
        let behaviour = self.behaviour;
        for run_result in self.host_runs.collect_ended()? {
            let rest = self.rng.u64(behaviour.rest_ms.0..=behaviour.rest_ms.1);
            self.next_starts[run_result.host] = Instant::now() + Duration::from_millis(rest);
        }
        let wait_flag = if behaviour.waits { "--wait=10m" } else { "--no-wait" };
        for host in 0..self.next_starts.len() {
            let is_idle = self.host_runs.runs().iter().all(|run| run.host != host);
            if is_idle && self.next_starts[host] <= Instant::now() {
                let busy = Duration::from_millis(self.rng.u64(behaviour.busy_ms.0..=behaviour.busy_ms.1));
                self.host_runs.start(host, &["run", NAMES[0], wait_flag], behaviour.waits, busy)?;
            }
        }
        Ok(())
    }
}

impl Hosts {
    /// Waits for a run that holds the lock, and that has a guard if the fault needs one. Returns the number of the run, its
    /// wrapper and its guard. `None` if there is no such run in time.
    fn wait_for_holder(&mut self, fault: &Fault) -> Result<Option<(u32, Pid, Option<Pid>)>, Failure> {
        let needs_guard = !matches!(fault.kind, FaultKind::StopWrapper | FaultKind::KillWrapper);
        let begun = Instant::now();
        while begun.elapsed() < HOLDER_TIMEOUT {
            if let Some(holder) = self.host_runs.holder() {
                let guard = holder.guard();
                if guard.is_some() || !needs_guard {
                    return Ok(Some((holder.client, holder.wrapper(), guard)));
                }
            }
            thread::sleep(POLL_INTERVAL);
            self.tick()?;
        }
        Ok(None)
    }

    /// Waits until all runs have ended. If runs do not wait for the lock, first starts runs until one gets the lock.
    fn finish(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let (begun, grants) = (Instant::now(), self.host_runs.grants());
        let may_continue = || begun.elapsed() < STARVED_AFTER && !interrupt.is_set();
        while !self.behaviour.waits && self.host_runs.grants() == grants && may_continue() {
            thread::sleep(POLL_INTERVAL);
            self.tick()?;
        }
        self.host_runs.finish(|elapsed| elapsed < STARVED_AFTER && !interrupt.is_set())?;
        Ok(())
    }
}

/// Sends a signal to all processes. Ignores processes that have ended.
fn signal_all(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill_process(*process, signal);
    }
}
