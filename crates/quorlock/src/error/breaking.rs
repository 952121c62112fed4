//! The error of breaking a lease.

use quorlock_core::name::{Holder, Name};
use quorlock_core::request::Target;
use quorlock_core::vote::Tally;

use super::{Account, ConfigError};

/// A lease was not broken on a majority of the nodes.
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
    /// The lock is held by another lease than the given one. The other lease was not broken.
    #[error("{}", describe(name, *current, holder.as_ref()))]
    AnotherLease {
        /// The name of the lock.
        name: Name,
        /// The fence or digest of the other lease.
        current: Target,
        /// The holder of the other lease, if a node knows the holder.
        holder: Option<Holder>,
    },
    /// Too few nodes answered. The lease is broken on less than a majority of the nodes, so the holder may still have a
    /// majority. Try again: the second try counts the nodes that have already broken the lease.
    #[error("no quorum for breaking {name:?}: {}", Account(tally))]
    NoQuorum {
        /// The name of the lock.
        name: Name,
        /// The nodes that broke the lease, and the reason for each other node.
        tally: Tally,
    },
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

fn describe(name: &Name, current: Target, holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) if holder.is_other_program() => {
            format!("{name:?} is held by {holder}: release it there, or delete the key")
        }
        Some(holder) => format!("{name:?} is held with another {current} now, by {holder}"),
        None => format!("{name:?} is held with another {current} now"),
    }
}
