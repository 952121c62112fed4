//! Episodes of ordinary operations: three nodes and the real `quorlock run`, or a sentinel and clients of the library.

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
use crate::episode::declare;
use crate::fleet::{Fleet, Programs};
use crate::history::{History, Record};
use crate::interrupt::Interrupt;
use crate::plan::{Act, Fault, Plan, Target};
use crate::register::Register;
use crate::schedule::{POLL_INTERVAL, Scene, carry_out};
use crate::series::Series;
use crate::task::{MAX_CLOCK_SKEW, MAX_CLOCK_STEP_BACK, NAMES, NODE_DEADLINE};

pub use sentinel::{HEARTBEAT, play as play_sentinel};

/// The ttl of every run, and the cluster's maximum ttl.
pub const TTL: Duration = Duration::from_secs(4);
const KILL_GRACE: Duration = Duration::from_millis(200);
const HOSTS: usize = 4;
/// How long a fault waits for a holder of the lock.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(20);
/// After the last fault, a run that waits longer than this is starved, and hosts without a grant are stuck.
const STARVED_AFTER: Duration = Duration::from_secs(30);

/// Carries out the plan of a series other than [`Series::Sentinel`]. Returns the history, which is also in the file.
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
    declare(&cluster, TTL, TTL)?;
    let register = Register::start(Arc::clone(&history))?;
    let addr = register.addr().to_string();
    let fleet = Fleet::new(programs.clone(), Arc::clone(&history), addr, settings(&cluster.addrs()))?;
    let mut hosts = Hosts {
        cluster,
        fleet,
        habit: Habit::of(series),
        next: vec![Instant::now(); HOSTS],
        rng: Rng::with_seed(plan.seed),
        stopped: Vec::new(),
    };
    carry_out(plan, &mut hosts, &history, interrupt)?;
    history.note(Record::Healed { at: clock::now() });
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
struct Habit {
    /// Whether a run waits for the lock; otherwise it exits if the lock is held.
    waits: bool,
    /// The duration of a command, in milliseconds.
    busy_ms: (u64, u64),
    /// The pause between two runs on a host, in milliseconds.
    rest_ms: (u64, u64),
}

impl Habit {
    fn of(series: Series) -> Self {
        match series {
            Series::Restarts => Self { waits: false, busy_ms: (20, 200), rest_ms: (200, 800) },
            // Longer than a ttl, so that the judge notices a command that outlives its lease.
            Series::Processes => Self { waits: true, busy_ms: (3_000, 12_000), rest_ms: (0, 200) },
            Series::Stopped => Self { waits: true, busy_ms: (12_000, 14_000), rest_ms: (0, 200) },
            _ => Self { waits: true, busy_ms: (100, 4_000), rest_ms: (0, 200) },
        }
    }
}

struct Hosts {
    cluster: Cluster,
    fleet: Fleet,
    habit: Habit,
    /// When each host without a run starts its next run.
    next: Vec<Instant>,
    rng: Rng,
    /// The processes that each fault has stopped.
    stopped: Vec<(Fault, Vec<Pid>)>,
}

impl Scene for Hosts {
    fn begin(&mut self, fault: &Fault) -> Result<bool, Failure> {
        if fault.target != Target::Holder {
            self.cluster.begin(fault);
            return Ok(true);
        }
        let Some((client, wrapper, guard)) = self.target(fault)? else { return Ok(false) };
        let stop: &[Pid] = match fault.act {
            Act::StopWrapper => &[wrapper],
            Act::StopGuard => guard.as_slice(),
            Act::StopBoth => &[wrapper].into_iter().chain(guard).collect::<Vec<_>>(),
            _ => &[],
        };
        signal_all(stop, Signal::STOP);
        self.stopped.push((*fault, stop.into()));
        if matches!(fault.act, Act::KillGuard | Act::KillGuardThenWrapper) {
            signal_all(guard.as_slice(), Signal::KILL);
        }
        thread::sleep(Duration::from_millis(fault.amount));
        if matches!(fault.act, Act::KillWrapper | Act::KillGuardThenWrapper) {
            self.fleet.kill(client)?;
        }
        Ok(true)
    }

    fn end(&mut self, fault: &Fault) -> Result<(), Failure> {
        if fault.target != Target::Holder {
            self.cluster.end(fault);
        }
        if let Some(place) = self.stopped.iter().position(|(other, _)| other == fault) {
            signal_all(&self.stopped.swap_remove(place).1, Signal::CONT);
        }
        Ok(())
    }

    /// Starts a run on every host without a run.
    fn tick(&mut self) -> Result<(), Failure> {
        let habit = self.habit;
        for end in self.fleet.reap()? {
            let rest = self.rng.u64(habit.rest_ms.0..=habit.rest_ms.1);
            self.next[end.host] = Instant::now() + Duration::from_millis(rest);
        }
        let way = if habit.waits { "--wait=10m" } else { "--no-wait" };
        for host in 0..self.next.len() {
            let is_idle = self.fleet.runs().iter().all(|run| run.host != host);
            if is_idle && self.next[host] <= Instant::now() {
                let busy = Duration::from_millis(self.rng.u64(habit.busy_ms.0..=habit.busy_ms.1));
                self.fleet.start(host, &["run", NAMES[0], way], habit.waits, busy)?;
            }
        }
        Ok(())
    }
}

impl Hosts {
    /// Waits for a run that holds the lock, with a guard if the fault needs one.
    fn target(&mut self, fault: &Fault) -> Result<Option<(u32, Pid, Option<Pid>)>, Failure> {
        let needs_guard = !matches!(fault.act, Act::StopWrapper | Act::KillWrapper);
        let begun = Instant::now();
        while begun.elapsed() < HOLDER_TIMEOUT {
            if let Some(holder) = self.fleet.holder() {
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

    /// Starts short runs until one is granted the lock; then waits for all runs to end.
    fn finish(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let (begun, grants) = (Instant::now(), self.fleet.grants());
        let is_time = || begun.elapsed() < STARVED_AFTER && !interrupt.is_set();
        while !self.habit.waits && self.fleet.grants() == grants && is_time() {
            thread::sleep(POLL_INTERVAL);
            self.tick()?;
        }
        self.fleet.finish(|calm| calm < STARVED_AFTER && !interrupt.is_set())?;
        Ok(())
    }
}

/// Sends a signal to all processes. Ignores processes that have ended.
fn signal_all(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill_process(*process, signal);
    }
}
