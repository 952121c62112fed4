//! A look at a name on every node, which changes nothing.

use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, Name};
use quorlock_core::quorum::Quorum;
use quorlock_core::ticket::Waiting;
use quorlock_core::vote::{HeldBy, Outcome, Report, Request, Silence, Target, Vote};

use crate::cluster::Cluster;
use crate::cluster::broadcast::Broadcast;
use crate::error::{Operation, ReadError};
use crate::node::key::LockKey;

/// How a name stands on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// What was looked at.
    pub name: Name,
    /// Each node's URL, without secrets, and what it said, or why it did not.
    pub nodes: Vec<(String, Result<Report, Silence>)>,
    quorum: Quorum,
}

impl Inspection {
    /// Who holds the name by the word of a majority, and with which fence; `None` when nobody does, or when the nodes
    /// were caught in the middle of a change.
    pub fn holder(&self) -> Option<(Option<Holder>, Fence)> {
        let (_, fence, held) = self.majority()?;
        Some((held.holder.clone(), fence))
    }

    /// Whether anybody has it or waits for it, on any node.
    pub fn is_in_use(&self) -> bool {
        let reports = self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok());
        self.waiting() > 0 || reports.into_iter().any(|report| report.held.is_some())
    }

    /// What [`break_lock`](crate::Client::break_lock) has to be told to break what stands now, by the word of a majority:
    /// its fence, or its digest if it has none. `None` when nobody holds it, or the nodes were caught in a change.
    pub fn target(&self) -> Option<Target> {
        Some(self.majority()?.0)
    }

    /// What stands on a majority of the nodes.
    fn majority(&self) -> Option<(Target, Fence, &HeldBy)> {
        let carried = |target: Target| self.held().filter(|(other, ..)| *other == target).count();
        self.held().find(|(target, ..)| carried(*target) >= self.quorum.majority())
    }

    /// What stands on each node: by which it is known, the fence that is stored, and the rest.
    fn held(&self) -> impl Iterator<Item = (Target, Fence, &HeldBy)> {
        let reports = self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok());
        reports.filter_map(|report| {
            let held = report.held.as_ref()?;
            Some((held.digest.map_or(Target::Fence(report.fence), Target::Digest), report.fence, held))
        })
    }

    /// The first who wait in the queue, in order, on the node where most do: no more than
    /// [`QUEUE_LISTED_MAX`](crate::QUEUE_LISTED_MAX).
    pub fn queue(&self) -> &[Waiting] {
        let reports = self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok());
        reports.max_by_key(|report| report.waiting).map_or(&[], |report| &report.queue)
    }

    /// How many wait in the queue, on the node where most do.
    pub fn waiting(&self) -> u32 {
        self.nodes.iter().filter_map(|(_, said)| Some(said.as_ref().ok()?.waiting)).max().unwrap_or_default()
    }
}

/// Asks every node, and waits until all have answered or the deadline is over.
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
