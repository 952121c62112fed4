//! What travels between a client and a node about one name.

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

/// What a client asks of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Vote for this attempt, with a fence of at least the proposal. Repeated under one's own vote it is the seal.
    Acquire {
        /// The attempt that asks.
        attempt: LeaseId,
        /// The fence that the client would like to get from every node.
        proposal: Fence,
        /// How long the vote shall stand.
        ttl: Ttl,
        /// Who asks, as text for people.
        holder: Arc<str>,
        /// How it shall be held.
        mode: Mode,
        /// The asker's place in the queue. Without one, it does not wait, and does not overtake those who do.
        waiter: Option<Waiter>,
    },
    /// Let the vote stand for another ttl.
    Renew {
        /// The attempt that holds.
        attempt: LeaseId,
        /// The lease's fence, for a node that has to be told.
        fence: Fence,
        /// How long from now.
        ttl: Ttl,
        /// Vote anew where no vote stands. Only a hold that was never lost may ask for this.
        repair: bool,
        /// Who asks, as text for people.
        holder: Arc<str>,
        /// How it is held.
        mode: Mode,
    },
    /// Take the vote back.
    Release {
        /// The attempt that is over.
        attempt: LeaseId,
        /// Also refuse requests of this attempt that are still under way, for this many milliseconds.
        tombstone: Option<u64>,
        /// What becomes of the place in the queue, for an attempt that had one.
        parting: Option<Parting>,
    },
    /// Take back every entry that an owner has of this name, and refuse later ones.
    Retire {
        /// Whose.
        owner: OwnerId,
        /// For how many milliseconds it is not let in.
        tombstone: u64,
    },
    /// Tell how the name stands, and change nothing.
    Inspect,
    /// Tell whether this attempt's vote stands, and change nothing.
    Check {
        /// The attempt that is asked about.
        attempt: LeaseId,
        /// Which slot it must be in, of a semaphore.
        slot: Option<u32>,
    },
    /// End somebody else's lease, if it is still the one that is meant.
    Break {
        /// Which one.
        target: Target,
        /// When the next one may have the lock.
        mode: BreakMode,
    },
    /// `SET name id NX PX ttl`: the Redlock page to the letter.
    PlainAcquire {
        /// The attempt that asks.
        attempt: LeaseId,
        /// How long the vote shall stand.
        ttl: Ttl,
    },
    /// The page's compare-and-expire.
    PlainExtend {
        /// The attempt that holds.
        attempt: LeaseId,
        /// How long from now.
        ttl: Ttl,
    },
    /// The page's compare-and-delete.
    PlainRelease {
        /// The attempt that is over.
        attempt: LeaseId,
    },
}

impl Request {
    /// The attempt that it belongs to; no attempt's id for a request that belongs to none.
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

    /// The owner who enters, goes on or is retired with it.
    pub fn owner(&self) -> Option<OwnerId> {
        match self {
            Self::Acquire { mode, .. } | Self::Renew { mode, .. } => mode.owner(),
            Self::Retire { owner, .. } => Some(*owner),
            _ => None,
        }
    }

    /// Whether it takes back votes, and tells no more than whether there were any.
    pub fn is_release(&self) -> bool {
        matches!(self, Self::Release { .. } | Self::Retire { .. } | Self::PlainRelease { .. })
    }

    /// Whether a vote may stand because of it.
    pub fn may_grant(&self) -> bool {
        !self.is_release() && !matches!(self, Self::Break { .. }) && !self.is_look()
    }

    /// Whether it may leave a vote, or a place in the queue, where there was none.
    pub fn creates_vote(&self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::PlainAcquire { .. } | Self::Renew { repair: true, .. })
    }

    /// Whether it means anything only in the life of the node that the client knows. A vote that is taken back is gone
    /// in any life, and a look at a name is for people.
    pub fn needs_life(&self) -> bool {
        self.may_grant() || matches!(self, Self::Check { .. })
    }

    /// Whether it leaves everything as it is.
    pub fn is_look(&self) -> bool {
        matches!(self, Self::Inspect | Self::Check { .. })
    }

    /// Whether it is one of the Redlock page's own commands, which know nothing of epochs.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::PlainAcquire { .. } | Self::PlainExtend { .. } | Self::PlainRelease { .. })
    }
}

/// Which lease is to be broken: never by its id, which is its holder's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The one with this fence. If several hold together, all of them, and this is the newest one's.
    Fence(Fence),
    /// A plain lock, or one of another Redlock client: the vote with this digest.
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

/// When the next one may have a lock that is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BreakMode {
    /// When the lease would have ended anyway, had it not been renewed.
    #[default]
    Drain,
    /// At once. Until the old holder learns of it there may be two.
    Now,
}

/// A node's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// In favour. Of a release: the vote stood and is gone.
    Grant {
        /// The fence that the node stored; zero for releases and plain requests.
        fence: Fence,
        /// Which slot it is, of a semaphore.
        slot: Option<GrantedSlot>,
    },
    /// Against. Of a release: there was nothing to take back.
    Refusal(Refusal),
    /// Neither: what an inspection found.
    Report(Box<Report>),
    /// The vote that was checked stands.
    Standing {
        /// For how long, unless it is renewed; unknown when it has no end.
        remaining: Option<Duration>,
    },
    /// The lease is broken here, now or since an earlier request.
    Broken {
        /// Who had signed it.
        digest: Digest,
        /// Whether there was a vote to break: if not, the lease can just not be repaired here.
        stood: bool,
        /// How long nobody else gets it here.
        remaining: Duration,
    },
}

