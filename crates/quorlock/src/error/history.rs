//! Why nothing is told of what has happened.

use quorlock_core::quorum::Tally;

use super::Account;

/// What has happened could not be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// No node answered.
    #[error("no node tells its history: {}", Account(tally))]
    NoAnswer {
        /// Why not.
        tally: Tally,
    },
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}
