//! What can go wrong with the file, and what that means for a link.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::node::Trouble;
use crate::node::sqlite::file;

/// Why a transaction, or the opening of the file, did not succeed. It never holds a stored value: some are secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// SQLite's own words.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A column holds what was never written there.
    #[error("the file is damaged: table {table}, column {column}")]
    Damaged {
        /// Where.
        table: &'static str,
        /// Where in it.
        column: &'static str,
    },
    /// Another file is there now, or none.
    #[error("the file was moved, replaced or deleted while it was open")]
    Moved,
    /// It cannot be a node.
    #[error("{0}")]
    Unfit(String),
}

impl Fault {
    /// Another process has the file, and may give it back.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self.code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
        )
    }

    /// Nothing is wrong with the connection: the next transaction may succeed.
    pub(super) fn is_transient(&self) -> bool {
        self.is_busy() || self.code() == Some(ErrorCode::DiskFull)
    }

    /// What it means when it happened while opening.
    pub(super) fn at_opening(&self, path: &Path) -> Trouble {
        let text = format!("{}: {self}", path.display());
        match self.code() {
            _ if self.is_transient() => Trouble::Unreachable(text),
            Some(ErrorCode::NotADatabase) => {
                Trouble::Unfit(format!("{}: it is not an SQLite database", path.display()))
            }
            // Also said when there are no more file descriptors: that will pass.
            Some(ErrorCode::CannotOpen) if !file::is_forbidden(path) => Trouble::Unreachable(text),
            Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => Trouble::Unreachable(text),
            _ => Trouble::Unfit(text),
        }
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        }
    }
}
