//! The error of breaking a lease.

use quorlock_core::name::{Holder, Name};
use quorlock_core::request::Target;
use quorlock_core::vote::Tally;

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
    /// Another lease than the given one holds the lock. It was not broken.
    #[error("{}", describe(name, *current, holder.as_ref()))]
    AnotherLease {
        /// The name of the lock.
        name: Name,
        /// The fence or digest of the lease that holds the lock now.
        current: Target,
        /// The holder of that lease, if a node knows it.
        holder: Option<Holder>,
    },
    /// Too few nodes answered. The lease is broken on fewer than a majority of the nodes, so its holder may still have
    /// a majority. Try again: the second try includes the nodes that have already broken the lease.
    #[error("no quorum for breaking {name:?}: {}", Account(tally))]
    NoQuorum {
        /// The name of the lock.
        name: Name,
        /// The nodes that broke the lease, and why the other nodes did not.
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
