//! Nodes that need no server: memory in one process, and SQLite on one machine.

use super::Planned;
use crate::Failure;
use crate::case::{Bar, Case, Limit, P50, RATE};
use crate::options::Options;
use crate::worker::crew::Crew;
use crate::worker::{Task, Worker};

const TTL_MS: u64 = 30_000;
const CALLERS: usize = 64;
const PROCESSES: usize = 8;
const OURS: &str = "ours";
const OURS_FENCED: &str = "ours, fenced";
const MANY_CALLERS: &str = "ours, 1 process, 64 callers";

pub(crate) fn planned() -> Vec<Planned> {
    vec![Planned::new("memory", memory), Planned::new("sqlite", sqlite)]
}

fn task(nodes: Vec<String>, callers: usize, plain: bool) -> Task {
    Task { nodes, callers, first: 0, ttl_ms: TTL_MS, plain, ..Task::default() }
}

fn memory(options: &Options) -> Result<Case, Failure> {
    let mut case = Case::new("memory", "A memory node: 1 caller in the same process", P50);
    let worker = |kind, plain| Worker::of_this_program(kind, &task(Vec::new(), 1, plain), options.length);
    case.add("tokio's Mutex", worker("mutex", true)?);
    case.add(OURS, worker("own", true)?);
    case.add(OURS_FENCED, worker("own", false)?);
    case.bars.push(Bar::figure(OURS, P50, Limit::AtMost(2.0)));
    case.bars.push(Bar::figure(OURS_FENCED, P50, Limit::AtMost(2.0)));
    Ok(case)
}

fn sqlite(options: &Options) -> Result<Case, Failure> {
    std::fs::create_dir_all(&options.folder)?;
    let folder = tempfile::tempdir_in(&options.folder)?;
    let node = vec![format!("sqlite:{}", folder.path().join("locks.db").display())];
    let mut case = Case::new("sqlite", "One SQLite file: acquire and release, with fences", RATE);
    case.about = "flock is its system calls, without a start of flock(1).".into();
    let start = |kind, task: &Task| Worker::of_this_program(kind, task, options.length);
    case.add("flock, 1 caller", start("flock", &task(node.clone(), 1, true))?);
    case.add("ours, 1 process, 1 caller", start("own", &task(node.clone(), 1, false))?);
    case.add(MANY_CALLERS, start("own", &task(node.clone(), CALLERS, false))?);
    let each = CALLERS / PROCESSES;
    let crew = (0..PROCESSES).map(|at| start("own", &Task { first: at * each, ..task(node.clone(), each, false) }));
    case.add("ours, 8 processes, 64 callers", Crew(crew.collect::<Result<_, _>>()?));
    case.bars.push(Bar::figure(MANY_CALLERS, RATE, Limit::AtLeast(20_000.0)));
    case.keep(folder);
    Ok(case)
}
