//! Errors of the file, and their conversion to errors of the node.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::node::Trouble;
use crate::node::sqlite::file;

/// The reason why a transaction failed, or why the file could not be opened. Never contains a stored value, because
/// some values are secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// An error of SQLite.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A column contains a value that this program never writes.
    #[error("the file is damaged: table {table}, column {column}")]
    Damaged { table: &'static str, column: String },
    /// The path now names another file, or no file.
    #[error("the file was moved, replaced or deleted while it was open")]
    Moved,
    /// The file cannot be a node.
    #[error("{0}")]
    Unfit(String),
}

impl Fault {
    /// Returns whether another process has locked the file, so that a retry may succeed.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self.code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
        )
    }

    /// Returns whether the connection is still usable and the next transaction may succeed.
    pub(super) fn is_transient(&self) -> bool {
        self.is_busy() || self.code() == Some(ErrorCode::DiskFull)
    }

    /// Converts an error that occurred while the file was opened.
    pub(super) fn to_open_trouble(&self, path: &Path) -> Trouble {
        let text = format!("{}: {self}", path.display());
        match self.code() {
            _ if self.is_transient() => Trouble::Unreachable(text),
            Some(ErrorCode::NotADatabase) => {
                Trouble::Unfit(format!("{}: it is not an SQLite database", path.display()))
            }
            // SQLite also reports `CannotOpen` if the process has no free file descriptor, which is temporary.
            Some(ErrorCode::CannotOpen) if !file::is_forbidden(path) => Trouble::Unreachable(text),
            Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => Trouble::Unreachable(text),
            _ => Trouble::Unfit(text),
        }
    }

    fn code(&self) -> Option<ErrorCode> {
        let Self::Sqlite(error) = self else { return None };
        error.sqlite_error_code()
    }
}
