//! What is asked of an acquire, what it asks for, and what comes of it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::Wait;
use crate::backoff::Retry;
use crate::fence::Fence;
use crate::mode::Mode;
use crate::name::LeaseId;
use crate::nodes::NodeSet;
use crate::quorum::{Quorum, Tally, Verdict};
use crate::rules::Rules;
use crate::ticket::{Channel, Parting, Waiter};
use crate::time::{Drift, Moment, Ttl};
use crate::vote::Request;

/// What to acquire, and how.
#[derive(Clone, Debug, Hash)]
pub struct Plan {
    /// All nodes, by configuration.
    pub quorum: Quorum,
    /// The lifetime asked of the nodes.
    pub ttl: Ttl,
    /// What is taken off it.
    pub drift: Drift,
    /// A lease with less than this left at the decision is not worth handing out.
    pub min_validity: Duration,
    /// How long to wait for a node.
    pub node_deadline: Duration,
    /// When to ask again, and how often.
    pub retry: Retry,
    /// When to stop, whatever is under way.
    pub give_up: Option<Moment>,
    /// Where hints go for one who waits in the queue; `None` to be turned away rather than wait.
    pub channel: Option<Channel>,
    /// The Redlock page to the letter: no fence, no queue.
    pub plain: bool,
    /// How it shall be held.
    pub mode: Mode,
    /// Who asks, as text for people.
    pub holder: Arc<str>,
    /// The rules in force.
    pub rules: Rules,
}

/// What the driver has to do. Steps are to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the request to these nodes.
    Ask {
        /// Positions in the configuration.
        nodes: NodeSet,
        /// The same for all of them.
        request: Request,
    },
    /// Mark the attempt done, then take its votes back on these nodes.
    Release {
        /// The attempt that is over.
        attempt: LeaseId,
        /// All nodes: a lost reply may hide a grant.
        nodes: NodeSet,
        /// What becomes of the place in the queue.
        parting: Option<Parting>,
    },
    /// Call [`Acquire::tick`](super::Acquire::tick) at this moment, if nothing has finished it before.
    Wake(Moment),
    /// Somebody else has it, and this is how the queue looks now.
    Waits(Wait),
    /// It is over.
    Finish(Result<Won, Defeat>),
}

/// A lock that was won.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Won {
    /// The attempt that won: the lease's id from now on.
    pub attempt: LeaseId,
    /// Its fence; `None` for a plain lock.
    pub fence: Option<Fence>,
    /// How it is held; with the slot that it got, of a semaphore.
    pub mode: Mode,
    /// For every node that counts, when its granted request was sent.
    pub acks: Vec<Option<Moment>>,
    /// The end of validity.
    pub valid_until: Moment,
    /// Whether a majority had to be raised to one fence first.
    pub sealed_late: bool,
    /// The place in the queue that it had, and may still have on nodes that did not grant.
    pub waiter: Option<Waiter>,
}

impl Won {
    /// The nodes that count: one bit each.
    pub fn granted(&self) -> u32 {
        self.acks.iter().enumerate().fold(0, |bits, (node, ack)| bits | u32::from(ack.is_some()) << node)
    }
}

/// A lock that was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defeat {
    /// Held, no quorum, too slow, or a mismatch.
    pub verdict: Verdict,
    /// Who said what in the last round, or in the last one that told who held it.
    pub tally: Tally,
    /// How many attempts were made.
    pub tried: u32,
}
