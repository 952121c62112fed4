//! One episode: starts servers and clients, injects the plan's faults, ends all faults, and lets every client finish.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorlock::Client;
use rustix::process::Signal;

use crate::Failure;
use crate::clock;
use crate::cluster::Cluster;
use crate::history::{History, Record};
use crate::inject::{FaultTargets, inject_faults};
use crate::interrupt::Interrupt;
use crate::plan::{CLIENTS, Fault, FaultKind, NETWORKS, Plan, QUARANTINE, Target};
use crate::processes::Processes;
use crate::register::RegisterServer;
use crate::subject::Program;
use crate::task::{MAX_CLOCK_SKEW, MAX_CLOCK_STEP_BACK, MAX_TTL, NODE_DEADLINE, TTL};

/// A client that waits for longer than this after the end of all faults is starved.
const STARVED_AFTER: Duration = Duration::from_secs(30);
/// The time from the end of all faults until no lease is valid any more. Only then may an operator initialize a cluster
/// again that has lost its memory.
const INIT_AFTER: Duration = QUARANTINE.saturating_add(Duration::from_secs(2));

/// Runs an episode with this plan. Returns the history, and writes it to the file.
///
/// # Errors
/// When a process cannot be started, or the file cannot be written.
///
/// # Panics
/// When a server cannot be restarted or refuses a command.
pub fn run_episode(plan: &Plan, program: &Program, path: &Path, interrupt: &Interrupt) -> Result<Vec<Record>, Failure> {
    let history = Arc::new(History::create(path)?);
    let cluster = Cluster::start(plan);
    let needs_init = program.subject.needs_init();
    if needs_init {
        init_cluster(&cluster, TTL, MAX_TTL)?;
    }
    let register = RegisterServer::start(Arc::clone(&history))?;
    let networks: [Vec<String>; NETWORKS] = std::array::from_fn(|network| cluster.urls(network));
    let processes =
        Processes::new(program.clone(), Arc::clone(&history), networks, register.addr().to_string(), plan.seed);
    let mut participants = Participants { cluster, processes, history: &history, interrupt };
    participants.processes.start_all(CLIENTS)?;
    inject_faults(plan, &mut participants, &history, interrupt)?;
    history.record(Record::FaultsEnded { at: clock::now() });
    participants.finish(needs_init)?;
    drop(participants);
    Ok(history.finish()?)
}

struct Participants<'a> {
    cluster: Cluster,
    processes: Processes,
    history: &'a History,
    interrupt: &'a Interrupt,
}

impl FaultTargets for Participants<'_> {
    fn begin(&mut self, fault: &Fault) -> Result<bool, Failure> {
        match (fault.target, fault.kind) {
            (Target::Client(index), FaultKind::KillClient) => self.processes.kill(index)?,
            (Target::Client(index), _) => self.processes.signal(index, Signal::STOP),
            _ => self.cluster.begin(fault),
        }
        Ok(true)
    }

    fn end(&mut self, fault: &Fault) -> Result<(), Failure> {
        match (fault.target, fault.kind) {
            (Target::Client(index), FaultKind::KillClient) => self.processes.start(index)?,
            (Target::Client(index), _) => self.processes.signal(index, Signal::CONT),
            _ => self.cluster.end(fault),
        }
        Ok(())
    }
}

impl Participants<'_> {
    /// Lets every client finish. If a majority of the nodes has lost its memory, initializes the cluster again, as an
    /// operator would.
    fn finish(&mut self, needs_init: bool) -> Result<(), Failure> {
        let Self { cluster, processes, history, interrupt } = self;
        let (mut may_need_init, mut init_error) = (needs_init, None);
        processes.finish(|elapsed| {
            if elapsed > INIT_AFTER && may_need_init {
                may_need_init = false;
                if cluster.has_forgotten_cluster() {
                    init_error = init_cluster(cluster, TTL, MAX_TTL).err();
                    history.record(Record::InitializedAgain { at: clock::now() });
                }
            }
            elapsed < STARVED_AFTER && !interrupt.is_set()
        })?;
        init_error.map_or(Ok(()), Err)
    }
}

/// Initializes the cluster, like an operator who knows that no lease is valid.
pub(crate) fn init_cluster(cluster: &Cluster, ttl: Duration, max_ttl: Duration) -> Result<(), Failure> {
    let urls = cluster.addrs().into_iter().map(|addr| format!("redis://{addr}"));
    let builder = Client::builder()
        .nodes(urls)
        .ttl(ttl)
        .max_ttl(max_ttl)
        .max_clock_skew(MAX_CLOCK_SKEW)
        .max_clock_step_back(MAX_CLOCK_STEP_BACK);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { builder.node_deadline(NODE_DEADLINE).init_cluster().await.map(drop) })?;
    Ok(())
}
