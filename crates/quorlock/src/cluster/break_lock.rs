//! Breaking a lease of somebody else: by its fence, on a majority of the nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::digest::Digest;
use quorlock_core::name::Name;
use quorlock_core::vote::{BreakMode, Outcome, Refusal, Request, Target, Vote};

use crate::cluster::Cluster;
use crate::cluster::broadcast::{Votes, tally};
use crate::error::BreakError;
use crate::node::event::{What, word_for_break};
use crate::node::key::LockKey;

/// What is to be broken, how, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Break {
    /// Which lease: one that has been acquired since is left alone.
    pub target: Target,
    /// When the next one may have the lock.
    pub mode: BreakMode,
    /// Why, for people: it is written into the history, with who did it.
    pub reason: String,
}

impl Break {
    /// Breaks the lease with this fence, or without a fence the vote with this digest, as [`Inspection::target`] tells
    /// it. Nobody else gets the lock before the lease would have ended.
    ///
    /// [`Inspection::target`]: crate::Inspection::target
    pub fn new(target: Target, reason: impl Into<String>) -> Self {
        Self { target, mode: BreakMode::Drain, reason: reason.into() }
    }

    /// The next one may have the lock at once: until the old holder learns that it is broken, there may be two.
    #[must_use]
    pub fn now(mut self) -> Self {
        self.mode = BreakMode::Now;
        self
    }
}

/// What came of breaking a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// What was locked.
    pub name: Name,
    /// On how many nodes the lease is broken: at least a majority.
    pub nodes: usize,
    /// How long nobody else gets the lock; zero for one that was freed at once.
    pub drains: Duration,
}

/// Asks every node to break the lease, and waits until all have answered or the deadline is over.
pub(crate) async fn break_lock(
    cluster: &Cluster,
    key: &Arc<LockKey>,
    Break { target, mode, reason }: Break,
) -> Result<Broken, BreakError> {
    let name = key.name.clone();
    let mut said = ask(cluster, key, target, mode).await?;
    // Nodes may carry another fence for the same lease: only a majority is sure to carry the one it is known by.
    for digest in missed(&said) {
        let again = ask(cluster, key, Target::Digest(digest), mode).await?;
        for (said, again) in said.iter_mut().zip(again).filter(|(said, _)| is_of(said, digest)) {
            *said = again;
        }
    }
    let count = Count::of(&said);
    let majority = cluster.settings.quorum.majority();
    if count.broken >= majority && count.stood > 0 {
        let fence = if let Target::Fence(fence) = target { Some(fence) } else { None };
        let event = cluster.event(&name, What::Broken, fence);
        let by = Some(cluster.settings.holder.clone());
        cluster.note_at_once(event.by(by, word_for_break(mode)).because(&reason));
        tracing::warn!(%name, %target, ?mode, %reason, nodes = count.broken, "lease broken");
        return Ok(Broken { name, nodes: count.broken, drains: count.drains });
    }
    if count.broken + count.absent >= majority && count.stood == 0 {
        return Err(BreakError::NotHeld { name });
    }
    if count.broken + count.absent + count.others >= majority
        && let Some(other) = newest(&name, &said)
    {
        return Err(other);
    }
    Err(BreakError::NoQuorum { name, tally: tally(cluster, said) })
}

async fn ask(
    cluster: &Cluster,
    key: &Arc<LockKey>,
    target: Target,
    mode: BreakMode,
) -> Result<Vec<Outcome>, BreakError> {
    let votes = Votes::by(cluster, cluster.settings.look_deadline()).ok_or(BreakError::Closed)?;
    votes.ask(cluster, key, Request::Break { target, mode });
    Ok(votes.all().await)
}

/// The digests of attempts whose votes were broken on some nodes, by their fence, and stand on others with another.
fn missed(said: &[Outcome]) -> BTreeSet<Digest> {
    let broken = said.iter().filter_map(|outcome| match outcome {
        Outcome::Voted { vote: Vote::Broken { digest, .. }, .. } => Some(*digest),
        _ => None,
    });
    broken.filter(|digest| said.iter().any(|outcome| is_of(outcome, *digest))).collect()
}

/// Whether a node left a vote alone that this digest stands for.
fn is_of(outcome: &Outcome, wanted: Digest) -> bool {
    matches!(outcome, Outcome::Voted { vote: Vote::Refusal(Refusal::Other { digest, .. }), .. } if *digest == wanted)
}

#[derive(Default)]
struct Count {
    broken: usize,
    /// Of those, where there was a vote to break.
    stood: usize,
    absent: usize,
    others: usize,
    drains: Duration,
}

impl Count {
    fn of(said: &[Outcome]) -> Self {
        let mut count = Self::default();
        for outcome in said {
            match outcome {
                Outcome::Voted { vote: Vote::Broken { stood, remaining, .. }, .. } => {
                    count.broken += 1;
                    count.stood += usize::from(*stood);
                    count.drains = count.drains.max(*remaining);
                }
                Outcome::Voted { vote: Vote::Refusal(Refusal::Absent), .. } => count.absent += 1,
                Outcome::Voted { vote: Vote::Refusal(Refusal::Other { .. }), .. } => count.others += 1,
                Outcome::Voted { .. } | Outcome::Silent(_) => {}
            }
        }
        count
    }
}

/// The newest lease that stands instead.
fn newest(name: &Name, said: &[Outcome]) -> Option<BreakError> {
    let others = said.iter().filter_map(|outcome| match outcome {
        Outcome::Voted { vote: Vote::Refusal(Refusal::Other { fence, digest, holder }), .. } => {
            Some((*fence, *digest, holder.clone()))
        }
        _ => None,
    });
    let (fence, digest, holder) = others.max_by_key(|(fence, ..)| *fence)?;
    let target = fence.map_or(Target::Digest(digest), Target::Fence);
    Some(BreakError::Other { name: name.clone(), target, holder })
}
