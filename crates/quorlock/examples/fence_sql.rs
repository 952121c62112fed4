//! A table that refuses writes of holders that have been overtaken: the fence is in the `WHERE` of every write.
//!
//! Here on SQLite; PostgreSQL, and other databases, take the same statements.

use quorlock::Client;
use rusqlite::{Connection, params};

/// Writes a balance, unless a holder with a higher fence has written before. Whether it was written.
///
/// One statement: between a look at the fence and the write, another holder could come.
pub(crate) fn write(database: &Connection, account: &str, cents: i64, fence: u64) -> rusqlite::Result<bool> {
    Ok(database.execute(WRITE, params![cents, fence.cast_signed(), account])? == 1)
}

/// The write: no row is changed by a holder that was overtaken.
pub(crate) const WRITE: &str = "UPDATE account SET cents = $1, fence = $2 WHERE id = $3 AND fence <= $2";

/// A table with a column for the highest fence that has written a row.
pub(crate) fn create(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch(CREATE)
}

pub(crate) const CREATE: &str =
    "CREATE TABLE account(id TEXT PRIMARY KEY, cents BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
     INSERT INTO account(id, cents) VALUES ('7', 0);";

#[tokio::main]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (client, database) = (Client::memory().await, Connection::open_in_memory()?);
    create(&database)?;
    let early = client.lock("account/7").acquire().await?;
    let old = early.fence()?.get();
    early.release().await?;
    let late = client.lock("account/7").acquire().await?;
    println!("the later holder writes: {}", write(&database, "7", 200, late.fence()?.get())?);
    println!("the earlier one, who woke up too late: {}", write(&database, "7", 100, old)?);
    Ok(())
}
