//! The errors: one type for each family of operations.

mod breaking;
mod held;
mod reconfigure;

pub use breaking::BreakError;
pub use held::HeldError;
pub use reconfigure::ReconfigureError;

use std::fmt::{self, Write as _};
use std::time::Duration;

use quorlock_core::hold::Loss;
use quorlock_core::name::{Name, NameError};
use quorlock_core::quorum::QuorumError;
use quorlock_core::time::TtlError;
use quorlock_core::vote::{NodeVote, Silence, Tally};

/// The configuration or an argument is invalid. Nothing was sent, and nothing is held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The ttl is out of bounds.
    #[error(transparent)]
    Ttl(#[from] TtlError),
    /// The number of nodes is invalid.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// A node's URL is invalid.
    #[error("node {position} ({url}): {why}")]
    Url {
        /// The position in the list, from 1.
        position: usize,
        /// The URL without its passwords.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The node is of a kind that must be the only node, but there are several nodes.
    #[error("{title} cannot be one of several nodes: {why}")]
    Alone {
        /// The URL of the node, without secrets.
        title: String,
        /// The reason.
        why: &'static str,
    },
    /// The key is reserved for the library.
    #[error("the key {key:?} is reserved: quorlock keeps its internal data in keys that start with \"quorlock~\"")]
    ReservedKey {
        /// The key that the name would have.
        key: String,
    },
    /// The list of names is empty.
    #[error("the list of names is empty: at least one name is needed")]
    NoNames,
    /// A setting is out of bounds.
    #[error("{setting} must {rule} (got {value})")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The rule that it breaks.
        rule: String,
    },
}

impl ConfigError {
    pub(crate) fn setting(setting: &'static str, value: impl fmt::Debug, rule: impl Into<String>) -> Self {
        Self::Setting { setting, value: format!("{value:?}"), rule: rule.into() }
    }
}

/// The client did not connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No majority can vote until an operator acts, because too many nodes cannot be used: for example, a node is a
    /// replica, belongs to another cluster, has other constants, or is listed twice.
    #[error("{}", list(nodes))]
    Unfit {
        /// The URL of each such node, without secrets, and the reason.
        nodes: Vec<(String, String)>,
    },
    /// Like [`Unfit`](Self::Unfit), but at least one of the nodes rejects the password or denies permissions.
    #[error("{}", list(nodes))]
    Denied {
        /// The URL of each such node, without secrets, and the server's error message.
        nodes: Vec<(String, String)>,
    },
    /// No majority of the nodes can vote.
    #[error("{}", no_majority(nodes, *waited))]
    NoMajority {
        /// The URL of each node, without secrets, and why it cannot vote; `None` if it can vote.
        nodes: Vec<(String, Option<Silence>)>,
        /// How long `connect` waited.
        waited: Duration,
    },
}

fn list(nodes: &[(String, String)]) -> String {
    nodes.iter().map(|(node, why)| format!("{node}: {why}")).collect::<Vec<_>>().join("; ")
}

fn no_majority(nodes: &[(String, Option<Silence>)], waited: Duration) -> String {
    let silences = || nodes.iter().filter_map(|(_, why)| why.as_ref());
    let mut text = format!("no majority: {} of {} nodes cannot vote", silences().count(), nodes.len());
    // `connect` does not wait for a quarantine that lasts longer than its timeout.
    if !waited.is_zero() {
        let _ = write!(text, " after {:.1}s", waited.as_secs_f64());
    }
    let describe = |why: &Option<Silence>| why.as_ref().map_or_else(|| "can vote".into(), ToString::to_string);
    let nodes_listed: Vec<String> = nodes.iter().map(|(node, why)| format!("{node} {}", describe(why))).collect();
    let _ = write!(text, ": {}", nodes_listed.join("; "));
    if let Some(left) = silences().filter_map(Silence::quarantine_left).max() {
        let _ = write!(
            text,
            ". The quarantine ends when clients have been connected for {left:.1?}: use connect_lazy, set state_folder, \
             or run `quorlock nodes wait`"
        );
        if nodes.iter().all(|(_, why)| matches!(why, Some(Silence::Founding(_)))) {
            text.push_str(
                ". If no lock can be outstanding on these nodes, init_cluster (quorlock nodes init) ends it now",
            );
        }
    }
    text
}

/// The nodes could not be read. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The name is invalid. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Fewer than a majority of the nodes answered. For the history: no node answered.
    #[error("{operation}: {}", Account(tally))]
    NoQuorum {
        /// The operation that failed.
        operation: Operation,
        /// The nodes that answered, and why the others did not.
        tally: Tally,
    },
    /// The cursor of a list is not the [`next`](crate::ListPage::next) of a page. Nothing was sent.
    #[error("invalid cursor: pass `next` of the previous page")]
    InvalidCursor,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// An operation that too few nodes answered. `Display` describes the failure, for example `not extended`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Operation {
    /// Extending a lease.
    #[error("not extended")]
    Extend,
    /// Checking a detached lease.
    #[error("not known whether it is held")]
    Check,
    /// Releasing a lease, or retiring an owner.
    #[error("released, but not acknowledged by a majority")]
    Release,
    /// Inspecting a name.
    #[error("no quorum for inspecting {0:?}")]
    Inspect(Name),
    /// Listing names.
    #[error("no quorum for a listing")]
    List,
    /// Reading the history.
    #[error("no node returned its history")]
    History,
}

