//! A worker that makes only the system calls of flock(1). It is compared with the library on one SQLite file.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock as lock};

use super::{Task, run_turns};
use crate::case::Figures;
use crate::cycles::Cycles;
use crate::{Failure, Outcome};

/// Runs until stdin ends. Each cycle opens, locks and closes a file next to the SQLite file, as flock(1) does after its
/// start.
pub(crate) fn work(task: &Task) -> Outcome {
    let node = task.nodes.first().ok_or("no node")?;
    let file = format!("{}-flock", node.trim_start_matches("sqlite:"));
    run_turns(|length| flock_turn(&file, length))
}

fn flock_turn(path: &str, length: Duration) -> Result<Figures, Failure> {
    let begun = Instant::now();
    let mut cycles = Cycles::default();
    while begun.elapsed() < length {
        let started_at = Instant::now();
        let file = File::create(path)?;
        lock(&file, FlockOperation::LockExclusive)?;
        drop(file);
        cycles.record_success(started_at);
    }
    Ok(cycles.figures(begun.elapsed()))
}
