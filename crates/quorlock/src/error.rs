//! One error for each family of operations. Each says which of held, no quorum, too slow, lost or configuration it was.

mod breaking;
mod declare;
mod held;

pub use breaking::{BreakError, OtherError};
pub use declare::ReconfigureError;
pub use held::HeldError;

use std::fmt::{self, Write as _};
use std::time::Duration;

use quorlock_core::name::{Name, NameError};
use quorlock_core::quorum::{NodeVote, QuorumError, Tally};
use quorlock_core::step::Loss;
use quorlock_core::time::TtlError;
use quorlock_core::vote::Silence;

/// Something that was asked for cannot be: nothing was sent, nothing is held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The ttl is out of bounds.
    #[error(transparent)]
    Ttl(#[from] TtlError),
    /// So many nodes cannot decide.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// A node's URL is invalid.
    #[error("node {position} ({url}): {why}")]
    Url {
        /// Its place in the list, from 1.
        position: usize,
        /// The URL without its passwords.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A kind of node that can only stand alone was put into a quorum.
    #[error("{title} cannot be one of several nodes: {why}")]
    Alone {
        /// The node.
        title: String,
        /// Why not.
        why: &'static str,
    },
    /// The key is one of quorlock's own.
    #[error("the key {key:?} is reserved: keys that start with \"quorlock~\" are quorlock's own")]
    ReservedKey {
        /// The key that the name would have.
        key: String,
    },
    /// All of no names.
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

/// A client could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is at odds with itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// So many nodes cannot be used that no majority can vote before an operator acts: replicas, nodes of another cluster or
    /// with other constants, one server twice.
    #[error("{}", list(nodes))]
    Unfit {
        /// Each of them, without secrets, and what is wrong with it.
        nodes: Vec<(String, String)>,
    },
    /// The same, and at least one of them refuses our password or permissions.
    #[error("{}", list(nodes))]
    Denied {
        /// Each of them, without secrets, and what is wrong with it, in the server's words.
        nodes: Vec<(String, String)>,
    },
    /// No majority of the nodes can vote.
    #[error("{}", no_majority(nodes, *waited))]
    NoMajority {
        /// Each node, without secrets, and why it cannot vote; `None` when it can.
        nodes: Vec<(String, Option<Silence>)>,
        /// How long `connect` waited.
        waited: Duration,
    },
}

/// Nodes, each with what is wrong with it.
fn list(nodes: &[(String, String)]) -> String {
    nodes.iter().map(|(node, why)| format!("{node}: {why}")).collect::<Vec<_>>().join("; ")
}

fn no_majority(nodes: &[(String, Option<Silence>)], waited: Duration) -> String {
    let out = || nodes.iter().filter_map(|(_, why)| why.as_ref());
    let mut text = format!("no majority: {} of {} nodes cannot vote", out().count(), nodes.len());
    // A quarantine that lasts longer than the timeout is not waited for.
    if !waited.is_zero() {
        let _ = write!(text, " after {:.1}s", waited.as_secs_f64());
    }
    for (index, (node, why)) in nodes.iter().enumerate() {
        let sign = if index == 0 { ":" } else { ";" };
        let _ = match why {
            Some(why) => write!(text, "{sign} {node} {why}"),
            None => write!(text, "{sign} {node} can vote"),
        };
    }
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
    /// Too few nodes answered: no majority, or not a single one that tells its history.
    #[error("{operation}: {}", Account(tally))]
    NoQuorum {
        /// What was asked for.
        operation: Operation,
        /// The nodes that answered, and why the others did not.
        tally: Tally,
    },
    /// The position in a list is not one that a page gave. Nothing was sent.
    #[error("invalid position: pass `next` of the page before")]
    Position,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// An operation that too few nodes answered. It is displayed as the failure, such as `not extended`.
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
            Self::Inspect(name) => write!(f, "no quorum for a look at {name:?}"),
            Self::List => f.write_str("no quorum for a listing"),
            Self::History => f.write_str("no node tells its history"),
        }
    }
}

