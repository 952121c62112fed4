//! Tests that code stops when its lease is lost.
//!
//! The test makes two of three nodes in memory unreachable. Without a majority of the nodes, the lease cannot be
//! renewed.
//!
//! Run `cargo run -p quorlock --example lost_lease`. The example needs no server.

use std::time::Duration;

use quorlock::{Client, Lease, LostError, MemoryNodes};

/// The code under test: imports rows, one after the other, while the lease is valid.
async fn import(lease: &Lease, rows: u32) -> Result<u32, LostError> {
    for row in 0..rows {
        // Fails if the lease is lost, or has less than 50 ms left for the next write.
        lease.ensure(Duration::from_millis(50))?;
        // In a real program, this is a write that the lock protects.
        tokio::time::sleep(Duration::from_millis(10)).await;
        println!("row {row}");
    }
    Ok(rows)
}

// In your project, this is a `#[tokio::test]`.
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = MemoryNodes::new(3);
    // New nodes do not vote until a quarantine has ended, because they might have lost their memory. `init_cluster`
    // states that these nodes have never had a lock, so that they vote at once.
    Client::builder().memory(&nodes).init_cluster().await?;
    let client = Client::builder().memory(&nodes).connect().await?;
    // A short ttl, so that the test does not have to wait long for the lease to end.
    let lease = client.lock("import").ttl(Duration::from_secs(1)).acquire().await?;
    assert_eq!(import(&lease, 3).await, Ok(3));

    nodes.down(0);
    nodes.down(1);
    let result = import(&lease, u32::MAX).await;
    println!("the import stopped: {result:?}");
    assert!(result.is_err());
    Ok(())
}
