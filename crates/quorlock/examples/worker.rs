//! Processes a list of jobs with two workers.
//!
//! Each job has its own lock, so the workers run different jobs at the same time, and no job runs twice.
//!
//! Run `cargo run -p quorlock --example worker`. The example needs no server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::Client;
use tokio::task::JoinSet;

type Jobs = Arc<Mutex<BTreeSet<u32>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A node in the memory of this process. For locks between hosts, use `Client::connect(["redis://..", ..])`.
    let client = Client::memory().await;
    // In a real program, this is a table in a database.
    let open_jobs: Jobs = Arc::new(Mutex::new((1..=6).collect()));
    let mut workers = JoinSet::new();
    for worker in ["anna", "bert"] {
        workers.spawn(work(client.clone(), worker, Arc::clone(&open_jobs)));
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    assert!(open_jobs.lock().expect("no worker panicked").is_empty());
    Ok(())
}

async fn work(client: Client, worker: &'static str, open_jobs: Jobs) -> Result<(), String> {
    loop {
        let jobs: Vec<u32> = open_jobs.lock().expect("no worker panicked").iter().copied().collect();
        if jobs.is_empty() {
            return Ok(());
        }
        for job in jobs {
            let lock = client.lock(format!("jobs/{job}")).label(worker);
            // If another worker runs this job, continue with the next job instead of waiting.
            let Some(lease) = lock.try_acquire().await.map_err(|error| error.to_string())? else { continue };
            // Check again under the lock: the other worker may have finished the job since this worker read the list.
            if open_jobs.lock().expect("no worker panicked").contains(&job) {
                // In a real program, this is the work.
                tokio::time::sleep(Duration::from_millis(20)).await;
                // `fence` fails if the lease was lost. A table that checks fences would also reject a write that comes
                // too late; see the example `fence_sql`.
                let fence = lease.fence().map_err(|error| error.to_string())?;
                open_jobs.lock().expect("no worker panicked").remove(&job);
                println!("{worker} finished job {job}, with fence {fence}");
            }
            lease.release().await.map_err(|error| error.to_string())?;
        }
    }
}
