//! Messages between a client and a node about one name.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::digest::Digest;
use crate::fence::Fence;
use crate::mode::{Mode, OwnerId, Period};
use crate::name::{Holder, LeaseId};
use crate::ticket::{Parting, QueuePosition, Waiter, Waiting};
use crate::time::{Moment, Ttl};

/// A request to one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Asks for a vote with a fence of at least the proposal. If the attempt already has the vote, the request raises
    /// its fence, which is called the seal.
    Acquire {
        /// The attempt that makes the request.
        attempt: LeaseId,
        /// The fence that the client wants every node to grant.
        proposal: Fence,
        /// The lifetime of the vote.
        ttl: Ttl,
        /// The holder, as text for people.
        holder: Arc<str>,
        /// How to hold the lock.
        mode: Mode,
        /// The client's position in the queue. A client without one does not wait, and does not overtake waiters.
        waiter: Option<Waiter>,
    },
    /// Extends the vote by another ttl.
    Renew {
        /// The attempt that holds the lock.
        attempt: LeaseId,
        /// The lease's fence, for a node that has lost it.
        fence: Fence,
        /// The lifetime of the vote from now on.
        ttl: Ttl,
        /// Whether to restore a missing vote. Only a hold that was never lost may request this.
        repair: bool,
        /// The holder, as text for people.
        holder: Arc<str>,
        /// How the lock is held.
        mode: Mode,
    },
    /// Releases the vote.
    Release {
        /// The attempt that is over.
        attempt: LeaseId,
        /// How many milliseconds the node refuses requests of this attempt that are still in flight.
        tombstone: Option<u64>,
        /// What happens to the queue position of an attempt that has one.
        parting: Option<Parting>,
    },
    /// Releases every entry that an owner has of this name, and refuses later ones.
    Retire {
        /// The owner.
        owner: OwnerId,
        /// How many milliseconds the node refuses the owner.
        tombstone: u64,
    },
    /// Returns the state of the name without changing it.
    Inspect,
    /// Returns whether this attempt's vote exists, without changing it.
    Check {
        /// The attempt to check.
        attempt: LeaseId,
        /// The slot that it must have, for a semaphore.
        slot: Option<u32>,
    },
    /// Breaks another client's lease, if it is still the current one.
    Break {
        /// The lease to break.
        target: Target,
        /// When the next client may have the lock.
        mode: BreakMode,
    },
    /// `SET name id NX PX ttl`, exactly as on the Redlock page.
    PlainAcquire {
        /// The attempt that makes the request.
        attempt: LeaseId,
        /// The lifetime of the vote.
        ttl: Ttl,
    },
    /// The compare-and-expire script of the Redlock page.
    PlainExtend {
        /// The attempt that holds the lock.
        attempt: LeaseId,
        /// The lifetime of the vote from now on.
        ttl: Ttl,
    },
    /// The compare-and-delete script of the Redlock page.
    PlainRelease {
        /// The attempt that is over.
        attempt: LeaseId,
    },
}

impl Request {
    /// Returns the attempt of the request, or an id that no attempt has if the request belongs to none.
    pub fn attempt(&self) -> LeaseId {
        match self {
            Self::Acquire { attempt, .. }
            | Self::Renew { attempt, .. }
            | Self::Release { attempt, .. }
            | Self::Check { attempt, .. }
            | Self::PlainAcquire { attempt, .. }
            | Self::PlainExtend { attempt, .. }
            | Self::PlainRelease { attempt } => *attempt,
            Self::Retire { .. } | Self::Inspect | Self::Break { .. } => LeaseId::from_bits(0),
        }
    }

    /// Returns the owner that enters, renews or is retired.
    pub fn owner(&self) -> Option<OwnerId> {
        match self {
            Self::Acquire { mode, .. } | Self::Renew { mode, .. } => mode.owner(),
            Self::Retire { owner, .. } => Some(*owner),
            _ => None,
        }
    }

    /// Returns whether the request only releases votes. The answer then tells only whether there were any.
    pub fn is_release(&self) -> bool {
        matches!(self, Self::Release { .. } | Self::Retire { .. } | Self::PlainRelease { .. })
    }

    /// Returns whether the request can give or extend a vote.
    pub fn may_grant(&self) -> bool {
        !self.is_release() && !matches!(self, Self::Break { .. }) && !self.is_look()
    }

    /// Returns whether the request can create a vote or a queue position.
    pub fn creates_vote(&self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::PlainAcquire { .. } | Self::Renew { repair: true, .. })
    }

    /// Returns whether the request is valid only in the epoch from the client's handshake. A release is correct in any
    /// epoch, and an inspection is only for people.
    pub fn needs_life(&self) -> bool {
        self.may_grant() || matches!(self, Self::Check { .. })
    }

    /// Returns whether the request is read-only.
    pub fn is_look(&self) -> bool {
        matches!(self, Self::Inspect | Self::Check { .. })
    }

    /// Returns whether this is one of the Redlock page's own commands, which have no epochs.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::PlainAcquire { .. } | Self::PlainExtend { .. } | Self::PlainRelease { .. })
    }
}

