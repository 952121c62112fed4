//! Two workers process a list of jobs. Each job has its own lock, so the workers run different jobs at the same time,
//! and no job runs twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::Client;
use tokio::task::JoinSet;

type Jobs = Arc<Mutex<BTreeSet<u32>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory().await;
    // In a real program, this is a table in a database.
    let open: Jobs = Arc::new(Mutex::new((1..=6).collect()));
    let mut workers = JoinSet::new();
    for worker in ["anna", "bert"] {
        workers.spawn(work(client.clone(), worker, Arc::clone(&open)));
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    assert!(open.lock().expect("no worker panicked").is_empty());
    Ok(())
}

async fn work(client: Client, worker: &'static str, open: Jobs) -> Result<(), String> {
    loop {
        let jobs: Vec<u32> = open.lock().expect("no worker panicked").iter().copied().collect();
        if jobs.is_empty() {
            return Ok(());
        }
        for job in jobs {
            let lock = client.lock(format!("jobs/{job}")).label(worker);
            // Another worker has this job: take the next one.
            let Some(lease) = lock.try_acquire().await.map_err(|error| error.to_string())? else { continue };
            // The other worker may have finished the job after this worker has read the list.
            if open.lock().expect("no worker panicked").contains(&job) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                // Fails if the lease was lost. A store that checks fences would also refuse this write.
                let fence = lease.fence().map_err(|error| error.to_string())?;
                open.lock().expect("no worker panicked").remove(&job);
                println!("{worker} finished job {job}, with fence {fence}");
            }
            lease.release().await.map_err(|error| error.to_string())?;
        }
    }
}
