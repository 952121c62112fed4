//! Shares a lock between readers, and gives a writer exclusive access.
//!
//! Two readers hold the lock at the same time. A writer waits for both of them. A reader that arrives after the waiting
//! writer does not overtake the writer.
//!
//! Run `cargo run -p quorlock --example rw`. The example needs no server.

use std::time::Duration;

use quorlock::{AcquireError, Client};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A node in the memory of this process. For locks between hosts, use `Client::connect(["redis://..", ..])`.
    let client = Client::memory().await;
    let prices = client.rw("prices");
    let first_reader = prices.read().acquire().await?;
    let second_reader = client.rw("prices").read().acquire().await?;
    println!("two readers hold the lock, with fences {} and {}", first_reader.fence()?, second_reader.fence()?);

    // Two readers that waited to become writers would wait for each other forever. The upgrade fails at once instead.
    match prices.write().acquire().await {
        Err(AcquireError::UpgradeUnsupported { .. }) => {
            println!("a reader cannot become a writer: it must release its read lease first");
        }
        other => println!("unexpected: {other:?}"),
    }

    // Every call of `rw` makes a new owner, so this writer is not one of the readers.
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
    // If later readers could enter, the writer might wait forever.
    let late_reader = client.rw("prices").read().try_acquire().await?;
    println!("a reader that arrives after the waiting writer gets the lock: {}", late_reader.is_some());

    // Dropping a lease releases it. Use `release` to wait for the result.
    drop((first_reader, second_reader));
    writing.await?.map_err(|error| error.to_string())?;
    let next_reader = client.rw("prices").read().try_acquire().await?;
    println!("after the writer has released, a reader gets the lock: {}", next_reader.is_some());
    Ok(())
}
