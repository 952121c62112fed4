//! Extends, checks and releases detached leases. This process knows only the text of such a lease.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::delivery::Release;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, OwnerId};
use quorlock_core::nodes::NodeSet;
use quorlock_core::request::Request;
use quorlock_core::round::Round;
use quorlock_core::terms::HeldMode;
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::validity;
use quorlock_core::vote::{NodeVote, Outcome, Refusal, Silence, Vote};

use super::{DetachedLease, Released};
use crate::cluster::Cluster;
use crate::cluster::broadcast::Broadcast;
use crate::error::{ConfigError, LeaseError, LostError, Operation};
use crate::link::Sender;
use crate::node::LockKey;
use crate::node::event::{Event, What, word_for};
use crate::platform::clock;

/// The longest time for which the nodes refuse a retired owner: a week.
const TOMBSTONE_MILLIS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;
/// The number of ttls for which this client remembers that a lease is over, counted from the last call that found the
/// lease over. The nodes' tombstones last as long.
const ENDED_MEMORY_TTLS: u32 = 2;

/// Restarts the ttl on every node that still has the vote. A node without the vote does not grant it again, because
/// this client does not know whether the lease was lost in the meantime.
///
/// If no majority can have the lease any more, this client releases the remaining votes and does not extend the lease
/// again: lost is final. If the last extension found no majority, this function checks the lease before it extends the
/// lease. A caller that repeats extensions therefore does not keep a useless minority of votes alive.
pub(crate) async fn extend(cluster: &Arc<Cluster>, lease: &DetachedLease) -> Result<Duration, LeaseError> {
    if cluster.ended.has(lease.id, clock::now()) {
        mark_ended(cluster, lease);
        return Err(LostError::Ended.into());
    }
    if cluster.doubts.has(lease.id, clock::now()) {
        let check = Request::Check { attempt: lease.id, slot: lease.slot() };
        match time_left(cluster, lease, check, Operation::Extend).await {
            // A majority still has the lease, but not for long enough to rely on. The extension may still arrive before
            // the votes expire.
            Err(LeaseError::Lost(LostError::Expired)) => {}
            other => record_result(cluster, lease, other).map(|_| ())?,
        }
    }
    let (attempt, ttl) = (lease.id, lease.ttl);
    let request = match lease.fence {
        Some(fence) => {
            let (holder, mode) = (lease.holder.clone(), lease.mode);
            Request::Renew { attempt, fence, ttl, repair: false, holder, mode }
        }
        None => Request::PlainExtend { attempt, ttl },
    };
    let result = match time_left(cluster, lease, request, Operation::Extend).await {
        // The answers came too late to rely on them, but the nodes may have extended the lease.
        Err(LeaseError::Lost(LostError::Expired)) => {
            let mut late = Round::new(&cluster.settings.electors);
            late.silence_the_rest(&Silence::Late);
            Err(LeaseError::NoQuorum { operation: Operation::Extend, tally: cluster.name_nodes(late.tally()) })
        }
        other => other,
    };
    record_result(cluster, lease, result)
}

/// Remembers the result of an extension for the next extension. Writes a loss to the history once.
fn record_result(
    cluster: &Arc<Cluster>,
    lease: &DetachedLease,
    result: Result<Duration, LeaseError>,
) -> Result<Duration, LeaseError> {
    let now = clock::now();
    match &result {
        Ok(_) => cluster.doubts.forget(lease.id),
        Err(LeaseError::Lost(why)) => {
            cluster.doubts.forget(lease.id);
            let was_known = mark_ended(cluster, lease);
            if let Ok(key) = key(cluster, lease) {
                give_back(cluster, lease, &key, None);
            }
            // The call that released or broke the lease has written its own event.
            if !was_known && *why != LostError::Ended {
                cluster.note(|| event(cluster, lease, What::Lost).because(&why.to_string()));
            }
        }
        Err(LeaseError::NoQuorum { .. }) => {
            cluster.doubts.add(lease.id, now + lease.ttl.duration(), now);
        }
        Err(LeaseError::Config(_) | LeaseError::Closed) => {}
    }
    result
}

/// Remembers that the lease is over, so that this client does not extend it any more. Returns whether the client knew
/// that before.
fn mark_ended(cluster: &Cluster, lease: &DetachedLease) -> bool {
    let now = clock::now();
    cluster.ended.add(lease.id, now + lease.ttl.duration() * ENDED_MEMORY_TTLS, now)
}