/// The lease to break. The lease id does not identify it, because the id is a secret of the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The lease with this fence. If several clients share the lock, this is the newest one's fence and all of their
    /// leases are broken.
    Fence(Fence),
    /// A plain lock, or a lock of another Redlock client: the vote with this digest.
    Digest(Digest),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fence(fence) => write!(f, "fence {fence}"),
            Self::Digest(digest) => write!(f, "digest {digest}"),
        }
    }
}

/// When the next client may have a lock that was broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BreakMode {
    /// When the lease would have expired without a renewal.
    #[default]
    Drain,
    /// At once. There may be two holders until the old one notices.
    Now,
}

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
        /// The time until it expires, unless it is renewed; unknown if it never expires.
        remaining: Option<Duration>,
    },
    /// The lease is broken here, by this request or an earlier one.
    Broken {
        /// The digest of its signature.
        digest: Digest,
        /// Whether there was a vote to break. If not, the request only prevents a repair of the lease here.
        stood: bool,
        /// How long this node grants the lock to no one else.
        remaining: Duration,
    },
}

impl Vote {
    /// Returns a grant with this fence, for a lock without slots.
    pub fn grant(fence: Fence) -> Self {
        Self::Grant { fence, slot: None }
    }
}

/// The most free slots that a grant lists.
pub const FREE_LISTED_MAX: usize = 16;

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
    /// The first waiters, at most [`QUEUE_LISTED_MAX`](crate::ticket::QUEUE_LISTED_MAX).
    pub queue: Vec<Waiting>,
}

/// The current vote, for people to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeldBy {
    /// The holder, if the node knows it; the last to enter, if there are several.
    pub holder: Option<Holder>,
    /// The time until it expires, unless it is renewed; unknown if it never expires.
    pub remaining: Option<Duration>,
    /// How the lock is held.
    pub period: Period,
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
        /// The time until its vote expires, unless it is renewed; unknown for plain requests.
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
        /// The number of permits of its current holders.
        stored: u32,
    },
    /// The client itself holds a shared lock, and would wait for itself.
    Upgrade,
    /// There is no vote to extend or release.
    Absent,
    /// The current lease is not the one to break.
    Other {
        /// The fence of the current lease, if it has one.
        fence: Option<Fence>,
        /// The digest of its signature.
        digest: Digest,
        /// The holder, if the node knows it.
        holder: Option<Holder>,
    },
    /// The proposal is further ahead of the node's clock than the cluster's max clock skew.
    TooFarAhead,
    /// The attempt is over on this node: it was released or broken.
    Tombstoned,
    /// The owner was retired: all its entries were released at once, and later ones are refused.
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
                let before = queue.place.map_or(queue.waiting, |place| place.saturating_sub(1));
                write!(f, "free, but {before} earlier waiters come first")
            }
            Self::QueueFull => write!(f, "the queue is full: {} waiters", crate::ticket::WAITERS_MAX),
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Silence {
    /// There is no connection, for this reason.
    Unreachable(String),
    /// The node lost its memory and may vote after this time.
    Quarantined(Duration),
    /// The node and its cluster are new, and it may vote after this time.
    Founding(Duration),
    /// The node is reachable, but unusable until other nodes are usable, for this reason.
    Waiting(String),
    /// The node's configuration makes it unusable, for this reason.
    Unfit(String),
    /// The node's clock differs by this many microseconds from the median of all nodes.
    Skewed(i64),
    /// The node did not answer by the node deadline.
    Late,
    /// The caller's deadline passed before the node deadline.
    CutOff,
    /// The connection ended before the answer arrived.
    Broken(String),
    /// The node answered with an error.
    Failed(String),
    /// The link owes too many releases to accept another request.
    Owing,
    /// The round was decided before this node answered.
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

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::Quarantined(left) => write!(f, "quarantined: it lost its memory and may vote in {left:.1?}"),
            Self::Founding(left) => write!(f, "quarantined: it is new and may vote in {left:.1?}"),
            Self::Waiting(why) => write!(f, "waiting: {why}"),
            Self::Unfit(why) => write!(f, "unfit: {why}"),
            Self::Skewed(micros) => write!(f, "skewed: its clock is {:+.1} s off", *micros as f64 / 1e6),
            Self::Late => f.write_str("silent: no answer by the node deadline"),
            Self::CutOff => f.write_str("had not answered when the wait ended"),
            Self::Broken(why) => write!(f, "broken: {why}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Owing => f.write_str("owes too many releases"),
            Self::Unheard => f.write_str("had not answered when the round was decided"),
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
        /// When the request was sent. The ttl of a grant may have started at this time.
        sent: Moment,
    },
    /// The node did not vote.
    Silent(Silence),
}
