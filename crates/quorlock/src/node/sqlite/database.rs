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
pub(super) const SCHEMA_VERSION: i32 = 7;
/// The longest total wait for other processes.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(2);
/// The average delay between two tries. On average, a waiting process gets the file half this delay after another
/// process releases it.
const BUSY_NAP: Duration = Duration::from_millis(1);
/// The log length, in pages, at which a commit itself runs a checkpoint, in case that no idle session has done so.
const LOG_PAGES_MAX: u32 = 4_096;
/// The largest log to leave behind. If no process has the file open, the next process to open it must read the whole
/// log.
pub(super) const LOG_BYTES_MAX: u64 = 512 * 1_024;
/// The size of the statement cache: enough for all our statements.
const STATEMENTS_MAX: usize = 32;

/// Opens the file. Also returns the reserve that this call synced to disk, or zero if the file was not new.
pub(super) fn open(path: &Path, wall_micros: u64) -> Result<(Connection, u64), Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(napping()))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // By default the last connection to close runs a checkpoint and waits for the disk. A finished command should exit
    // at once, and a file of another application must stay unchanged.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let was_blank = patiently(|| is_blank(&connection.unchecked_transaction()?))?;
    if connection.is_readonly("main")? {
        return Err(Fault::Unfit("the file is read-only".into()));
    }
    set_up(&connection)?;
    let mut synced = 0;
    if was_blank {
        // A process that sees the tables may rely on the directory entries being on disk.
        file::sync_names(path).map_err(|error| Fault::Unfit(format!("cannot sync its directory: {error}")))?;
        let transaction = patiently(|| Ok(begin(&connection)?))?;
        // Another process may have created the tables in the meantime.
        if is_blank(&transaction)? {
            synced = reserve::first(wall_micros);
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

/// Sets whether every commit waits for the disk, or only checkpoints do.
pub(super) fn set_durable(connection: &Connection, durable: bool) -> Result<(), Fault> {
    Ok(connection.pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })?)
}

/// Takes the write lock. Fails if the path no longer names this file: a process that opens the path now would not see
/// our votes.
pub(super) fn begin_here(connection: &Connection) -> Result<Transaction<'_>, Fault> {
    let transaction = begin(connection)?;
    let mut moved = 0;
    connection.file_control(Some("main"), FileControl::HasMoved(&mut moved))?;
    if moved == 0 { Ok(transaction) } else { Err(Fault::Moved) }
}

fn begin(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
}

fn set_up(connection: &Connection) -> Result<(), Fault> {
    set_durable(connection, true)?;
    let set_mode = || connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    let mode = patiently(|| Ok(set_mode()?))?;
    if mode != "wal" {
        return Err(Fault::Unfit(format!("it cannot be shared by processes here: its journal mode stays {mode:?}")));
    }
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES_MAX, |_| Ok(()))?;
    // Truncates the log to this size after a checkpoint, so that the file size reflects the log's length.
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
                "use an older quorlock or, when no lock in it is held and none of its fences is compared any more, \
                 remove the file"
            };
            Err(Fault::Unfit(format!(
                "its tables have version {other}, and this program knows version {SCHEMA_VERSION}: {advice}"
            )))
        }
        _ => Err(Fault::Unfit("it is the database of another application".into())),
    }
}

/// Retries `attempt` while other processes hold the file, because SQLite does not call the busy handler in every case.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    let mut nap = napping();
    let mut tries = 0;
    loop {
        match attempt() {
            Err(fault) if fault.is_busy() && nap(tries) => tries += 1,
            result => return result,
        }
    }
}

/// Returns a busy handler: it sleeps before each retry, and returns false once [`BUSY_MAX`] has passed. The delays are
/// random, so that processes do not retry in step.
fn napping() -> impl FnMut(i32) -> bool + Send + 'static {
    let mut rng = Seeded::new(entropy::bits() as u64);
    let mut since = Instant::now();
    move |tries| {
        if tries == 0 {
            since = Instant::now();
        }
        std::thread::sleep(rng.between(BUSY_NAP / 2, BUSY_NAP * 3 / 2));
        since.elapsed() < BUSY_MAX
    }
}
