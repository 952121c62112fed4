//! Four clients want one lock, and say what they see of the queue.
//!
//! `cargo run --example waiting -- redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` waits on real servers: start it
//! twice, and the two wait for each other.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, MemoryNodes, Progress};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = MemoryNodes::new(3);
    let builder = || -> ClientBuilder {
        match std::env::args().nth(1) {
            Some(urls) => Client::builder().nodes(urls.split(',')),
            None => Client::builder().memory(&nodes),
        }
    };
    if std::env::args().nth(1).is_none() {
        // New nodes, and nobody else's: no lock can be outstanding.
        builder().init_cluster().await?;
    }

    let mut clients = JoinSet::new();
    for who in ["anna", "bert", "cleo", "dora"] {
        let client = builder().connect().await?;
        let lock = client.lock("kitchen").label(who).observe(move |progress| tell(who, progress));
        clients.spawn(async move {
            let lease = lock.acquire_within(Duration::from_secs(60)).await.map_err(|error| error.to_string())?;
            tokio::time::sleep(Duration::from_millis(200)).await;
            lease.release().await.map_err(|error| error.to_string())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(())
}

fn tell(who: &str, progress: &Progress) {
    match progress {
        Progress::Waiting(wait) => {
            let holder = wait.holder.as_ref().map_or("somebody", |holder| &holder.label);
            let place = wait.place.map_or_else(|| "no place".into(), |place| format!("place {place}"));
            println!("{who} waits for {holder}: {place} of {}", wait.waiting);
        }
        Progress::Granted { fence: Some(fence) } => println!("{who} has it, with fence {fence}"),
        other => println!("{who}: {other:?}"),
    }
}
