//! The terms of a lease.

use alloc::sync::Arc;
use core::time::Duration;

use crate::backoff::Retry;
use crate::mode::Mode;
use crate::quorum::Quorum;
use crate::rules::Rules;
use crate::ticket::Channel;
use crate::time::{Drift, Moment, Ttl};
use crate::watchdog::Renewals;

/// How to acquire a lock, and how to hold it.
#[derive(Clone, Debug, Hash)]
pub struct Terms {
    /// The configured nodes.
    pub quorum: Quorum,
    /// The lifetime asked of the nodes, fixed for the life of the lease.
    pub ttl: Ttl,
    /// The margin subtracted from the ttl because clock rates differ.
    pub drift: Drift,
    /// The least validity of a lease at the win. An attempt that leaves less is too slow.
    pub min_validity: Duration,
    /// How long to wait for a node's answer.
    pub node_deadline: Duration,
    /// The delays and the number of attempts.
    pub retry: Retry,
    /// The moment at which the acquire ends, even in the middle of an attempt.
    pub give_up: Option<Moment>,
    /// The channel for hints to a waiter; `None` to fail rather than wait in the queue.
    pub channel: Option<Channel>,
    /// Whether to use the commands of the Redlock page: no fence, no queue.
    pub plain: bool,
    /// How the lock is held. The slot of a semaphore is known after the win.
    pub mode: Mode,
    /// The holder, as text for people.
    pub holder: Arc<str>,
    /// Whether and how often to renew.
    pub renewals: Renewals,
    /// Whether a node that lost its memory may vote at once. The votes that the node lost then no longer count.
    pub trusting: bool,
    /// The rules in force.
    pub rules: Rules,
}
