//! The error of breaking a lease.

use quorlock_core::name::{Holder, Name};
use quorlock_core::quorum::Tally;
use quorlock_core::vote::Target;

use super::{Account, ConfigError};

/// A lease was not broken, or not on a majority of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BreakError {
    /// The name is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody holds the lock.
    #[error("nobody holds {name:?}")]
    NotHeld {
        /// The name of the lock.
        name: Name,
    },
    /// The lock is held by another lease than the given one. It was left alone.
    #[error("{}", describe(name, *target, holder.as_ref()))]
    Other {
        /// The name of the lock.
        name: Name,
        /// The fence or digest of the lease that holds it now.
        target: Target,
        /// Its holder, if a node knows it.
        holder: Option<Holder>,
    },
    /// Too few nodes answered. The lease is broken on those that granted it; its holder may still have a majority. Try
    /// again: nodes that have broken it already count.
    #[error("no quorum for breaking {name:?}: {}", Account(tally))]
    NoQuorum {
        /// The name of the lock.
        name: Name,
        /// The nodes that broke it, and why the others did not.
        tally: Tally,
    },
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

fn describe(name: &Name, target: Target, holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) if holder.is_other_program() => {
            format!("{name:?} is held by {holder}: release it there, or delete the key")
        }
        Some(holder) => format!("{name:?} is held with another {target} now, by {holder}"),
        None => format!("{name:?} is held with another {target} now"),
    }
}
