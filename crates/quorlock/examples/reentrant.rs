//! Locks a name that the caller has locked already.
//!
//! `transfer` locks the ledger and calls `book`, which locks the ledger again. With an ordinary lock, `book` would wait
//! for its own caller forever.
//!
//! Run `cargo run -p quorlock --example reentrant`. The example needs no server.

use quorlock::{Client, Reentrant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    // A node in the memory of this process. For locks between hosts, use `Client::connect(["redis://..", ..])`.
    let client = Client::memory().await;
    let ledger = client.reentrant("ledger");
    transfer(&ledger, 30).await?;

    // Every call of `reentrant` makes a new owner. Only the owner that holds the lock may enter again.
    let entry = ledger.acquire().await?;
    let other_owner = client.reentrant("ledger");
    println!("another owner can enter: {}", other_owner.try_acquire().await?.is_some());
    entry.release().await?;
    println!("another owner can enter after the last entry has ended: {}", other_owner.try_acquire().await?.is_some());
    Ok(())
}

async fn transfer(ledger: &Reentrant, amount: i64) -> Result<()> {
    // Held until the end of this function, so that nobody can see the ledger between the two bookings.
    let lease = ledger.acquire().await?;
    println!("transfer holds the ledger, with fence {}", lease.fence()?);
    book(ledger, -amount).await?;
    book(ledger, amount).await?;
    lease.release().await?;
    Ok(())
}

/// Books an amount. Locks the ledger, so that other functions than `transfer` can call this function, too.
async fn book(ledger: &Reentrant, amount: i64) -> Result<()> {
    // All entries of an owner have the same fence.
    let lease = ledger.acquire().await?;
    println!("  book {amount:+}, with fence {}", lease.fence()?);
    lease.release().await?;
    Ok(())
}
