//! Reads the state of a name on every node, without changing it.

use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, Name};
use quorlock_core::request::{Request, Target};
use quorlock_core::terms::Quorum;
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
    /// The URL of each node, without secrets, and its report, or the reason why the node did not report.
    pub nodes: Vec<(String, Result<Report, Silence>)>,
    quorum: Quorum,
}

impl Inspection {
    /// Returns the reports of the nodes that have answered.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok())
    }

    /// Returns the holder and the fence on which a majority of the nodes agrees. Returns `None` if nobody holds the
    /// name, or if the lock changed while the nodes were read.
    pub fn holder(&self) -> Option<(Option<Holder>, Fence)> {
        let (_, fence, held) = self.majority()?;
        Some((held.holder.clone(), fence))
    }

    /// Returns whether any node has a holder or a waiter.
    pub fn is_in_use(&self) -> bool {
        self.reports().any(|report| report.held.is_some() || report.waiting > 0)
    }

    /// Returns the target with which [`break_lock`](crate::Client::break_lock) breaks the current lease: its fence, or
    /// its digest if it is a plain lock. Returns `None` if nobody holds the name, or if the lock changed while the
    /// nodes were read.
    pub fn target(&self) -> Option<Target> {
        Some(self.majority()?.0)
    }

    /// Returns the lease that a majority of the nodes has.
    fn majority(&self) -> Option<(Target, Fence, &HeldBy)> {
        let carried = |target: Target| self.held().filter(|(other, ..)| *other == target).count();
        self.held().find(|(target, ..)| carried(*target) >= self.quorum.majority())
    }

    /// Returns the lease on each node: its target, the stored fence, and its report.
    fn held(&self) -> impl Iterator<Item = (Target, Fence, &HeldBy)> {
        self.reports().filter_map(|report| {
            let held = report.held.as_ref()?;
            Some((held.digest.map_or(Target::Fence(report.fence), Target::Digest), report.fence, held))
        })
    }

    /// Returns the first waiters in the queue, in order, on the node with the most waiters: at most
    /// [`QUEUE_LISTED_MAX`](crate::QUEUE_LISTED_MAX).
    pub fn queue(&self) -> &[Waiting] {
        self.reports().max_by_key(|report| report.waiting).map_or(&[], |report| &report.queue)
    }

    /// Returns the number of waiters, on the node with the most.
    pub fn waiting(&self) -> u32 {
        self.reports().map(|report| report.waiting).max().unwrap_or_default()
    }
}

/// Asks every node, and waits until all nodes have answered or the deadline has passed.
pub(crate) async fn inspect(cluster: &Arc<Cluster>, key: &Arc<LockKey>) -> Result<Inspection, ReadError> {
    let patience = cluster.settings.look_deadline();
    let round = Broadcast::ask(cluster, key, Request::Inspect, patience, |_| false).await.ok_or(ReadError::Closed)?;
    let quorum = cluster.settings.quorum;
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
        quorum,
    })
}

fn report(reply: Option<&Outcome>) -> Result<Report, Silence> {
    match reply {
        Some(Outcome::Voted { vote: Vote::Report(report), .. }) => Ok((**report).clone()),
        Some(Outcome::Voted { .. }) => Err(Silence::Failed("the answer is no report".into())),
        Some(Outcome::Silent(why)) => Err(why.clone()),
        None => Err(Silence::Unheard),
    }
}
