//! Two workers share a list of jobs. Each job has its own lock, so both can work at once, and no job runs twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::Client;
use tokio::task::JoinSet;

type Jobs = Arc<Mutex<BTreeSet<u32>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory().await;
    // Stands for a table in a database.
    let open: Jobs = Arc::new(Mutex::new((1..=6).collect()));
    let mut workers = JoinSet::new();
    for worker in ["anna", "bert"] {
        workers.spawn(work(client.clone(), worker, Arc::clone(&open)));
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    assert!(open.lock().unwrap().is_empty());
    Ok(())
}

async fn work(client: Client, worker: &'static str, open: Jobs) -> Result<(), String> {
    loop {
        let jobs: Vec<u32> = open.lock().unwrap().iter().copied().collect();
        if jobs.is_empty() {
            return Ok(());
        }
        for job in jobs {
            let lock = client.lock(format!("jobs/{job}")).label(worker);
            // Another worker has this job: take the next one.
            let Some(lease) = lock.try_acquire().await.map_err(|error| error.to_string())? else { continue };
            // The other worker may have finished the job between our look at the list and the lock.
            if open.lock().unwrap().contains(&job) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                // Fails if the lease was lost. A store that checks fences would also refuse this write.
                let fence = lease.fence().map_err(|error| error.to_string())?;
                open.lock().unwrap().remove(&job);
                println!("{worker} has done job {job}, with fence {fence}");
            }
            lease.release().await.map_err(|error| error.to_string())?;
        }
    }
}
