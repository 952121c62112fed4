//! The health of a client's nodes, for users.

use std::time::Duration;

use quorlock_core::vote::Silence;

use crate::link::RoundTrips;

/// The health of one node, as this client has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node's URL, without secrets.
    pub node: String,
    /// The reason why the node cannot vote now; `None` if the node can vote.
    pub trouble: Option<Silence>,
    /// How long the node has been unable to vote, as this client has seen; `None` if the node can vote.
    pub silent_for: Option<Duration>,
    /// The newest round trip times; `None` before the first reply.
    pub round_trips: Option<RoundTrips>,
    /// The node's clock minus the median of all nodes' clocks, in microseconds, if at least three clocks are known.
    pub skew_micros: Option<i64>,
    /// How often the node has lost its memory since this client first connected to the node.
    pub restarts: u64,
}
