//! Reads the state of a name on every node, without changing the state.

use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, Name};
use quorlock_core::request::{Request, Target};
use quorlock_core::vote::{HeldBy, Outcome, Report, Silence, Vote, Waiting};

use crate::cluster::Cluster;
use crate::cluster::broadcast::Broadcast;
use crate::error::{Operation, ReadError};
use crate::node::LockKey;

/// The state of a name on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name that was inspected.
    pub name: Name,
    /// For each node: the URL without secrets, and the node's report or the reason why the node did not answer.
    pub nodes: Vec<(String, Result<Report, Silence>)>,
    /// The number of members that are a majority.
    majority: usize,
}

impl Inspection {
    /// Returns the reports of the nodes that have answered.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.nodes.iter().filter_map(|(_, report)| report.as_ref().ok())
    }

    /// Returns the holder and the fence on which a majority of the nodes agrees. Returns `None` if nobody holds the
    /// lock, or if the lock changed while the nodes were read.
    pub fn holder(&self) -> Option<(Option<Holder>, Fence)> {
        let (_, fence, held) = self.majority_lease()?;
        Some((held.holder.clone(), fence))
    }

    /// Returns whether any node has a holder or a waiter.
    pub fn is_in_use(&self) -> bool {
        self.reports().any(|report| report.held.is_some() || report.waiting > 0)
    }

    /// Returns the target with which [`break_lock`](crate::Client::break_lock) breaks the current lease: the fence of
    /// the lease, or the digest of a plain lock's lease. Returns `None` if nobody holds the lock, or if the lock
    /// changed while the nodes were read.
    pub fn target(&self) -> Option<Target> {
        Some(self.majority_lease()?.0)
    }

    /// Returns the lease that a majority of the nodes has.
    fn majority_lease(&self) -> Option<(Target, Fence, &HeldBy)> {
        let count = |target: Target| self.leases().filter(|(other, ..)| *other == target).count();
        self.leases().find(|(target, ..)| count(*target) >= self.majority)
    }

    /// Returns the lease on each node that has one: the target of the lease, the stored fence, and the reported holder.
    fn leases(&self) -> impl Iterator<Item = (Target, Fence, &HeldBy)> {
        self.reports().filter_map(|report| {
            let held = report.held.as_ref()?;
            Some((held.digest.map_or(Target::Fence(report.fence), Target::Digest), report.fence, held))
        })
    }

    /// Returns the first waiters in the queue of the node with the most waiters, in order: at most
    /// [`QUEUE_LISTED_MAX`](crate::QUEUE_LISTED_MAX).
    pub fn queue(&self) -> &[Waiting] {
        self.reports().max_by_key(|report| report.waiting).map_or(&[], |report| &report.queue)
    }

    /// Returns the number of waiters on the node with the most waiters.
    pub fn waiting(&self) -> u32 {
        self.reports().map(|report| report.waiting).max().unwrap_or_default()
    }
}

/// Asks every node for its report. Waits until all nodes have answered or the deadline has passed.
pub(crate) async fn inspect(cluster: &Arc<Cluster>, key: &Arc<LockKey>) -> Result<Inspection, ReadError> {
    let deadline = cluster.settings.look_deadline();
    let round = Broadcast::ask(cluster, key, Request::Inspect, deadline, |_| false).await.ok_or(ReadError::Closed)?;
    if !round.is_answered() {
        return Err(ReadError::NoQuorum {
            operation: Operation::Inspect(key.name.clone()),
            tally: cluster.name_nodes(round.tally()),
        });
    }
    let titles = cluster.links.iter().map(|link| link.title.clone());
    Ok(Inspection {
        name: key.name.clone(),
        nodes: titles.zip(round.replies().iter().map(|reply| report(reply.as_ref()))).collect(),
        majority: round.electors().majority(),
    })
}

fn report(reply: Option<&Outcome>) -> Result<Report, Silence> {
    match reply {
        Some(Outcome::Voted { vote: Vote::Report(report), .. }) => Ok((**report).clone()),
        Some(Outcome::Voted { .. }) => Err(Silence::Failed("the answer is not a report".into())),
        Some(Outcome::Silent(why)) => Err(why.clone()),
        None => Err(Silence::Unheard),
    }
}
