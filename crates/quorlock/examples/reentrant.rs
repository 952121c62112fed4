//! A function that locks and calls another one that locks the same name.

use quorlock::{Client, Lease, Reentrant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let client = Client::memory().await;
    let ledger = client.reentrant("ledger");
    transfer(&ledger, 30).await?;

    let entry = ledger.acquire().await?;
    let others = client.reentrant("ledger");
    println!("another owner gets in: {}", others.try_acquire().await?.is_some());
    entry.release().await?;
    println!("after the last entry is gone: {}", others.try_acquire().await?.is_some());
    Ok(())
}

async fn transfer(ledger: &Reentrant, amount: i64) -> Outcome<()> {
    let lease = ledger.acquire().await?;
    println!("transfer holds the ledger, with fence {}", lease.fence()?);
    book(ledger, -amount).await?;
    book(ledger, amount).await?;
    lease.release().await?;
    Ok(())
}

/// Locks by itself, so that it can be called alone, too.
async fn book(ledger: &Reentrant, amount: i64) -> Outcome<()> {
    let lease: Lease = ledger.acquire().await?;
    println!("  book {amount:+}, with fence {}", lease.fence()?);
    lease.release().await?;
    Ok(())
}
