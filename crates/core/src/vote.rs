//! Votes: the answers of one node to a request, and the tally of all nodes' answers.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::digest::Digest;
use crate::fence::Fence;
use crate::name::Holder;
use crate::quorum::{Elector, Quorum};
use crate::terms::HeldMode;
use crate::time::Moment;

/// The most free slots that a grant lists.
pub const FREE_LISTED_MAX: usize = 16;
/// The most waiters that an inspection lists.
pub const QUEUE_LISTED_MAX: usize = 20;

/// A node's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// A vote in favour; for a release, the vote existed and is gone.
    Grant {
        /// The fence that the node stored; zero for releases and plain requests.
        fence: Fence,
        /// The slot, for a semaphore.
        slot: Option<GrantedSlot>,
    },
    /// A vote against; for a release, there was no vote.
    Refusal(Refusal),
    /// The result of an inspection.
    Report(Box<Report>),
    /// The checked vote exists.
    Standing {
        /// The time until the vote expires, unless the vote is renewed; unknown if it never expires.
        remaining: Option<Duration>,
    },
    /// The lease is broken here, by this request or an earlier one.
    Broken {
        /// The digest of the signature of the lease.
        digest: Digest,
        /// Whether there was a vote to break. If not, the request only prevents a repair of the lease here.
        stood: bool,
        /// How long this node will not grant the lock to any client.
        remaining: Duration,
    },
}

impl Vote {
    /// Returns a grant with this fence, for a lock without slots.
    pub fn grant(fence: Fence) -> Self {
        Self::Grant { fence, slot: None }
    }
}

/// A granted slot, and other slots that were free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedSlot {
    /// The number of the slot, from 0.
    pub index: u32,
    /// Other free slots on this node in search order, at most [`FREE_LISTED_MAX`].
    pub free: Vec<u32>,
}

/// The state of a name on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Report {
    /// The current vote.
    pub held: Option<HeldBy>,
    /// The highest stored fence, or zero.
    pub fence: Fence,
    /// The start of the last vote, by the node's clock in microseconds; zero if unknown.
    pub since_micros: u64,
    /// The number of waiters.
    pub waiting: u32,
    /// The first waiters, at most [`QUEUE_LISTED_MAX`].
    pub queue: Vec<Waiting>,
}

/// The current vote, for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeldBy {
    /// The holder, if the node knows the holder. If there are several holders, the last holder that entered.
    pub holder: Option<Holder>,
    /// The time until the vote expires, unless the vote is renewed; unknown if it never expires.
    pub remaining: Option<Duration>,
    /// How the lock is held.
    pub held_mode: HeldMode,
    /// The number of holders.
    pub holds: u32,
    /// The digest that identifies a vote without a fence, such as that of a plain lock.
    pub digest: Option<Digest>,
    /// Whether the lease was broken and the vote only remains until it would have expired.
    pub broken: bool,
}

