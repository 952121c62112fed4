//! One SQLite file on one machine.

use super::PlannedCase;
use crate::Failure;
use crate::case::{Bar, Case, Limit, RATE};
use crate::options::Options;
use crate::worker::parallel_workers::ParallelWorkers;
use crate::worker::{Task, Worker};

const TTL_MS: u64 = 30_000;
const CALLERS: usize = 64;
const PROCESSES: usize = 8;
const MANY_CALLERS: &str = "ours, 1 process, 64 callers";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![PlannedCase::new("sqlite", set_up)]
}

fn task(nodes: Vec<String>, callers: usize, plain: bool) -> Task {
    Task { nodes, callers, first_caller: 0, ttl_ms: TTL_MS, plain, ..Task::default() }
}

fn set_up(options: &Options) -> Result<Case, Failure> {
    std::fs::create_dir_all(&options.folder)?;
    let folder = tempfile::tempdir_in(&options.folder)?;
    let node = vec![format!("sqlite:{}", folder.path().join("locks.db").display())];
    let mut case = Case::new("sqlite", "One SQLite file: acquire and release, with fences", RATE);
    case.about = "The row *flock* measures only the system calls of flock(1), without the start of a process.".into();
    let start = |kind, task: &Task| Worker::of_this_program(kind, task, options.turn_length);
    case.add("flock, 1 caller", start("flock", &task(node.clone(), 1, true))?);
    case.add("ours, 1 process, 1 caller", start("own", &task(node.clone(), 1, false))?);
    case.add(MANY_CALLERS, start("own", &task(node.clone(), CALLERS, false))?);
    let callers_per_process = CALLERS / PROCESSES;
    let workers = (0..PROCESSES).map(|process| {
        let first_caller = process * callers_per_process;
        start("own", &Task { first_caller, ..task(node.clone(), callers_per_process, false) })
    });
    case.add("ours, 8 processes, 64 callers", ParallelWorkers(workers.collect::<Result<_, _>>()?));
    case.bars.push(Bar::figure(MANY_CALLERS, RATE, Limit::AtLeast(20_000.0)));
    case.keep_alive(folder);
    Ok(case)
}
