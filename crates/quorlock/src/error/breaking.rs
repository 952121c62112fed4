//! Why a lease was not broken.

use std::fmt;

use quorlock_core::name::{Holder, Name};
use quorlock_core::quorum::Tally;
use quorlock_core::vote::Target;

use super::{Account, ConfigError};

/// A lease was not broken, or not on a majority of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BreakError {
    /// The name cannot be one.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody holds it.
    #[error("nobody holds {name:?}")]
    NotHeld {
        /// What was to be broken.
        name: Name,
    },
    /// Another lease stands than the one that was meant, and was left alone.
    #[error("{0}")]
    Other(Box<OtherError>),
    /// Too few nodes answered. On those that granted it the lease is broken; its holder may still have a majority. It
    /// may be tried again: nodes that have done it already count.
    #[error("no quorum for breaking {name:?}: {}", Account(tally))]
    NoQuorum {
        /// What was to be broken.
        name: Name,
        /// Who broke it, and why the others did not.
        tally: Tally,
    },
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// Another lease stands than the one that was to be broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherError {
    /// What was to be broken.
    pub name: Name,
    /// What it is held with now.
    pub target: Target,
    /// By whom, where a node knows it.
    pub holder: Option<Holder>,
}

impl std::error::Error for OtherError {}

impl fmt::Display for OtherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(holder) = self.holder.as_ref().filter(|holder| holder.is_other_program()) {
            return write!(f, "{:?} is held by {holder}: release it there, or delete the key", self.name);
        }
        write!(f, "{:?} is held with another {} now", self.name, self.target)?;
        match &self.holder {
            Some(holder) => write!(f, ", by {holder}"),
            None => Ok(()),
        }
    }
}
