//! A test that your code stops when it loses its lock. The nodes are in memory, and the test makes them fail.

use std::time::Duration;

use quorlock::{Client, Lease, LostError, MemoryNodes};

/// The code under test: it works until it is done or the lease is lost.
async fn import(lease: &Lease, rows: u32) -> Result<u32, LostError> {
    for row in 0..rows {
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
    Client::builder().memory(&nodes).init_cluster().await?;
    let client = Client::builder().memory(&nodes).connect().await?;
    let lease = client.lock("import").ttl(Duration::from_secs(1)).acquire().await?;
    assert_eq!(import(&lease, 3).await, Ok(3));

    // Without a majority the lease cannot be renewed.
    nodes.down(0);
    nodes.down(1);
    let stopped = import(&lease, u32::MAX).await;
    println!("stopped: {stopped:?}");
    assert!(stopped.is_err());
    Ok(())
}
