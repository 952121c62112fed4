//! Limits the number of workers that work at the same time.
//!
//! Six workers share a semaphore with two permits, so at most two of them work at a time.
//!
//! Run `cargo run -p quorlock --example semaphore`. The example needs no server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::Client;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A node in the memory of this process. For locks between hosts, use `Client::connect(["redis://..", ..])`.
    let client = Client::memory().await;
    let (active, max_active) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for worker in 1..=6 {
        // Every user of the name must pass the same number of permits. Otherwise `acquire` fails.
        let semaphore = client.semaphore("workers", 2);
        let (active, max_active) = (Arc::clone(&active), Arc::clone(&max_active));
        workers.spawn(async move {
            let lease = semaphore.acquire().await.map_err(|error| error.to_string())?;
            max_active.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // The slot is the number of the permit, here 0 or 1. It can select one of several connections or ports.
            println!("worker {worker} has slot {}", lease.slot().unwrap_or_default());
            // In a real program, this is the work.
            tokio::time::sleep(Duration::from_millis(50)).await;
            active.fetch_sub(1, Ordering::SeqCst);
            lease.release().await.map_err(|error| error.to_string())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    println!("at most {} workers worked at the same time", max_active.load(Ordering::SeqCst));
    Ok(())
}
