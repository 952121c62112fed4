//! A worker that uses our library. Each caller locks its own name.

use std::time::{Duration, Instant};

use quorlock::Client;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Task, run_turns};
use crate::case::Figures;
use crate::cycles::Cycles;
use crate::{Failure, Outcome};

/// How a cycle uses a lock.
#[derive(Clone, Copy)]
enum Usage {
    /// Acquire a lease and release it, as users do.
    Guarded { plain: bool },
    /// Acquire a lease with this ttl, detach it and release it, as the service does.
    Detached(Duration),
}

/// Runs until stdin ends.
pub(crate) fn work(task: &Task, runtime: &Runtime) -> Outcome {
    let client = runtime.block_on(connect(task))?;
    let usage = Usage::Guarded { plain: task.plain };
    run_turns(|length| runtime.block_on(turn(&client, task, usage, length)))
}

/// Like [`work`], with detached leases.
pub(crate) fn work_detached(task: &Task, runtime: &Runtime) -> Outcome {
    let client = runtime.block_on(connect_as_service(task))?;
    let usage = Usage::Detached(Duration::from_millis(task.ttl_ms));
    run_turns(|length| runtime.block_on(turn(&client, task, usage, length)))
}

pub(crate) async fn connect(task: &Task) -> Result<Client, Failure> {
    Ok(Client::builder().nodes(&task.nodes).ttl(Duration::from_millis(task.ttl_ms)).connect().await?)
}

/// A client with the settings of `quorlock serve`.
async fn connect_as_service(task: &Task) -> Result<Client, Failure> {
    Ok(Client::builder().nodes(&task.nodes).leases_outlive_process().history(true).connect().await?)
}

async fn turn(client: &Client, task: &Task, usage: Usage, length: Duration) -> Result<Figures, Failure> {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in task.first_caller..task.first_caller + task.callers {
        let (client, name) = (client.clone(), format!("cycle/{caller:06}"));
        callers.spawn(async move {
            let mut cycles = Cycles::default();
            while begun.elapsed() < length {
                let started_at = Instant::now();
                let result = match usage {
                    Usage::Guarded { plain } => cycle(&client, &name, plain).await,
                    Usage::Detached(ttl) => detached_cycle(&client, &name, ttl).await,
                };
                match result {
                    Ok(()) => cycles.record_success(started_at),
                    Err(_) => cycles.record_failure(),
                }
            }
            cycles
        });
    }
    let mut cycles = Cycles::default();
    while let Some(of_caller) = callers.join_next().await {
        cycles.append(of_caller?);
    }
    Ok(cycles.figures(begun.elapsed()))
}

/// One acquire and one release, as users write them.
pub(crate) async fn cycle(client: &Client, name: &str, plain: bool) -> Outcome {
    let lock = client.lock(name);
    let lock = if plain { lock.plain() } else { lock };
    lock.acquire().await?.release().await?;
    Ok(())
}

/// One acquire and one release, with a detached lease.
async fn detached_cycle(client: &Client, name: &str, ttl: Duration) -> Outcome {
    let lease = client.lock(name).ttl(ttl).acquire_within(Duration::ZERO).await?.detach()?;
    client.release(&lease).await?;
    Ok(())
}
