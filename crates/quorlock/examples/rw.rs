//! Readers side by side, a writer alone, and a reader that comes after a waiting writer.

use std::time::Duration;

use quorlock::{AcquireError, Client};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory().await;
    let prices = client.rw("prices");
    let readers = (prices.read().acquire().await?, client.rw("prices").read().acquire().await?);
    println!("two read, with fences {} and {}", readers.0.fence()?, readers.1.fence()?);

    match prices.write().acquire().await {
        Err(AcquireError::Upgrade { .. }) => println!("one of them wants to write: told to stop reading first"),
        other => println!("unexpected: {other:?}"),
    }

    let writer = client.rw("prices");
    let writing = tokio::spawn(async move {
        let lease = writer.write().acquire().await?;
        println!("the writer is alone, with fence {}", lease.fence()?);
        lease.release().await?;
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    });
    while client.inspect("prices").await?.waiting() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let late = client.rw("prices").read().try_acquire().await?;
    println!("a reader that comes after the waiting writer gets in: {}", late.is_some());

    drop(readers);
    writing.await?.map_err(|error| error.to_string())?;
    println!("and now: {}", client.rw("prices").read().try_acquire().await?.is_some());
    Ok(())
}