/// Creates an event of a detached lease, with the current time.
pub(crate) fn event(cluster: &Cluster, lease: &DetachedLease, what: What) -> Event {
    let event = cluster.event(&lease.name, what, lease.fence);
    event.by(Holder::decode(&lease.holder), word_for(lease.mode, lease.fence))
}

/// Returns how long a majority of the nodes will keep the lease at least.
pub(crate) async fn check(cluster: &Arc<Cluster>, lease: &DetachedLease) -> Result<Duration, LeaseError> {
    let request = Request::Check { attempt: lease.id, slot: lease.slot() };
    time_left(cluster, lease, request, Operation::Check).await
}

/// Releases the votes on every node. Leaves a tombstone on each node: a note that makes the node refuse later requests
/// for this lease, because such requests of other processes may be under way.
pub(crate) async fn release(cluster: &Arc<Cluster>, lease: &DetachedLease) -> Result<Released, LeaseError> {
    let key = key(cluster, lease)?;
    if cluster.is_closed() {
        return Err(LeaseError::Closed);
    }
    let receipt = Broadcast::new(cluster, cluster.settings.node_deadline(lease.ttl));
    give_back(cluster, lease, &key, Some(&receipt));
    mark_ended(cluster, lease);
    let was_held = |round: &Round| round.grants().count() >= round.electors().majority();
    let round = receipt.wait(cluster, |round| was_held(round) || is_gone(round)).await;
    if was_held(&round) {
        cluster.note(|| event(cluster, lease, What::Released));
        return Ok(Released::StillHeld);
    }
    if round.is_answered() {
        return Ok(Released::AlreadyEnded);
    }
    // An unreachable node also counts as late. Let the tally show the reason why the node is unreachable instead.
    let mut tally = round.tally();
    for vote in tally.votes.iter_mut().filter(|vote| **vote == NodeVote::Silent(Silence::Late)) {
        *vote = NodeVote::Silent(Silence::Unheard);
    }
    Err(LeaseError::NoQuorum { operation: Operation::Release, tally: cluster.name_nodes(tally) })
}

/// Queues the releases of a lease at all links, without waiting for replies.
pub(crate) fn give_back(
    cluster: &Arc<Cluster>,
    lease: &DetachedLease,
    key: &Arc<LockKey>,
    receipt: Option<&Arc<Broadcast>>,
) {
    cluster.claims.end_repair(lease.mode.owner(), lease.id);
    let release = Release {
        attempt: lease.id,
        ttl: lease.ttl,
        is_plain: lease.fence.is_none(),
        parting: None,
        is_foreign: true,
        context: Sender { key: Arc::clone(key), voter: None },
    };
    let all = NodeSet::first(cluster.links.len());
    cluster.release(all, all, &release, |_| None, receipt);
    cluster.flush();
}

/// Releases every entry of an owner on every node. Leaves a tombstone that makes the nodes refuse the owner for
/// `keep_out`, because requests of other processes for this owner may be under way. `lease` is one of the entries, if
/// the caller has one.
pub(crate) async fn retire(
    cluster: &Arc<Cluster>,
    key: &Arc<LockKey>,
    owner: OwnerId,
    keep_out: Duration,
    lease: Option<&DetachedLease>,
) -> Result<Released, LeaseError> {
    let entry = match lease {
        // The nodes do not have the entry after the release, so read it before, for the history.
        None if cluster.settings.history => Some(read_entry(cluster, key, owner).await),
        _ => None,
    };
    cluster.claims.end_repairs_of(owner, &key.text);
    lease.map(|lease| mark_ended(cluster, lease));
    let tombstone = u64::try_from(keep_out.as_millis()).unwrap_or(u64::MAX).clamp(1, TOMBSTONE_MILLIS_MAX);
    let (request, deadline) = (Request::Retire { owner, tombstone }, cluster.settings.look_deadline());
    let round = Broadcast::ask(cluster, key, request, deadline, Round::is_answered).await.ok_or(LeaseError::Closed)?;
    if !round.is_answered() {
        let tally = cluster.name_nodes(round.tally());
        return Err(LeaseError::NoQuorum { operation: Operation::Release, tally });
    }
    if round.grants().next().is_none() {
        return Ok(Released::AlreadyEnded);
    }
    cluster.note(|| match (lease, entry) {
        (Some(lease), _) => event(cluster, lease, What::Released),
        (None, entry) => {
            let (fence, holder, mode) = entry.unwrap_or_default();
            cluster.event(&key.name, What::Released, fence).by(holder, mode)
        }
    });
    Ok(Released::StillHeld)
}

