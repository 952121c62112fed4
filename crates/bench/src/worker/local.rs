//! What one machine, or one process, has by itself: the floors of SQLite and memory.

use std::fs::File;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock as lock};
use tokio::sync::Mutex;

use super::{Task, serve};
use crate::case::Figures;
use crate::cycles::Cycles;
use crate::{Failure, Outcome};

/// tokio's own, in one task.
pub(crate) fn mutex() -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    serve(|length| {
        runtime.block_on(runtime.spawn(async move {
            let (mutex, begun) = (Mutex::new(()), Instant::now());
            let mut cycles = Cycles::default();
            while begun.elapsed() < length {
                let asked = Instant::now();
                drop(black_box(mutex.lock().await));
                cycles.ended(asked);
            }
            Ok(cycles.figures(begun.elapsed()))
        }))?
    })
}

/// What flock(1) does once it runs: opens the file, locks it, and closes it. The file is in the folder of the node.
pub(crate) fn flock(task: &Task) -> Outcome {
    let node = task.nodes.first().ok_or("no node")?;
    let file = format!("{}-flock", node.trim_start_matches("sqlite:"));
    serve(|length| flock_turn(&file, length))
}

fn flock_turn(path: &str, length: Duration) -> Result<Figures, Failure> {
    let begun = Instant::now();
    let mut cycles = Cycles::default();
    while begun.elapsed() < length {
        let asked = Instant::now();
        let file = File::create(path)?;
        lock(&file, FlockOperation::LockExclusive)?;
        drop(file);
        cycles.ended(asked);
    }
    Ok(cycles.figures(begun.elapsed()))
}
