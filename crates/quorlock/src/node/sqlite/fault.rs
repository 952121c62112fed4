//! Errors of the file, and what they mean for a link.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::node::Trouble;
use crate::node::sqlite::file;

/// The reason why a transaction, or opening the file, failed. Never contains a stored value, because some values are
/// secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// An error of SQLite.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A column holds a value that we never write.
    #[error("the file is damaged: table {table}, column {column}")]
    Damaged { table: &'static str, column: String },
    /// The path names another file now, or none.
    #[error("the file was moved, replaced or deleted while it was open")]
    Moved,
    /// The file cannot be a node.
    #[error("{0}")]
    Unfit(String),
}

impl Fault {
    /// Returns whether another process holds the file, so that a retry may succeed.
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

    /// Converts an error that occurred while opening the file.
    pub(super) fn at_opening(&self, path: &Path) -> Trouble {
        let text = format!("{}: {self}", path.display());
        match self.code() {
            _ if self.is_transient() => Trouble::Unreachable(text),
            Some(ErrorCode::NotADatabase) => {
                Trouble::Unfit(format!("{}: it is not an SQLite database", path.display()))
            }
            // SQLite also reports this error if the process is out of file descriptors, which is temporary.
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