/// A lock was not acquired. Whatever votes the attempt got are being taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody else holds it.
    #[error("{0}")]
    Held(Box<HeldError>),
    /// Somebody else held it for as long as the caller wanted to wait, or that was shorter than the nodes took to answer.
    #[error("waited in vain: {0}")]
    WaitTimeout(Box<HeldError>),
    /// A semaphore of this name is in use with another number of permits.
    #[error("{name:?} is in use as a semaphore with {stored} permits, not {asked}: all who use it must agree")]
    Permits {
        /// What was to be locked.
        name: Name,
        /// How many were asked for.
        asked: u32,
        /// How many it has.
        stored: u32,
    },
    /// The asker reads what it wants to have alone: it would wait for itself.
    #[error("{name:?} is read by the same owner, who would wait for itself: release the read lease first")]
    Upgrade {
        /// What was to be locked.
        name: Name,
    },
    /// The owner was retired: it has released everything, and is not let in again.
    #[error("{name:?} was released by this owner for good: it is not let in again")]
    Retired {
        /// What was to be locked.
        name: Name,
    },
    /// Too few nodes voted.
    #[error("no quorum for {name:?}: {}", Account(tally))]
    NoQuorum {
        /// What was to be locked.
        name: Name,
        /// Who said what in the last round.
        tally: Tally,
    },
    /// A majority granted, but too late for the lease to be of use.
    #[error("too slow for {name:?}: a majority granted, but too late for the lease to be of use ({})", Account(tally))]
    TooSlow {
        /// What was to be locked.
        name: Name,
        /// Who said what in the last round.
        tally: Tally,
    },
    /// The lock was asked for in a way that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// The lease is over: nothing that it protected may be touched any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostError {
    /// Its validity ran out before a renewal succeeded.
    #[error("the lease is lost: its validity ran out before it was renewed")]
    Expired,
    /// So many nodes refuse it that no majority is left: its keys were deleted, or it is a plain lock and was broken.
    #[error("the lease is lost: a majority of the nodes no longer has it")]
    Taken,
    /// Somebody broke it.
    #[error("the lease is lost: it was broken")]
    Broken,
    /// A lease that was detached, and ended by whoever else has it: released, or broken.
    #[error("the lease is lost: it was released, or broken")]
    Ended,
    /// The client that held it was closed or dropped, and the lease released with it.
    #[error("the lease is over: its client was closed")]
    Closed,
    /// It is still held, but not for as long as was asked.
    #[error("the lease ends in {left:?}, sooner than the {needed:?} asked for")]
    TooShort {
        /// What is left.
        left: Duration,
        /// What was asked for.
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

/// There is no fence to hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The lease is over.
    #[error(transparent)]
    Lost(#[from] LostError),
    /// A plain lock has none.
    #[error("a plain lock has no fence")]
    Plain,
    /// The name is not among those that are held.
    #[error("the name is not among those that are held")]
    NotHeld,
}

/// A lease was not extended, checked or released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease is over, and stays so. After a check of a detached lease, see [`Client::check`](crate::Client::check).
    #[error(transparent)]
    Lost(#[from] LostError),
    /// Too few nodes answered by the node deadline.
    ///
    /// A lease that was not extended or checked may be held until its validity ends. One that was not released is over: its client
    /// goes on trying as long as it lives, and votes that it cannot take back lapse with their ttl.
    #[error("{operation}: {}", Account(tally))]
    NoQuorum {
        /// What was asked for.
        operation: Operation,
        /// The vote of each node; "granted" means extended, standing or taken back.
        tally: Tally,
    },
    /// These nodes cannot have a lease like this. Only of a detached lease: nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client was closed. Only of a detached lease, which does not end with it: it may be held until its ttl ends.
    #[error("the client was closed")]
    Closed,
}

/// The work was not done under the lock, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It never began.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost meanwhile, and the work dropped.
    #[error(transparent)]
    Lost(#[from] LostError),
}

/// Some releases could not be delivered before the client was closed: they lapse with their ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("closed with {owed} releases undelivered: what they would free lapses with its ttl")]
pub struct CloseError {
    /// How many, over all nodes.
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
