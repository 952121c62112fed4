//! Shows the progress of clients that wait for a lock.
//!
//! Four clients acquire the same lock. Each prints who holds the lock, and the client's own position in the queue.
//!
//! Run `cargo run -p quorlock --example waiting`. The example needs no server. To use real servers, pass their URLs,
//! and run the command in two terminals at once, so that the two programs wait for each other:
//! `cargo run -p quorlock --example waiting -- redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3`

use std::time::Duration;

use quorlock::{Client, ClientBuilder, MemoryNodes, Progress};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = MemoryNodes::new(3);
    let urls = std::env::args().nth(1);
    let builder = || -> ClientBuilder {
        match &urls {
            Some(urls) => Client::builder().nodes(urls.split(',')),
            None => Client::builder().memory(&nodes),
        }
    };
    if urls.is_none() {
        // New nodes do not vote until a quarantine has ended, because they might have lost their memory.
        // `init_cluster` states that these nodes have never had a lock, so that they vote at once. Never call it for
        // servers that are in use.
        builder().init_cluster().await?;
    }

    let mut clients = JoinSet::new();
    for label in ["anna", "bert", "cleo", "dora"] {
        let client = builder().connect().await?;
        // The function is called whenever the progress of an acquire of this lock changes.
        let lock = client.lock("kitchen").label(label).observe(move |progress| print_progress(label, progress));
        clients.spawn(async move {
            let lease = lock.acquire_within(Duration::from_secs(60)).await.map_err(|error| error.to_string())?;
            // In a real program, this is the work.
            tokio::time::sleep(Duration::from_millis(200)).await;
            lease.release().await.map_err(|error| error.to_string())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

fn print_progress(label: &str, progress: &Progress) {
    match progress {
        Progress::Waiting(wait) => {
            let holder = wait.holder.as_ref().map_or("an unknown holder", |holder| &holder.label);
            // A client has no position until a node has put it into its queue.
            let position = wait.position.map_or_else(|| "no position".into(), |place| format!("position {place}"));
            println!("{label} waits for {holder}: {position} of {}", wait.waiting);
        }
        Progress::Granted { fence: Some(fence) } => println!("{label} holds the lock, with fence {fence}"),
        other => println!("{label}: {other:?}"),
    }
}
