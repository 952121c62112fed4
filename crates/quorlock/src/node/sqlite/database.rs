//! Opens the file: checks its format, configures the connection, and retries while another process holds the file.

use std::path::Path;
use std::time::{Duration, Instant};

use quorlock_core::rng::{Rng as _, Seeded};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags, Transaction, TransactionBehavior};

use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::{file, reserve, store};
use crate::platform::entropy;

/// SQLite's application id for our files: "qloc".
pub(super) const APPLICATION_ID: i32 = 0x716c_6f63;
/// The schema version.
pub(super) const SCHEMA_VERSION: i32 = 8;
/// How long a connection waits for other processes in total.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(2);
/// The average delay between two tries. On average, a waiting process gets the file half this delay after another
/// process has released the file.
const BUSY_DELAY: Duration = Duration::from_millis(1);
/// The length of the log, in pages, at which a commit runs a checkpoint. Usually a session has run a checkpoint before.
const LOG_PAGES_MAX: u32 = 4_096;
/// The largest log that a process should leave when it closes the file. The next process that opens the file alone must
/// read the whole log.
pub(super) const LOG_BYTES_MAX: u64 = 512 * 1_024;
/// The size of the statement cache: enough for all our statements.
const STATEMENTS_MAX: usize = 32;

/// Opens the file. Also returns the reserve that this call has synced to disk, or zero if the file was not new.
pub(super) fn open(path: &Path, wall_micros: u64) -> Result<(Connection, u64), Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(busy_handler()))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // By default the last connection to close runs a checkpoint and waits for the disk. A finished command should exit
    // at once, and a file of another application must stay unchanged.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let was_blank = retry_while_busy(|| is_blank(&connection.unchecked_transaction()?))?;
    if connection.is_readonly("main")? {
        return Err(Fault::Unfit("the file is read-only".into()));
    }
    set_up(&connection)?;
    let mut synced = 0;
    if was_blank {
        // Sync the directory entries before the tables: a process that finds the tables does not sync the entries.
        file::sync_directories(path).map_err(|error| Fault::Unfit(format!("cannot sync the directory: {error}")))?;
        let transaction = retry_while_busy(|| Ok(begin(&connection)?))?;
        // Another process may have created the tables in the meantime.
        if is_blank(&transaction)? {
            synced = reserve::initial(wall_micros);
            store::create(&transaction, synced)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        transaction.commit()?;
    }
    set_durable(&connection, false)?;
    store::load_node(&connection)?;
    Ok((connection, synced))
}

/// Sets whether every commit waits for the disk. Otherwise only checkpoints wait.
pub(super) fn set_durable(connection: &Connection, durable: bool) -> Result<(), Fault> {
    Ok(connection.pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })?)
}

/// Starts a transaction with the write lock. Fails if the path no longer names the open file: a process that opens the
/// path now would not see our votes.
pub(super) fn begin_here(connection: &Connection) -> Result<Transaction<'_>, Fault> {
    let transaction = begin(connection)?;
    let mut moved = 0;
    connection.file_control(Some("main"), FileControl::HasMoved(&mut moved))?;
    if moved == 0 { Ok(transaction) } else { Err(Fault::Moved) }
}

fn begin(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
}

/// Configures the connection.
fn set_up(connection: &Connection) -> Result<(), Fault> {
    set_durable(connection, true)?;
    let set_mode = || connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    let mode = retry_while_busy(|| Ok(set_mode()?))?;
    if mode != "wal" {
        return Err(Fault::Unfit(format!("processes cannot share it: its journal mode stays {mode:?}")));
    }
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES_MAX, |_| Ok(()))?;
    // After a checkpoint, truncate the log to this size. The size of the log file then shows how long the log is.
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_MAX as i64, |_| Ok(()))?;
    // SQLite recommends these settings for files that may be damaged on purpose.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

/// Returns whether the file is blank. Fails if it belongs to another application or has another schema version.
fn is_blank(transaction: &Transaction<'_>) -> Result<bool, Fault> {
    let pragma = |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, version, tables) {
        (0, 0, 0) => Ok(true),
        (APPLICATION_ID, SCHEMA_VERSION, _) => Ok(false),
        (APPLICATION_ID, other, _) => {
            let advice = if other > SCHEMA_VERSION {
                "use a newer quorlock"
            } else {
                "use an older quorlock. If no lock in it is held and no resource compares its fences any more, you can \
                 remove the file"
            };
            Err(Fault::Unfit(format!(
                "its tables have version {other}, but this program supports only version {SCHEMA_VERSION}: {advice}"
            )))
        }
        _ => Err(Fault::Unfit("it is the database of another application".into())),
    }
}

/// Retries `attempt` while other processes have locked the file, because SQLite does not always call the busy handler.
fn retry_while_busy<T>(mut attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    let mut wait_or_give_up = busy_handler();
    let mut tries = 0;
    loop {
        match attempt() {
            Err(fault) if fault.is_busy() && wait_or_give_up(tries) => tries += 1,
            result => return result,
        }
    }
}

/// Returns a busy handler for SQLite. The handler sleeps before each retry, and returns `false` after [`BUSY_MAX`]. The
/// delays are random, so that two processes do not always retry at the same time.
fn busy_handler() -> impl FnMut(i32) -> bool + Send + 'static {
    let mut rng = Seeded::new(entropy::bits() as u64);
    let mut started = Instant::now();
    move |tries| {
        if tries == 0 {
            started = Instant::now();
        }
        std::thread::sleep(rng.between(BUSY_DELAY / 2, BUSY_DELAY * 3 / 2));
        started.elapsed() < BUSY_MAX
    }
}