/// Returns the fence, the holder and the mode with which an owner holds a name, as far as the nodes report them. The
/// nodes do not report the fences of readers.
async fn read_entry(
    cluster: &Arc<Cluster>,
    key: &Arc<LockKey>,
    owner: OwnerId,
) -> (Option<Fence>, Option<Holder>, &'static str) {
    let deadline = cluster.settings.look_deadline();
    let Some(round) = Broadcast::ask(cluster, key, Request::Inspect, deadline, Round::is_answered).await else {
        return Default::default();
    };
    let reports = round.replies().iter().flatten().filter_map(|outcome| match outcome {
        Outcome::Voted { vote: Vote::Report(report), .. } => Some(report.clone()),
        _ => None,
    });
    let held = reports.filter_map(|report| Some((report.fence, report.held?)));
    // After the seal, a majority stores the highest fence.
    let highest = held.max_by_key(|(fence, held)| (held.held_mode == HeldMode::Reentrant(owner), *fence));
    match highest {
        Some((fence, held)) if held.held_mode == HeldMode::Reentrant(owner) => {
            (Some(fence), held.holder, held.held_mode.as_str())
        }
        Some((_, held)) if held.held_mode == HeldMode::Shared => (None, None, held.held_mode.as_str()),
        _ => Default::default(),
    }
}

/// Sends a request about the lease, and returns how long a majority will keep the lease at least.
///
/// If m nodes are a majority, the lease ends at the m-th largest end of the votes, less drift. The end of each vote is
/// counted from the time at which the request was sent.
async fn time_left(
    cluster: &Arc<Cluster>,
    lease: &DetachedLease,
    request: Request,
    operation: Operation,
) -> Result<Duration, LeaseError> {
    let key = key(cluster, lease)?;
    let deadline = cluster.settings.node_deadline(lease.ttl);
    let (began, wall_began) = (clock::now(), clock::wall());
    let held_until = |round: &Round| {
        let ends = round.replies().iter().flatten().filter_map(|outcome| vote_end(outcome, lease.ttl));
        validity::mth_largest(ends, round.electors().majority())
    };
    let is_enough = |round: &Round| held_until(round).is_some() || is_gone(round);
    let round = Broadcast::ask(cluster, &key, request, deadline, is_enough).await.ok_or(LeaseError::Closed)?;
    match held_until(&round) {
        Some(until) => {
            let until = until.before(cluster.settings.drift.of(lease.ttl));
            let left = validity::left(until, clock::now());
            // Only the wall clock shows whether the machine was paused after the request was sent.
            let nanos_held = i64::try_from(until.since(began).as_nanos()).unwrap_or(i64::MAX);
            if left.is_zero() || clock::wall() > wall_began.saturating_add(nanos_held) {
                Err(LeaseError::Lost(LostError::Expired))
            } else {
                Ok(left)
            }
        }
        None if is_gone(&round) => {
            let is_ended = |why: &Refusal| matches!(why, Refusal::Tombstoned | Refusal::Retired);
            Err(LeaseError::Lost(if round.refusals().any(is_ended) { LostError::Ended } else { LostError::Removed }))
        }
        None => Err(LeaseError::NoQuorum { operation, tally: cluster.name_nodes(round.tally()) }),
    }
}

/// Returns when the vote that a node reported ends at the earliest, by this process's clock.
fn vote_end(outcome: &Outcome, ttl: Ttl) -> Option<Moment> {
    match outcome {
        Outcome::Voted { vote: Vote::Grant { .. }, sent, .. } => Some(*sent + ttl.duration()),
        Outcome::Voted { vote: Vote::Standing { remaining }, sent, .. } => {
            Some(*sent + remaining.map_or(ttl.duration(), |left| left.min(ttl.duration())))
        }
        _ => None,
    }
}

/// Returns whether too few nodes for a majority can still have a vote for the lease.
fn is_gone(round: &Round) -> bool {
    let is_without_vote =
        |why: &&Refusal| matches!(why, Refusal::Absent | Refusal::Held { .. } | Refusal::Tombstoned | Refusal::Retired);
    !round.electors().has_majority_despite(round.refusals().filter(is_without_vote).count())
}

/// Returns the key of the lease. Fails if the lease cannot belong to this cluster.
fn key(cluster: &Cluster, lease: &DetachedLease) -> Result<Arc<LockKey>, ConfigError> {
    let settings = &cluster.settings;
    Ttl::new(lease.ttl(), settings.max_ttl)?;
    Ok(Arc::new(settings.template.key(&lease.name)?))
}
