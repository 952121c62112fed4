//! Three candidates lead one after the other, and a follower watches.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use quorlock::Client;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory().await;
    let mut candidates = JoinSet::new();
    for host in ["host-a", "host-b", "host-c"] {
        let election = client.election("scheduler").label(host);
        candidates.spawn(async move {
            let leadership = election.acquire().await.map_err(|error| error.to_string())?;
            // Long enough for followers, who look about once a second.
            let fired = tokio::time::timeout(Duration::from_secs(2), leadership.lost()).await;
            println!("{host} {}", if fired.is_ok() { "is leader no more" } else { "steps down" });
            leadership.release().await.map_err(|error| error.to_string())
        });
    }

    let mut changes = pin!(client.election("scheduler").leader_changes());
    loop {
        tokio::select! {
            Some(change) = changes.next() => match change {
                Some(leader) => {
                    let label = leader.holder.map_or_else(|| "somebody".into(), |holder| holder.label);
                    println!("{label} leads, in term {}", leader.term);
                }
                None => println!("nobody leads"),
            },
            done = candidates.join_next() => match done {
                Some(done) => done??,
                None => return Ok(()),
            },
        }
    }
}
