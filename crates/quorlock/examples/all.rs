//! Two transfers that want the same two accounts, in opposite order.

use std::time::Duration;

use quorlock::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory().await;
    let there = transfer(&client, "account/3", "account/7");
    let back = transfer(&client, "account/7", "account/3");
    tokio::try_join!(there, back)?;
    Ok(())
}

async fn transfer(client: &Client, from: &str, to: &str) -> Result<(), Box<dyn std::error::Error>> {
    // Sorted before they are taken: the two transfers wait for each other's end, not for each other.
    let leases = client.all([from, to]).acquire().await?;
    println!("from {from} (fence {}) to {to} (fence {})", leases.fence(from)?, leases.fence(to)?);
    tokio::time::sleep(Duration::from_millis(50)).await;
    leases.release().await?;
    Ok(())
}
