//! Requests to one node about one name, and the queue positions of waiters.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use crate::digest::Digest;
use crate::fence::Fence;
use crate::name::{Channel, LeaseId, OwnerId};
use crate::terms::Mode;
use crate::time::Ttl;

/// How long a node keeps a waiter in the queue after the waiter's last request. So a waiter whose process died leaves
/// the queue after this time.
pub const ENTRY_LEASE: Duration = Duration::from_secs(5);
/// The longest time between a waiter's requests, even without a hint: well within [`ENTRY_LEASE`].
pub const POLL_MAX: Duration = Duration::from_secs(1);
/// The most waiters for one name that a node keeps.
pub const WAITERS_MAX: u32 = 10_000;

/// A request to one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Asks for a vote with a fence of at least the proposal. If the attempt already has the vote, the request raises
    /// the fence of the vote (the seal).
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
        /// The client's position in the queue. A client without a position neither waits nor overtakes waiters.
        waiter: Option<Waiter>,
    },
    /// Extends the vote by another ttl.
    Renew {
        /// The attempt that holds the lock.
        attempt: LeaseId,
        /// The lease's fence, for a node that has lost the fence.
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
        /// For how many milliseconds the node refuses requests of this attempt that are still in flight.
        tombstone: Option<u64>,
        /// What happens to the queue position of an attempt that has one.
        parting: Option<Parting>,
    },
    /// Releases every entry that an owner has of this name, and refuses later entries.
    Retire {
        /// The owner.
        owner: OwnerId,
        /// For how many milliseconds the node refuses the owner.
        tombstone: u64,
    },
    /// Returns the state of the name without changing it.
    Inspect,
    /// Returns whether this attempt's vote exists, without changing it.
    Check {
        /// The attempt to check.
        attempt: LeaseId,
        /// The slot that the attempt must have, for a semaphore.
        slot: Option<u32>,
    },
    /// Breaks another client's lease, if that lease is still the current one.
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
    /// Returns the attempt of the request; for a request that belongs to no attempt, the id 0, which no attempt has.
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

    /// Returns whether the request only releases votes. The answer then says only whether there were votes to release.
    pub fn is_release(&self) -> bool {
        matches!(self, Self::Release { .. } | Self::Retire { .. } | Self::PlainRelease { .. })
    }

    /// Returns whether the request can give or extend a vote.
    pub fn may_grant(&self) -> bool {
        !self.is_release() && !matches!(self, Self::Break { .. }) && !self.is_read_only()
    }

    /// Returns whether the request can create a vote or a queue position.
    pub fn creates_vote(&self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::PlainAcquire { .. } | Self::Renew { repair: true, .. })
    }

    /// Returns whether the request is valid only in the epoch from the client's handshake. A release is correct in any
    /// epoch, and an inspection is only for people.
    pub fn needs_epoch(&self) -> bool {
        self.may_grant() || matches!(self, Self::Check { .. })
    }

    /// Returns whether the request is read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Inspect | Self::Check { .. })
    }

    /// Returns whether this is one of the Redlock page's own commands, which have no epochs.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::PlainAcquire { .. } | Self::PlainExtend { .. } | Self::PlainRelease { .. })
    }
}

/// The lease to break, identified without the lease id, which is a secret of the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The lease with this fence. If several clients share the lock, the newest of their fences breaks all of their
    /// leases.
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
    /// At once. There may be two holders until the old holder notices.
    Now,
}

/// A waiter's position in the queue: lower tickets come first, on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// When the ticket was drawn, in microseconds by the median of the nodes' clocks.
    pub at: u64,
    /// Random bits that order tickets of the same microsecond.
    pub id: u64,
}

impl Ticket {
    /// Parses the text of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, id) = text.split_once('-')?;
        let at = at.bytes().all(|b| b.is_ascii_digit()).then(|| at.parse().ok()).flatten()?;
        Some(Self { at, id: Self::parse_id(id)? })
    }

    /// Returns the random bits as 16 hexadecimal digits, which sort like the numbers.
    pub fn id_digits(self) -> String {
        alloc::format!("{:016x}", self.id)
    }

    /// Parses the text of [`id_digits`](Self::id_digits).
    pub fn parse_id(digits: &str) -> Option<u64> {
        crate::name::hex_digits::<16>(digits).and_then(|bits| u64::try_from(bits).ok())
    }
}

/// `1700000000123456-00000000000000ff`.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.at, self.id)
    }
}

/// A client that waits for a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The position in the queue.
    pub ticket: Ticket,
    /// The channel for hints.
    pub channel: Channel,
    /// Whether the client wants a shared lock. Such clients do not wait for each other.
    pub shared: bool,
}

/// What happens to a waiter's queue position when its votes are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parting {
    /// The waiter leaves the queue.
    Leave(Waiter),
    /// The waiter keeps its position, because a lower ticket comes first.
    Yield(Waiter),
}

impl Parting {
    /// Returns the waiter.
    pub fn waiter(self) -> Waiter {
        match self {
            Self::Leave(waiter) | Self::Yield(waiter) => waiter,
        }
    }
}

#[cfg(test)]
mod tests;
