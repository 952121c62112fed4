//! Stops a job when its leader loses the leadership.
//!
//! Two instances of a service compete to be the leader. The first leader runs a job every 100 ms, until an operator
//! ends its leadership. The job then stops, and the second instance becomes the leader.
//!
//! Run `cargo run -p quorlock --example leader`. The example needs no server.

use std::time::Duration;

use quorlock::{Break, Client, Lease, MemoryNodes};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Both clients use the same node, like two hosts that connect to the same server.
    let nodes = MemoryNodes::new(1);
    let (first_client, second_client) = (connect(&nodes).await?, connect(&nodes).await?);
    let leadership = first_client.election("cleaner").label("first").acquire().await?;
    let next_leadership = tokio::spawn({
        let election = second_client.election("cleaner").label("second");
        async move { election.acquire().await }
    });

    // An operator ends the leadership, as `quorlock break` does. The break names the lease that was inspected, so it
    // cannot hit a later leader.
    let break_leadership = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let target = second_client.inspect("cleaner").await?.target().ok_or("there is no leader")?;
        second_client.break_lock("cleaner", Break::new(target, "the cleaner is too slow").now()).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let (lost, broken) = tokio::join!(run_job_while_leader("first", &leadership), break_leadership);
    broken?;
    println!("first has stopped: {lost}");

    let leadership = next_leadership.await??;
    println!("second leads, in term {}", leadership.fence()?);
    leadership.release().await?;
    Ok(())
}

async fn connect(nodes: &MemoryNodes) -> Result<Client, quorlock::ConnectError> {
    Client::builder().memory(nodes).connect().await
}

/// Runs the job every 100 ms until the leadership is lost. Returns why the leadership was lost.
async fn run_job_while_leader(instance: &str, leadership: &Lease) -> quorlock::LostError {
    let mut interval = tokio::time::interval(Duration::from_millis(100));
    let job = async {
        loop {
            interval.tick().await;
            println!("{instance} cleans up");
        }
    };
    // When `lost` resolves, `select!` drops the job, which stops it.
    tokio::select! {
        lost = leadership.lost() => lost,
        () = job => unreachable!("the job is an endless loop"),
    }
}
