//! Our own library, as a worker: so many callers, each with a name of its own.

use std::time::{Duration, Instant};

use quorlock::Client;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Task, serve};
use crate::case::Figures;
use crate::cycles::Cycles;
use crate::{Failure, Outcome};

/// Works until there is no more to do. Without nodes, it is a memory node of its own.
pub(crate) fn work(task: &Task, runtime: &Runtime) -> Outcome {
    let client = runtime.block_on(client(task))?;
    serve(|length| runtime.block_on(turn(&client, task, length)))
}

pub(crate) async fn client(task: &Task) -> Result<Client, Failure> {
    if task.nodes.is_empty() {
        return Ok(Client::memory().await);
    }
    Ok(Client::builder().nodes(&task.nodes).ttl(Duration::from_millis(task.ttl_ms)).connect().await?)
}

async fn turn(client: &Client, task: &Task, length: Duration) -> Result<Figures, Failure> {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in task.first..task.first + task.callers {
        let (client, name, plain) = (client.clone(), format!("cycle/{caller:06}"), task.plain);
        callers.spawn(async move {
            let mut cycles = Cycles::default();
            while begun.elapsed() < length {
                let asked = Instant::now();
                match cycle(&client, &name, plain).await {
                    Ok(()) => cycles.ended(asked),
                    Err(_) => cycles.failed(),
                }
            }
            cycles
        });
    }
    let mut cycles = Cycles::default();
    while let Some(done) = callers.join_next().await {
        cycles.append(done?);
    }
    Ok(cycles.figures(begun.elapsed()))
}

/// One acquire and one release, as a user would write them.
pub(crate) async fn cycle(client: &Client, name: &str, plain: bool) -> Outcome {
    let lock = client.lock(name);
    let lock = if plain { lock.plain() } else { lock };
    lock.acquire().await?.release().await?;
    Ok(())
}