/// A lock was not acquired. The client is releasing all grants of the attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another lease holds the lock.
    #[error("{0}")]
    Held(Box<HeldError>),
    /// Another lease held the lock until the wait ended. Or the wait was so short that it ended before the nodes had to
    /// answer: then [`holder`](HeldError::holder) and [`fence`](HeldError::fence) are `None`.
    #[error("timed out: {0}")]
    WaitTimeout(Box<HeldError>),
    /// A semaphore of this name is in use with another number of permits (slots).
    #[error(
        "{name:?} is in use as a semaphore with {in_use} permits, not {requested}: all users must pass the same number"
    )]
    SlotsMismatch {
        /// The name of the lock.
        name: Name,
        /// The number of permits that the caller passed.
        requested: u32,
        /// The number of permits of the semaphore in use.
        in_use: u32,
    },
    /// The caller wants to write, but already holds a read lease of the same name, and would wait for itself.
    #[error("{name:?} is read by the same owner, who would wait for itself: release the read lease first")]
    UpgradeUnsupported {
        /// The name of the lock.
        name: Name,
    },
    /// The owner was [retired](crate::Client::retire) from this name.
    #[error("this owner was retired from {name:?} and cannot enter it again")]
    Retired {
        /// The name of the lock.
        name: Name,
    },
    /// Too few nodes voted.
    #[error("no quorum for {name:?}: {}", Account(tally))]
    NoQuorum {
        /// The name of the lock.
        name: Name,
        /// The votes of the last round.
        tally: Tally,
    },
    /// A majority granted the lock, but so late that less than the required validity was left.
    #[error("too slow for {name:?}: a majority granted, but too little of the ttl was left ({})", Account(tally))]
    TooSlow {
        /// The name of the lock.
        name: Name,
        /// The votes of the last round.
        tally: Tally,
    },
    /// The name or a setting is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// The lease is over: do not touch the protected resource any more. Only [`TooShort`](Self::TooShort) means that the
/// lease is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostError {
    /// The validity ended before a renewal succeeded.
    #[error("the lease is lost: its validity ran out before it was renewed")]
    Expired,
    /// A majority of the nodes no longer has the lease: its keys were deleted, or the lease is of a plain lock and was
    /// broken.
    #[error("the lease is lost: a majority of the nodes no longer has it")]
    Removed,
    /// Somebody broke the lease with [`break_lock`](crate::Client::break_lock).
    #[error("the lease is lost: it was broken")]
    Broken,
    /// The lease was detached, and another process released or broke it.
    #[error("the lease is lost: it was released, or broken")]
    Ended,
    /// The client of the lease was closed or dropped, which released the lease.
    #[error("the lease is over: its client was closed")]
    Closed,
    /// The lease is still held, but ends sooner than required.
    #[error("the lease ends in {left:?}, sooner than the required {needed:?}")]
    TooShort {
        /// The validity that is left.
        left: Duration,
        /// The validity that was required.
        needed: Duration,
    },
}

impl From<Loss> for LostError {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Removed => Self::Removed,
            Loss::Broken => Self::Broken,
            _ => Self::Expired,
        }
    }
}

/// The lease has no fence that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The lease is over.
    #[error(transparent)]
    Lost(#[from] LostError),
    /// The lock is plain.
    #[error("a plain lock has no fence")]
    Plain,
    /// The name is not one of the [`Leases`](crate::Leases).
    #[error("none of these leases has this name")]
    NotHeld,
}

/// A lease was not extended, checked or released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease is over, which is final. For checks of detached leases see [`Client::check`](crate::Client::check).
    #[error(transparent)]
    Lost(#[from] LostError),
    /// Too few nodes answered by the node deadline.
    ///
    /// If the lease was to be extended or checked, it may still be held until its validity ends. If the lease was to be
    /// released, it is over: the client retries the release for as long as the client exists, and a vote that the
    /// client cannot release ends with its ttl.
    #[error("{operation}: {}", Account(tally))]
    NoQuorum {
        /// The operation that failed.
        operation: Operation,
        /// The vote of each node. "granted" means that the node extended, confirmed or released the lease.
        tally: Tally,
    },
    /// The detached lease cannot be a lease of these nodes. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client was closed. The lease is detached, and stays held until its ttl ends.
    #[error("the client was closed")]
    Closed,
}

/// The work did not run, or did not end, while the lock was held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired. The work did not start.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost before the work ended.
    #[error(transparent)]
    Lost(#[from] LostError),
}

/// The client was closed before all releases were delivered. The locks that were not released stay held until their ttl
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("closed with {owed} undelivered releases: those locks stay held until their ttl ends")]
pub struct CloseError {
    /// The number of undelivered releases, over all nodes.
    pub owed: usize,
}

/// A tally with the nodes that did not grant, each with its reason.
struct Account<'a>(&'a Tally);

impl fmt::Display for Account<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        for (node, vote) in self.0.by_node().filter(|(_, vote)| **vote != NodeVote::Granted) {
            write!(f, "; {node} {vote}")?;
        }
        Ok(())
    }
}