impl Vote {
    /// A grant with this fence, of a lock without slots.
    pub fn grant(fence: Fence) -> Self {
        Self::Grant { fence, slot: None }
    }
}

/// The most free slots that a grant lists.
pub const FREE_LISTED_MAX: usize = 16;

/// A slot that was granted, and which others would have been free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedSlot {
    /// From 0.
    pub index: u32,
    /// Other slots that are free on this node, in the order of looking, at most [`FREE_LISTED_MAX`].
    pub free: Vec<u32>,
}

/// How a name stands on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Report {
    /// The vote that stands.
    pub held: Option<HeldBy>,
    /// The highest fence that is stored; zero for none.
    pub fence: Fence,
    /// Since when the last vote stands, by the node's clock in microseconds; zero when nothing is known.
    pub since_micros: u64,
    /// How many wait in the queue.
    pub waiting: u32,
    /// The first of them, no more than [`QUEUE_LISTED_MAX`](crate::ticket::QUEUE_LISTED_MAX).
    pub queue: Vec<Waiting>,
}

/// A vote that stands, for people to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeldBy {
    /// Who holds, where the node knows it: the last who entered, if several do.
    pub holder: Option<Holder>,
    /// How long it still stands, unless it is renewed; unknown when it has no end.
    pub remaining: Option<Duration>,
    /// How it is held.
    pub period: Period,
    /// By how many.
    pub holds: u32,
    /// For a vote without a fence of its own, as of a plain lock: what to call it by.
    pub digest: Option<Digest>,
    /// Whether it was broken, and only stands for as long as its lease would have lasted.
    pub broken: bool,
}

/// Why a node voted against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Somebody else's vote stands.
    Held {
        /// Who, where the node knows it.
        holder: Option<Holder>,
        /// How long that vote still stands, unless it is renewed; unknown to plain requests.
        remaining: Option<Duration>,
        /// The highest fence that the node has stored for the name.
        fence: Fence,
        /// Who waits.
        queue: QueuePosition,
    },
    /// It could be had, but others have waited for longer.
    Behind {
        /// The highest fence that the node has stored for the name.
        fence: Fence,
        /// Who waits.
        queue: QueuePosition,
    },
    /// So many wait already that the node takes no more.
    QueueFull,
    /// The semaphore has another number of permits.
    Permits {
        /// How many it has, by those who hold it.
        stored: u32,
    },
    /// The asker holds a share itself: it would wait for itself.
    Upgrade,
    /// No vote stands that could be extended or taken back.
    Absent,
    /// Not the lease that was to be broken, but another.
    Other {
        /// Its fence, if it has one.
        fence: Option<Fence>,
        /// Who signed it.
        digest: Digest,
        /// Who holds it, where the node knows it.
        holder: Option<Holder>,
    },
    /// The proposal is further ahead of the node's clock than the cluster's max clock skew.
    TooFarAhead,
    /// The attempt is over here: it was released, or broken.
    Tombstoned,
    /// The owner is not let in any more: everything it had was released at once.
    Retired,
    /// The node lost its memory since the handshake.
    WrongEpoch,
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
                write!(f, "free, but {before} came before")
            }
            Self::QueueFull => write!(f, "{} wait already", crate::ticket::WAITERS_MAX),
            Self::Permits { stored } => write!(f, "it is held with {stored} permits"),
            Self::Upgrade => f.write_str("the asker holds a share itself"),
            Self::Absent => f.write_str("no vote stands"),
            Self::Other { fence: Some(fence), .. } => write!(f, "held with fence {fence}"),
            Self::Other { fence: None, digest, .. } => write!(f, "held without a fence, with digest {digest}"),
            Self::TooFarAhead => f.write_str("the proposed fence is too far ahead of the node's clock"),
            Self::Tombstoned => f.write_str("the attempt was ended here"),
            Self::Retired => f.write_str("the owner has released everything, and is not let in again"),
            Self::WrongEpoch => f.write_str("the node lost its memory"),
        }
    }
}

/// Why there is no vote. It is not a refusal: a grant may exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Silence {
    /// No connection, and why.
    Unreachable(String),
    /// The node lost its memory, and may vote when this much time has passed.
    Quarantined(Duration),
    /// The node and its cluster are new, and it may vote when this much time has passed.
    Founding(Duration),
    /// The node can be reached, but cannot be used before others can, and why.
    Waiting(String),
    /// The node cannot be used as it is set up.
    Unfit(String),
    /// The node's clock is this many microseconds away from the middle of all nodes.
    Skewed(i64),
    /// Nothing came back by the node deadline.
    Late,
    /// The asker's own time was over before the node deadline.
    CutOff,
    /// The connection ended before the answer came.
    Broken(String),
    /// The node answered with an error.
    Failed(String),
    /// The link owes too many releases to take on another request.
    Owing,
    /// The decision fell before this node was heard.
    Unheard,
}

impl Silence {
    /// How much of a quarantine is left, if that is the reason.
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
            Self::CutOff => f.write_str("had not answered when the wait was over"),
            Self::Broken(why) => write!(f, "broken: {why}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Owing => f.write_str("owes too many releases"),
            Self::Unheard => f.write_str("not heard before the decision"),
        }
    }
}

/// What came of one request to one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The node voted.
    Voted {
        /// How.
        vote: Vote,
        /// When the request left: a grant may be as old as that.
        sent: Moment,
    },
    /// It did not.
    Silent(Silence),
}
