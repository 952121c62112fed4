//! The errors: one type for each family of operations.

mod breaking;
mod held;
mod reconfigure;

pub use breaking::BreakError;
pub use held::HeldError;
pub use reconfigure::ReconfigureError;

use std::fmt::{self, Write as _};
use std::time::Duration;

use quorlock_core::name::{Name, NameError};
use quorlock_core::quorum::{NodeVote, QuorumError, Tally};
use quorlock_core::step::Loss;
use quorlock_core::time::TtlError;
use quorlock_core::vote::Silence;

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
    /// This kind of node cannot be one of several.
    #[error("{title} cannot be one of several nodes: {why}")]
    Alone {
        /// The URL of the node, without secrets.
        title: String,
        /// The reason.
        why: &'static str,
    },
    /// The key is reserved for the library.
    #[error("the key {key:?} is reserved: keys that start with \"quorlock~\" are quorlock's own")]
    ReservedKey {
        /// The key that the name would have.
        key: String,
    },
    /// The list of names is empty.
    #[error("no names: at least one is needed")]
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
    /// No majority can vote before an operator acts, because too many nodes cannot be used: replicas, nodes of another
    /// cluster or with other constants, the same server twice.
    #[error("{}", list(nodes))]
    Unfit {
        /// Each such node, without secrets, and the reason.
        nodes: Vec<(String, String)>,
    },
    /// Like [`Unfit`](Self::Unfit), and at least one node rejects the password or denies permissions.
    #[error("{}", list(nodes))]
    Denied {
        /// Each such node, without secrets, and the reason in the server's words.
        nodes: Vec<(String, String)>,
    },
    /// No majority of the nodes can vote.
    #[error("{}", no_majority(nodes, *waited))]
    NoMajority {
        /// Each node, without secrets, and why it cannot vote; `None` if it can.
        nodes: Vec<(String, Option<Silence>)>,
        /// How long `connect` waited.
        waited: Duration,
    },
}

fn list(nodes: &[(String, String)]) -> String {
    nodes.iter().map(|(node, why)| format!("{node}: {why}")).collect::<Vec<_>>().join("; ")
}

fn no_majority(nodes: &[(String, Option<Silence>)], waited: Duration) -> String {
    let out = || nodes.iter().filter_map(|(_, why)| why.as_ref());
    let mut text = format!("no majority: {} of {} nodes cannot vote", out().count(), nodes.len());
    // `connect` does not wait for a quarantine that lasts longer than its timeout.
    if !waited.is_zero() {
        let _ = write!(text, " after {:.1}s", waited.as_secs_f64());
    }
    let standing = |why: &Option<Silence>| why.as_ref().map_or_else(|| "can vote".into(), ToString::to_string);
    let nodes_listed: Vec<String> = nodes.iter().map(|(node, why)| format!("{node} {}", standing(why))).collect();
    let _ = write!(text, ": {}", nodes_listed.join("; "));
    if let Some(left) = out().filter_map(Silence::quarantine_left).max() {
        let _ = write!(text, ". The quarantine ends by itself in {left:.1?}: connect again then, or use connect_lazy");
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
    /// Too few nodes answered: no majority, or for the history not a single node.
    #[error("{operation}: {}", Account(tally))]
    NoQuorum {
        /// The operation that failed.
        operation: Operation,
        /// The nodes that answered, and why the others did not.
        tally: Tally,
    },
    /// The position in a list did not come from a page. Nothing was sent.
    #[error("invalid position: pass `next` of the page before")]
    Position,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// An operation that too few nodes answered. `Display` shows the failure, such as `not extended`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Extending a lease.
    Extend,
    /// Checking a detached lease.
    Check,
    /// Releasing a lease, or retiring an owner.
    Release,
    /// Inspecting a name.
    Inspect(Name),
    /// Listing names.
    List,
    /// Reading the history.
    History,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extend => f.write_str("not extended"),
            Self::Check => f.write_str("not known whether it is held"),
            Self::Release => f.write_str("released, but not acknowledged by a majority"),
            Self::Inspect(name) => write!(f, "no quorum for inspecting {name:?}"),
            Self::List => f.write_str("no quorum for a listing"),
            Self::History => f.write_str("no node returned its history"),
        }
    }
}

/// A lock was not acquired. All grants of the attempt are being released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody else holds it.
    #[error("{0}")]
    Held(Box<HeldError>),
    /// Somebody else held it until the wait ended, or the wait was shorter than the nodes took to answer.
    #[error("timed out: {0}")]
    WaitTimeout(Box<HeldError>),
    /// A semaphore of this name is in use with another number of permits.
    #[error(
        "{name:?} is in use as a semaphore with {stored} permits, not {asked}: all users must pass the same number"
    )]
    Permits {
        /// The name of the lock.
        name: Name,
        /// The requested number.
        asked: u32,
        /// The number in use.
        stored: u32,
    },
    /// The caller holds a read lease of the name that it wants to write, so it would wait for itself.
    #[error("{name:?} is read by the same owner, who would wait for itself: release the read lease first")]
    Upgrade {
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
    /// A majority granted, but so late that too little of the ttl was left.
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

/// The lease is over: do not touch the protected resource any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostError {
    /// The validity ended before a renewal succeeded.
    #[error("the lease is lost: its validity ran out before it was renewed")]
    Expired,
    /// It has no majority, because nodes refuse it: its keys were deleted, or it is a plain lock and was broken.
    #[error("the lease is lost: a majority of the nodes no longer has it")]
    Taken,
    /// Somebody broke it.
    #[error("the lease is lost: it was broken")]
    Broken,
    /// It was detached, and somebody else released or broke it.
    #[error("the lease is lost: it was released, or broken")]
    Ended,
    /// Its client was closed or dropped, which released it.
    #[error("the lease is over: its client was closed")]
    Closed,
    /// It is still held, but ends sooner than required.
    #[error("the lease ends in {left:?}, sooner than the {needed:?} asked for")]
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
            Loss::Taken => Self::Taken,
            Loss::Broken => Self::Broken,
            _ => Self::Expired,
        }
    }
}

/// The lease has no fence to use.
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
    /// A lease that was not extended or checked may be held until its validity ends. A lease that was not released is over:
    /// its client retries the release as long as it exists, and votes that it cannot release end with their ttl.
    #[error("{operation}: {}", Account(tally))]
    NoQuorum {
        /// The operation that failed.
        operation: Operation,
        /// The vote of each node; "granted" means extended, valid or released.
        tally: Tally,
    },
    /// These nodes cannot have such a lease. Only for detached leases; nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client was closed. Only for detached leases, which stay held until their ttl ends.
    #[error("the client was closed")]
    Closed,
}

/// The work was not done, or not finished, under the lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired, and the work never began.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost before the work ended.
    #[error(transparent)]
    Lost(#[from] LostError),
}

/// The client was closed before all releases were delivered. The others end with their ttl.
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