/// Why a node refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Another client holds the lock.
    Held {
        /// The holder, if the node knows it.
        holder: Option<Holder>,
        /// The time until the holder's vote expires, unless the vote is renewed; unknown for plain requests.
        remaining: Option<Duration>,
        /// The highest fence that the node has stored for the name.
        fence: Fence,
        /// The client's view of the queue.
        queue: QueuePosition,
    },
    /// The lock is free, but earlier waiters come first.
    Behind {
        /// The highest fence that the node has stored for the name.
        fence: Fence,
        /// The client's view of the queue.
        queue: QueuePosition,
    },
    /// The node has reached its limit of waiters.
    QueueFull,
    /// The semaphore has a different number of permits.
    Permits {
        /// The number of permits that the current holders use.
        stored: u32,
    },
    /// The client's owner holds a shared lock, so the client would wait for itself.
    Upgrade,
    /// There is no vote to extend or release.
    Absent,
    /// The current lease is not the lease to break.
    Other {
        /// The fence of the current lease, if it has one.
        fence: Option<Fence>,
        /// The digest of the signature of the current lease.
        digest: Digest,
        /// The holder, if the node knows it.
        holder: Option<Holder>,
    },
    /// The proposal is further ahead of the node's clock than the cluster's max clock skew.
    TooFarAhead,
    /// The attempt is over on this node: it was released or broken.
    Tombstoned,
    /// The owner was retired: all its entries were released at once, and later entries are refused.
    Retired,
    /// The node lost its memory since the handshake.
    WrongEpoch,
    /// The node has installed another roster since the handshake. It has granted and forgotten nothing.
    NewRoster,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { holder, remaining, .. } => {
                f.write_str("held")?;
                if let Some(holder) = holder {
                    write!(f, " by {holder}")?;
                }
                match remaining {
                    Some(remaining) => write!(f, " for another {remaining:?}"),
                    None => Ok(()),
                }
            }
            Self::Behind { queue, .. } => {
                let before = queue.position.map_or(queue.waiting, |place| place.saturating_sub(1));
                write!(f, "free, but {before} earlier waiters come first")
            }
            Self::QueueFull => write!(f, "the queue is full: {} waiters", crate::request::WAITERS_MAX),
            Self::Permits { stored } => write!(f, "it is held with {stored} permits"),
            Self::Upgrade => f.write_str("the same owner holds a shared lock"),
            Self::Absent => f.write_str("it has no vote for this lease"),
            Self::Other { fence: Some(fence), .. } => write!(f, "held with fence {fence}"),
            Self::Other { fence: None, digest, .. } => write!(f, "held without a fence, with digest {digest}"),
            Self::TooFarAhead => f.write_str("the proposed fence is too far ahead of the node's clock"),
            Self::Tombstoned => f.write_str("the attempt was released or broken"),
            Self::Retired => f.write_str("the owner was retired"),
            Self::WrongEpoch => f.write_str("the node lost its memory"),
            Self::NewRoster => f.write_str("the node has a new roster"),
        }
    }
}

/// Why a node did not vote. Unlike after a refusal, the node may have granted the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Silence {
    /// There is no connection, for this reason.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The node lost its memory and may vote after this time.
    #[error("quarantined: it lost its memory and may vote in {0:.1?}")]
    Quarantined(Duration),
    /// The node and its cluster are new, and it may vote after this time.
    #[error("quarantined: it is new and may vote in {0:.1?}")]
    Founding(Duration),
    /// The node is reachable, but unusable until other nodes are usable, for this reason.
    #[error("waiting: {0}")]
    Waiting(String),
    /// The node's configuration makes it unusable, for this reason.
    #[error("unfit: {0}")]
    Unfit(String),
    /// The node's clock differs by this many microseconds from the median of all nodes.
    #[error("skewed: its clock is {:+.1} s off", *.0 as f64 / 1e6)]
    Skewed(i64),
    /// The node did not answer by the node deadline.
    #[error("silent: no answer by the node deadline")]
    Late,
    /// The caller's deadline passed before the node deadline.
    #[error("had not answered when the wait ended")]
    CutOff,
    /// The connection ended before the answer arrived.
    #[error("broken: {0}")]
    Broken(String),
    /// The node answered with an error.
    #[error("failed: {0}")]
    Failed(String),
    /// The link owes too many releases to accept another request.
    #[error("owes too many releases")]
    Owing,
    /// The round was decided before this node answered.
    #[error("had not answered when the round was decided")]
    Unheard,
}

impl Silence {
    /// Returns the remaining quarantine, if that is the reason.
    pub fn quarantine_left(&self) -> Option<Duration> {
        match self {
            Self::Quarantined(left) | Self::Founding(left) => Some(*left),
            _ => None,
        }
    }
}

/// The outcome of one request to one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The node voted.
    Voted {
        /// The vote.
        vote: Vote,
        /// Who voted.
        elector: Elector,
        /// When the request was sent. The ttl of a grant may have started at this time.
        sent: Moment,
    },
    /// The node did not vote.
    Silent(Silence),
}

