//! The instructions of the two state machines, [`Acquire`](crate::acquire::Acquire) and [`Hold`](crate::hold::Hold).

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

/// An instruction to the driver of a state machine. The driver must carry out steps in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the request to these nodes.
    Ask {
        /// Positions in the configuration.
        nodes: NodeSet,
        /// The number of the renewal, which is returned with the answers; 0 for other requests.
        round: u32,
        /// The request, the same for all nodes.
        request: Request,
    },
    /// Mark the attempt as done, then release its votes on these nodes.
    Release {
        /// The attempt that is over.
        attempt: LeaseId,
        /// All nodes, because a lost reply may hide a grant.
        nodes: NodeSet,
        /// What happens to the position in the queue.
        parting: Option<Parting>,
    },
    /// Another client holds the lock, and the state of the queue has changed.
    Waits(Wait),
    /// The lock is won: the acquire ends and a hold begins.
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
    /// The lease is lost. This is final.
    Lost(Loss),
}

/// The state of the queue as a waiter sees it, for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Wait {
    /// The holder, if a node knows it.
    pub holder: Option<Holder>,
    /// The time until the holder's lease expires, unless it is renewed.
    pub remaining: Option<Duration>,
    /// The highest fence that any node reported.
    pub fence: Fence,
    /// The waiter's own position, from 1, on the node where it is furthest back.
    pub place: Option<u32>,
    /// The number of waiters on the same node.
    pub waiting: u32,
}

/// A lock that was won.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Won {
    /// The attempt that won: the lease's id from now on.
    pub attempt: LeaseId,
    /// The lease's fence; `None` for a plain lock.
    pub fence: Option<Fence>,
    /// How the lock is held; for a semaphore, with the granted slot.
    pub mode: Mode,
    /// For every node whose grant counts, the send time of its request.
    pub acks: Vec<Option<Moment>>,
    /// The end of the validity.
    pub valid_until: Moment,
    /// Whether the acquire had to seal: a majority did not grant one fence at first.
    pub sealed_late: bool,
    /// The waiter's queue position, which may still exist on nodes that did not grant.
    pub waiter: Option<Waiter>,
}

/// An acquire that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// The reason: held, no quorum, cut off, too slow, or a mismatch.
    pub verdict: Verdict,
    /// Each node's vote in the last round, or in the last round that named a holder.
    pub tally: Tally,
    /// The number of attempts.
    pub tried: u32,
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The validity ended before a renewal succeeded.
    Expired,
    /// So many nodes refused the lease that no majority of grants remains.
    Taken,
    /// So many nodes refused the lease that no majority of grants remains, and one of them reported a broken lease.
    Broken,
}
