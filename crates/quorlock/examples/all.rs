//! Locks several names at once, without a deadlock.
//!
//! Two transfers run at the same time. Both need account 3 and account 7, and they name the accounts in opposite order.
//!
//! Run `cargo run -p quorlock --example all`. The example needs no server.

use std::time::Duration;

use quorlock::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A node in the memory of this process. For locks between hosts, use `Client::connect(["redis://..", ..])`.
    let client = Client::memory().await;
    let payment = transfer(&client, "account/3", "account/7");
    let refund = transfer(&client, "account/7", "account/3");
    tokio::try_join!(payment, refund)?;
    Ok(())
}

async fn transfer(client: &Client, from: &str, to: &str) -> Result<(), Box<dyn std::error::Error>> {
    // `all` sorts the names. Both transfers therefore lock account 3 first, and neither can hold the account for which
    // the other one waits.
    let leases = client.all([from, to]).acquire().await?;
    println!("transfer from {from} (fence {}) to {to} (fence {})", leases.fence(from)?, leases.fence(to)?);
    // In a real program, this is the work on both accounts.
    tokio::time::sleep(Duration::from_millis(50)).await;
    leases.release().await?;
    Ok(())
}
