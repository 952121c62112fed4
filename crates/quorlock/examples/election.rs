//! Elects a leader among three candidates, while a follower watches.
//!
//! Each candidate leads for two seconds and then steps down, so that the next candidate becomes the leader.
//!
//! Run `cargo run -p quorlock --example election`. The example needs no server.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use quorlock::Client;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A node in the memory of this process. For locks between hosts, use `Client::connect(["redis://..", ..])`.
    let client = Client::memory().await;
    let mut candidates = JoinSet::new();
    for host in ["host-a", "host-b", "host-c"] {
        // The label tells followers which host leads.
        let election = client.election("scheduler").label(host);
        candidates.spawn(async move {
            // Waits until this candidate is the leader.
            let leadership = election.acquire().await.map_err(|error| error.to_string())?;
            // A leader must stop its work when `lost` resolves. Two seconds are long enough for the follower to see
            // each leader, because followers read the nodes about once a second.
            let lost = tokio::time::timeout(Duration::from_secs(2), leadership.lost()).await;
            println!("{host} {}", if lost.is_ok() { "has lost the leadership" } else { "steps down" });
            leadership.release().await.map_err(|error| error.to_string())
        });
    }

    // The follower: the stream starts with the current leader, and has an item for every change.
    let mut changes = pin!(client.election("scheduler").leader_changes());
    loop {
        tokio::select! {
            Some(change) = changes.next() => match change {
                Some(leader) => {
                    let label = leader.holder.map_or_else(|| "an unknown host".into(), |holder| holder.label);
                    println!("{label} leads, in term {}", leader.term);
                }
                None => println!("there is no leader"),
            },
            candidate = candidates.join_next() => match candidate {
                Some(result) => result??,
                None => return Ok(()),
            },
        }
    }
}
