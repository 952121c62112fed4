//! Protects a table from late writers: the `WHERE` of every write compares fences.
//!
//! The example uses SQLite. PostgreSQL and other databases accept the same statements.
//!
//! Run `cargo run -p quorlock --example fence_sql`. The example needs no server.

use quorlock::Client;
use rusqlite::{Connection, params};

/// Creates a table with a column for the highest fence that has written a row.
pub(crate) const CREATE_TABLE: &str =
    "CREATE TABLE account(id TEXT PRIMARY KEY, cents BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
     INSERT INTO account(id, cents) VALUES ('7', 0);";

/// Writes a balance and its fence, unless a higher fence is stored.
///
/// The comparison and the write are one statement. With a separate `SELECT`, another holder could write in between.
pub(crate) const WRITE: &str = "UPDATE account SET cents = $1, fence = $2 WHERE id = $3 AND fence <= $2";

pub(crate) fn create_table(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch(CREATE_TABLE)
}

/// Writes a balance, unless a later holder has written before. Returns whether the balance was written.
pub(crate) fn write(database: &Connection, account: &str, cents: i64, fence: u64) -> rusqlite::Result<bool> {
    let changed_rows = database.execute(WRITE, params![cents, fence.cast_signed(), account])?;
    Ok(changed_rows == 1)
}

#[tokio::main]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Connection::open_in_memory()?;
    create_table(&database)?;
    let client = Client::memory().await;

    // The first holder stalls before its write. Meanwhile its lease ends, and a second client becomes the holder.
    let first_lease = client.lock("account/7").acquire().await?;
    let first_fence = first_lease.fence()?.get();
    first_lease.release().await?;
    let second_lease = client.lock("account/7").acquire().await?;
    let second_fence = second_lease.fence()?.get();

    println!("the second holder writes: {}", write(&database, "7", 200, second_fence)?);
    println!("the first holder writes too late: {}", write(&database, "7", 100, first_fence)?);
    Ok(())
}
