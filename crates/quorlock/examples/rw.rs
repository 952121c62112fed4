//! Two readers at the same time, then a single writer, and a reader that arrives after a waiting writer.

use std::time::Duration;

use quorlock::{AcquireError, Client};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory().await;
    let prices = client.rw("prices");
    let readers = (prices.read().acquire().await?, client.rw("prices").read().acquire().await?);
    println!("two readers hold the lock, with fences {} and {}", readers.0.fence()?, readers.1.fence()?);

    match prices.write().acquire().await {
        Err(AcquireError::UpgradeUnsupported { .. }) => {
            println!("a reader cannot become a writer: it must release its read lease first");
        }
        other => println!("unexpected: {other:?}"),
    }

    let writer = client.rw("prices");
    let writing = tokio::spawn(async move {
        let lease = writer.write().acquire().await?;
        println!("the writer holds the lock, with fence {}", lease.fence()?);
        lease.release().await?;
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    });
    while client.inspect("prices").await?.waiting() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let late = client.rw("prices").read().try_acquire().await?;
    println!("a reader that arrives after the waiting writer gets the lock: {}", late.is_some());

    drop(readers);
    writing.await?.map_err(|error| error.to_string())?;
    println!(
        "after the writer has released, a reader gets the lock: {}",
        client.rw("prices").read().try_acquire().await?.is_some()
    );
    Ok(())
}