/// A waiter, for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// When the ticket of the waiter was drawn, in microseconds by the median of the nodes' clocks.
    pub since_micros: u64,
    /// Whether the waiter wants a shared lock.
    pub shared: bool,
}

/// A vote that a node gives to the first waiter, by granting a request that the node refused before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handoff {
    /// The digest of the attempt. The waiter may have started another attempt since.
    pub attempt: Digest,
    /// The fence that the node stored.
    pub fence: Fence,
}

/// The queue as a refused client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueuePosition {
    /// The client's own position, from 1; `None` without a ticket.
    pub position: Option<u32>,
    /// The number of waiters, including the client.
    pub waiting: u32,
    /// Whether a lower ticket waits here or has this node's vote. The client must then yield its votes on other nodes.
    pub lower: bool,
}

/// The vote of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeVote {
    /// The node granted.
    Granted,
    /// The node refused, for this reason.
    Refused(Refusal),
    /// The node did not vote, for this reason.
    Silent(Silence),
}

impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Silent(why) => why.fmt(f),
        }
    }
}

/// The votes of a round: granted, refused and silent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Each node's vote, in the order of the configuration.
    pub votes: Vec<NodeVote>,
    /// Each node's name without secrets. The core leaves this list empty, and the driver fills it in.
    pub nodes: Vec<String>,
}

impl Tally {
    /// Counts the nodes that granted.
    pub fn granted(&self) -> usize {
        self.votes.iter().filter(|vote| matches!(vote, NodeVote::Granted)).count()
    }

    /// Counts the nodes that refused.
    pub fn refused(&self) -> usize {
        self.votes.iter().filter(|vote| matches!(vote, NodeVote::Refused(_))).count()
    }

    /// Counts the nodes that did not vote.
    pub fn silent(&self) -> usize {
        self.votes.iter().filter(|vote| matches!(vote, NodeVote::Silent(_))).count()
    }

    /// Returns how long quarantines keep a majority from voting. Assumes that nodes without an answer can vote.
    pub fn quarantine_left(&self) -> Option<Duration> {
        let (mut voting, mut left) = (0, Vec::new());
        for vote in &self.votes {
            match vote {
                NodeVote::Silent(Silence::Quarantined(time) | Silence::Founding(time)) => left.push(*time),
                NodeVote::Silent(
                    Silence::Unreachable(_) | Silence::Waiting(_) | Silence::Unfit(_) | Silence::Skewed(_),
                ) => {}
                _ => voting += 1,
            }
        }
        Quorum::quarantine_left(self.votes.len(), voting, left)
    }

    /// Returns each node's name with its vote.
    pub fn by_node(&self) -> impl Iterator<Item = (&str, &NodeVote)> {
        let names = self.nodes.iter().map(String::as_str).chain(core::iter::repeat("node"));
        names.zip(&self.votes)
    }
}

/// `2 of 5 granted, 1 silent, 1 quarantined, 1 refused`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} granted", self.granted(), self.votes.len())?;
        let silent = |want: fn(&Silence) -> bool| {
            self.votes.iter().filter(|vote| matches!(vote, NodeVote::Silent(why) if want(why))).count()
        };
        let quarantined = silent(|why| why.quarantine_left().is_some());
        let unheard = silent(|why| matches!(why, Silence::Unheard | Silence::CutOff));
        let counts = [
            (self.refused(), "refused"),
            (quarantined, "quarantined"),
            (unheard, "not heard"),
            (self.silent() - quarantined - unheard, "silent"),
        ];
        for (count, what) in counts {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A majority granted.
    Won,
    /// Votes for other clients prevent a majority.
    Held,
    /// Too few nodes voted.
    NoQuorum,
    /// The caller's deadline passed before enough nodes answered.
    CutOff,
    /// A majority granted, but too late to leave a useful validity.
    TooSlow,
    /// The requested mode conflicts with the mode of the current holders.
    Mismatch,
}

#[cfg(test)]
mod tests;
