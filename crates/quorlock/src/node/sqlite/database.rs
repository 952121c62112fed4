//! Opening the file: whose it is, how it is set up, and how long to wait for it.

use std::path::Path;
use std::time::{Duration, Instant};

use quorlock_core::rng::{Rng as _, Seeded};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags, Transaction, TransactionBehavior};

use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::{file, reserve, store};
use crate::platform::entropy;

/// Marks a file as ours: "qloc".
pub(super) const APPLICATION_ID: i32 = 0x716c_6f63;
/// The version of the tables.
pub(super) const SCHEMA_VERSION: i32 = 7;
/// How long to wait for another process, in all.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(2);
/// How long between two tries, about: a handover takes half of this.
const BUSY_NAP: Duration = Duration::from_millis(1);
/// How many pages the log may have before a commit writes them back itself, in case nobody does so at leisure.
const LOG_PAGES_MAX: u32 = 4_096;
/// How much of the log may be left for the next one who opens the file: it has to read all of it if nobody else has the
/// file open.
pub(super) const LOG_BYTES_MAX: u64 = 512 * 1_024;
/// How many statements are kept ready: all that there are.
const STATEMENTS_MAX: usize = 32;

/// Opens the file, and gives the reserve that this has put on the disk: zero if it was there before.
pub(super) fn open(path: &Path, wall_micros: u64) -> Result<(Connection, u64), Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(napping()))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // The last to close the file would write the log back, and wait for the disk: a command that is done should be gone, and
    // a file that is not ours stays as it is.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let was_blank = patiently(|| is_blank(&connection.unchecked_transaction()?))?;
    if connection.is_readonly("main")? {
        return Err(Fault::Unfit("the file is read-only".into()));
    }
    set_up(&connection)?;
    let mut synced = 0;
    if was_blank {
        // Whoever sees the tables may rely on their names being on the disk.
        file::sync_names(path).map_err(|error| Fault::Unfit(format!("cannot sync its directory: {error}")))?;
        let transaction = patiently(|| Ok(begin(&connection)?))?;
        // Another process may have made the tables meanwhile.
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

/// Whether every commit waits for the disk, or only those that write the log back.
pub(super) fn set_durable(connection: &Connection, durable: bool) -> Result<(), Fault> {
    Ok(connection.pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })?)
}

/// Takes the write lock. It says so if the file is no longer the one that its name stands for: whoever opens that name
/// now knows nothing of our votes.
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
    let mode = patiently(|| {
        let mut mode = String::new();
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| {
            mode = row.get(0)?;
            Ok(())
        })?;
        Ok(mode)
    })?;
    if mode != "wal" {
        return Err(Fault::Unfit(format!("it cannot be shared by processes here: its journal mode stays {mode:?}")));
    }
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES_MAX, |_| Ok(()))?;
    // A log that was written back and begun anew is cut to this, so that its size tells how long it is.
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_MAX as i64, |_| Ok(()))?;
    // As SQLite advises for files that may have been damaged on purpose.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

/// Whether the file is blank; an error if it is another application's, or another version's.
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

/// Tries again while other processes are in the way: not everything that can be busy asks the busy handler.
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

/// Waits a little before each further try, and says when it is enough. Naps vary, so that processes do not try in step.
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
