//! Every instance of a service wants to be the leader. The leader runs a job again and again; if it loses the leadership,
//! the job stops, and another instance goes on.

use std::time::Duration;

use quorlock::{Break, Client, Lease, MemoryNodes};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = MemoryNodes::new(1);
    let (first, second) = (instance(&nodes).await?, instance(&nodes).await?);
    let leadership = first.election("cleaner").label("first").acquire().await?;
    let waiting = tokio::spawn({
        let election = second.election("cleaner").label("second");
        async move { election.acquire().await }
    });

    // Somebody ends the leadership, as `quorlock break` does.
    let breaking = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let target = second.inspect("cleaner").await?.target().ok_or("nobody leads")?;
        second.break_lock("cleaner", Break::new(target, "it is too slow").now()).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let (ended, broken) = tokio::join!(lead("first", &leadership), breaking);
    broken?;
    println!("first has stopped: {ended}");

    let leadership = waiting.await??;
    println!("second leads, in term {}", leadership.fence()?);
    leadership.release().await?;
    Ok(())
}

async fn instance(nodes: &MemoryNodes) -> Result<Client, quorlock::ConnectError> {
    Client::builder().memory(nodes).connect().await
}

/// Runs the job every 100 ms until the leadership is lost.
async fn lead(name: &str, leadership: &Lease) -> quorlock::LostError {
    let mut interval = tokio::time::interval(Duration::from_millis(100));
    let job = async {
        loop {
            interval.tick().await;
            println!("{name} cleans up");
        }
    };
    tokio::select! {
        lost = leadership.lost() => lost,
        () = job => unreachable!("the job does not end by itself"),
    }
}
