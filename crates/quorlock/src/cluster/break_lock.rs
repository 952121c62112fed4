//! Breaks another client's lease, identified by its fence, on a majority of the nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::name::Name;
use quorlock_core::nodes::NodeSet;
use quorlock_core::request::{BreakMode, Request, Target};
use quorlock_core::round::Round;
use quorlock_core::vote::{Outcome, Refusal, Vote};

use crate::cluster::Cluster;
use crate::cluster::broadcast::Broadcast;
use crate::error::BreakError;
use crate::node::LockKey;
use crate::node::event::{What, word_for_break};

/// A request to break a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Break {
    /// The lease to break. Later leases of the same name are not broken.
    pub target: Target,
    /// When the lock becomes free.
    pub mode: BreakMode,
    /// The reason for the break. The history records this reason and the client that broke the lease.
    pub reason: String,
}

impl Break {
    /// Returns a request to break the lease that `target` identifies. Nobody else gets the lock before the time at
    /// which the lease would have expired. [`Inspection::target`] returns the target of the current lease.
    ///
    /// [`Inspection::target`]: crate::Inspection::target
    pub fn new(target: Target, reason: impl Into<String>) -> Self {
        Self { target, mode: BreakMode::Drain, reason: reason.into() }
    }

    /// Frees the lock at once. Until the old holder learns that its lease is broken, there may be two holders.
    #[must_use]
    pub fn now(mut self) -> Self {
        self.mode = BreakMode::Now;
        self
    }
}

/// The result of breaking a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// The name of the lock.
    pub name: Name,
    /// The number of nodes on which the lease is broken: at least a majority.
    pub nodes: usize,
    /// The time until the lock becomes free; zero if the break freed the lock at once.
    pub drain_time: Duration,
}

/// Asks every node to break the lease. Waits until all nodes have answered or the deadline has passed.
pub(crate) async fn break_lock(
    cluster: &Cluster,
    key: &Arc<LockKey>,
    Break { target, mode, reason }: Break,
) -> Result<Broken, BreakError> {
    let name = key.name.clone();
    let mut round = ask(cluster, key, target, mode).await?;
    // Only a majority certainly stores the fence of the lease, and the other nodes may store another fence. Ask these
    // nodes to break the lease by its digest.
    let digests: BTreeSet<Digest> = breaks(&round).map(|(digest, ..)| digest).collect();
    for digest in digests {
        let missed = other_leases(&round).filter(|(.., other)| *other == digest).map(|(node, ..)| node);
        let missed: NodeSet = missed.collect();
        if missed.is_empty() {
            continue;
        }
        let again = ask(cluster, key, Target::Digest(digest), mode).await?;
        for node in missed.iter() {
            if let Some(outcome) = again.replies()[node].clone() {
                round.take(node, outcome);
            }
        }
    }
    let majority = round.electors().majority();
    let nodes = breaks(&round).count();
    let is_broken = breaks(&round).any(|(_, stood, _)| stood);
    if nodes >= majority && is_broken {
        let fence = if let Target::Fence(fence) = target { Some(fence) } else { None };
        let event = cluster.event(&name, What::Broken, fence);
        let by = Some(cluster.settings.holder.clone());
        cluster.write_history(event.by(by, word_for_break(mode)).because(&reason), true);
        tracing::warn!(%name, %target, ?mode, %reason, nodes, "lease broken");
        let drain_time = breaks(&round).map(|(.., remaining)| remaining).max().unwrap_or_default();
        return Ok(Broken { name, nodes, drain_time });
    }
    let absent = round.refusals().filter(|why| **why == Refusal::Absent).count();
    if nodes + absent >= majority && !is_broken {
        return Err(BreakError::NotHeld { name });
    }
    if nodes + absent + other_leases(&round).count() >= majority
        && let Some((_, fence, digest)) = other_leases(&round).max_by_key(|(_, fence, _)| *fence)
    {
        let holder = round.refusals().find_map(|why| match why {
            Refusal::Other { digest: other, holder, .. } if *other == digest => holder.clone(),
            _ => None,
        });
        let current = fence.map_or(Target::Digest(digest), Target::Fence);
        return Err(BreakError::AnotherLease { name, current, holder });
    }
    Err(BreakError::NoQuorum { name, tally: cluster.name_nodes(round.tally()) })
}

async fn ask(cluster: &Cluster, key: &Arc<LockKey>, target: Target, mode: BreakMode) -> Result<Round, BreakError> {
    let (request, deadline) = (Request::Break { target, mode }, cluster.settings.look_deadline());
    Broadcast::ask(cluster, key, request, deadline, |_| false).await.ok_or(BreakError::Closed)
}

/// Returns, for each node on which the lease is broken: the digest of the lease, whether the node had a vote for it,
/// and the time until the lock is free.
fn breaks(round: &Round) -> impl Iterator<Item = (Digest, bool, Duration)> {
    round.replies().iter().flatten().filter_map(|outcome| match outcome {
        Outcome::Voted { vote: Vote::Broken { digest, stood, remaining }, .. } => Some((*digest, *stood, *remaining)),
        _ => None,
    })
}

/// Returns each node that has another lease, with the fence (if it has one) and the digest of that lease.
fn other_leases(round: &Round) -> impl Iterator<Item = (usize, Option<Fence>, Digest)> {
    round.replies().iter().enumerate().filter_map(|(node, reply)| match reply {
        Some(Outcome::Voted { vote: Vote::Refusal(Refusal::Other { fence, digest, .. }), .. }) => {
            Some((node, *fence, *digest))
        }
        _ => None,
    })
}
