//! The error of an acquire whose lock is held.

use std::fmt;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, Name};
use quorlock_core::vote::{NodeVote, Refusal, Report, Tally};

use super::Account;

/// The lock is held by another lease, or the wait ended before enough nodes answered. In the second case, no node has
/// refused the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldError {
    /// The name of the lock.
    pub name: Name,
    /// The holder, if a node knows the holder.
    pub holder: Option<Holder>,
    /// The time until the lease ends, unless the holder renews the lease.
    pub remaining: Option<Duration>,
    /// The highest fence that a node reported.
    pub fence: Option<Fence>,
    /// The votes of the last round.
    pub tally: Tally,
}

impl HeldError {
    pub(crate) fn new(name: Name, tally: Tally) -> Self {
        let mut error = Self { name, holder: None, remaining: None, fence: None, tally: Tally::default() };
        for vote in &tally.votes {
            if let NodeVote::Refused(Refusal::Held { holder, remaining, fence, .. }) = vote {
                error.add_node(holder.as_ref(), *remaining, *fence);
            }
        }
        Self { tally, ..error }
    }

    /// Adds the nodes' reports about the holder.
    pub(crate) fn add<'a>(&mut self, reports: impl Iterator<Item = &'a Report>) {
        for report in reports {
            if let Some(held) = &report.held {
                self.add_node(held.holder.as_ref(), held.remaining, report.fence);
            }
        }
    }

    /// Adds one node's report about the holder.
    fn add_node(&mut self, holder: Option<&Holder>, remaining: Option<Duration>, fence: Fence) {
        self.holder = self.holder.take().or_else(|| holder.cloned());
        self.remaining = self.remaining.max(remaining);
        self.fence = self.fence.max((fence > Fence::default()).then_some(fence));
    }
}

impl std::error::Error for HeldError {}

impl fmt::Display for HeldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tally.refused() == 0 {
            return write!(f, "too few nodes had answered for {:?}: {}", self.name, Account(&self.tally));
        }
        write!(f, "{:?} is held", self.name)?;
        if let Some(holder) = &self.holder {
            write!(f, " by {holder}")?;
        }
        if let Some(remaining) = self.remaining {
            write!(f, "; its lease ends in {remaining:.1?} unless renewed")?;
        }
        write!(f, " ({})", self.tally)
    }
}
