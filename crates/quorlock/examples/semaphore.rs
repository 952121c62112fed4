//! Six workers, and never more than two of them at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::Client;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory().await;
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for worker in 1..=6 {
        let (permit, busy, most) = (client.semaphore("workers", 2), Arc::clone(&busy), Arc::clone(&most));
        workers.spawn(async move {
            let lease = permit.acquire().await.map_err(|error| error.to_string())?;
            most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            println!("worker {worker} has slot {}", lease.slot().unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(50)).await;
            busy.fetch_sub(1, Ordering::SeqCst);
            lease.release().await.map_err(|error| error.to_string())
        });
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    println!("at most {} worked at the same time", most.load(Ordering::SeqCst));
    Ok(())
}
