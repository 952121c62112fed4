//! Other libraries, as workers of the benchmark: `bench-peers rslock TASK`. A worker prints a line when it is ready.
//! Each line on its stdin is the length of a turn in milliseconds. For each line, the worker runs cycles for this time and
//! prints one line of figures.

#[cfg(feature = "etcd")]
mod etcd;

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rslock::LockManager;
use serde::Deserialize;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Deserialize)]
struct Task {
    nodes: Vec<String>,
    callers: usize,
    ttl_ms: u64,
    one_thread: bool,
}

/// A lock library.
trait Library: Sized + Send + Sync + 'static {
    fn connect(task: &Task) -> impl Future<Output = Result<Self, Failure>> + Send;
    /// One acquire and one release.
    fn cycle(&self, name: &str, ttl: Duration) -> impl Future<Output = Result<(), Failure>> + Send;
}

struct Rslock(LockManager);

impl Library for Rslock {
    async fn connect(task: &Task) -> Result<Self, Failure> {
        Ok(Self(LockManager::new(task.nodes.clone())))
    }

    async fn cycle(&self, name: &str, ttl: Duration) -> Result<(), Failure> {
        let lock = self.0.lock(name.as_bytes(), ttl).await?;
        self.0.unlock(&lock).await;
        Ok(())
    }
}

/// Runs cycles for `length`. Returns the time of each cycle in microseconds, the number of failed cycles, and the
/// elapsed time.
async fn run_turn<L: Library>(library: &Arc<L>, task: &Task, length: Duration) -> (Vec<f64>, usize, Duration) {
    let begun = Instant::now();
    let ttl = Duration::from_millis(task.ttl_ms);
    let mut callers = JoinSet::new();
    for caller in 0..task.callers {
        let (library, name) = (Arc::clone(library), format!("peer/{caller:06}"));
        callers.spawn(async move {
            let (mut micros, mut failures) = (Vec::new(), 0);
            while begun.elapsed() < length {
                let started_at = Instant::now();
                match library.cycle(&name, ttl).await {
                    Ok(()) => micros.push(started_at.elapsed().as_secs_f64() * 1e6),
                    Err(_) => failures += 1,
                }
            }
            (micros, failures)
        });
    }
    let (mut micros, mut failures) = (Vec::new(), 0);
    for (mut of_caller, failed) in callers.join_all().await {
        micros.append(&mut of_caller);
        failures += failed;
    }
    micros.sort_by(f64::total_cmp);
    (micros, failures, begun.elapsed())
}

fn run_worker<L: Library>(task: &Task) -> Result<(), Failure> {
    let threads = if task.one_thread { 1 } else { 2 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let library = Arc::new(runtime.block_on(L::connect(task))?);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let length = Duration::from_millis(line?.trim().parse()?);
        let (micros, failures, elapsed) = runtime.block_on(run_turn(&library, task, length));
        let mut figures = serde_json::Map::new();
        figures.insert("cycles_per_second".into(), (micros.len() as f64 / elapsed.as_secs_f64()).into());
        if let Some(last) = micros.len().checked_sub(1) {
            for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99)] {
                figures.insert(name.into(), micros[(last as f64 * share).round() as usize].into());
            }
        }
        if failures > 0 {
            figures.insert("failures".into(), failures.into());
        }
        println!("{}", serde_json::Value::Object(figures));
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let [peer, task] = <[String; 2]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
        .map_err(|_| "usage: bench-peers PEER TASK")?;
    let task: Task = serde_json::from_str(&task)?;
    match peer.as_str() {
        "rslock" => run_worker::<Rslock>(&task),
        #[cfg(feature = "etcd")]
        "etcd" => run_worker::<etcd::Etcd>(&task),
        other => Err(format!("{other} was not built").into()),
    }
}
