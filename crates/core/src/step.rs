//! The instructions of the two machines, [`Acquire`](crate::acquire::Acquire) and [`Hold`](crate::hold::Hold).

use alloc::vec::Vec;
use core::time::Duration;

use crate::fence::Fence;
use crate::mode::Mode;
use crate::name::{Holder, LeaseId};
use crate::nodes::NodeSet;
use crate::quorum::{Tally, Verdict};
use crate::ticket::{Parting, Waiter};
use crate::time::Moment;
use crate::vote::Request;

/// An instruction to the driver of a machine. Steps are to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the request to these nodes.
    Ask {
        /// Positions in the configuration.
        nodes: NodeSet,
        /// The number of the renewal; 0 for a request that is none. Answers come back with it.
        round: u32,
        /// The same for all of them.
        request: Request,
    },
    /// Mark the attempt done, then release its votes on these nodes.
    Release {
        /// The attempt that is over.
        attempt: LeaseId,
        /// All nodes: a lost reply may hide a grant.
        nodes: NodeSet,
        /// What happens to the position in the queue.
        parting: Option<Parting>,
    },
    /// Somebody else holds the lock, and the state of the queue has changed.
    Waits(Wait),
    /// The lock is won: the acquire is over, and a hold begins.
    Won(Won),
    /// The acquire has failed.
    Defeated(Defeat),
    /// The renewal succeeded.
    Renewed {
        /// The number of the renewal.
        round: u32,
    },
    /// The renewal failed; the lease may still be valid for a while.
    Failed {
        /// The number of the renewal.
        round: u32,
        /// Each node's vote.
        tally: Tally,
    },
    /// The lease is lost, for good.
    Lost(Loss),
}

/// The state of the queue as a waiter sees it: for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Wait {
    /// The holder, where a node knows it.
    pub holder: Option<Holder>,
    /// How long the lock is theirs at most, unless they renew it.
    pub remaining: Option<Duration>,
    /// The highest fence that was seen.
    pub fence: Fence,
    /// The own position in the queue, from 1, on the node where it is furthest back.
    pub place: Option<u32>,
    /// The number of waiters on the same node.
    pub waiting: u32,
}

/// A lock that was won.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Won {
    /// The attempt that won: the lease's id from now on.
    pub attempt: LeaseId,
    /// Its fence; `None` for a plain lock.
    pub fence: Option<Fence>,
    /// How it is held; for a semaphore, with the slot that was granted.
    pub mode: Mode,
    /// For every node whose grant counts, when its request was sent.
    pub acks: Vec<Option<Moment>>,
    /// The end of validity.
    pub valid_until: Moment,
    /// Whether a majority had to be raised to one fence first.
    pub sealed_late: bool,
    /// The position in the queue that it had, and may still have on nodes that did not grant.
    pub waiter: Option<Waiter>,
}

/// An acquire that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// Held, no quorum, too slow, or a mismatch.
    pub verdict: Verdict,
    /// Each node's vote in the last round, or in the last one that named a holder.
    pub tally: Tally,
    /// How many attempts were made.
    pub tried: u32,
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Its validity ended before a renewal succeeded.
    Expired,
    /// So many nodes refuse it that no majority is left.
    Taken,
    /// The same, and nodes say that somebody broke it.
    Broken,
}
