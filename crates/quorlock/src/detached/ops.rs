//! Extending, checking and releasing a lease by what was detached: nothing is known of it but that.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::mode::{OwnerId, Period};
use quorlock_core::name::Holder;
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::validity;
use quorlock_core::vote::{Outcome, Refusal, Request, Silence, Vote};

use super::{DetachedLease, Released};
use crate::cluster::Cluster;
use crate::cluster::broadcast::{Votes, tally};
use crate::error::{ConfigError, LeaseError, LostError, Operation};
use crate::link::{GiveBack, Mark, Voter};
use crate::node::event::{Event, What, word_for};
use crate::node::key::LockKey;
use crate::platform::clock;

/// The longest that an owner is kept out: a week.
const TOMBSTONE_MILLIS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;
/// How long a lease is remembered to be over, from the last time that it was found to be.
const ENDED_FOR: Duration = Duration::from_secs(10 * 60);

/// Restarts the ttl where the vote stands: a vote that is gone is not given again, since nobody here knows whether the
/// lease was lost meanwhile.
///
/// A lease that no majority can have any more is given back where it stands, and this client does not extend it again: lost
/// is final. One that no majority was known to have the last time is looked at first: whoever goes on asking must not keep a
/// few votes standing that are of no use to anyone.
pub(crate) async fn extend(cluster: &Arc<Cluster>, lease: &DetachedLease) -> Result<Duration, LeaseError> {
    if cluster.ended.has(lease.id, clock::now()) {
        return Err(LostError::Ended.into());
    }
    if cluster.doubts.has(lease.id, clock::now()) {
        let look = Request::Check { attempt: lease.id, slot: lease.slot() };
        match outlook(cluster, lease, look, Operation::Extend).await {
            // A majority still has it, for as long as it takes to extend it.
            Err(LeaseError::Lost(LostError::Expired)) => {}
            other => {
                settle(cluster, lease, other)?;
            }
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
    let outlook = match outlook(cluster, lease, request, Operation::Extend).await {
        // The answers came too late to count. The nodes may well have extended it.
        Err(LeaseError::Lost(LostError::Expired)) => {
            let late = vec![Outcome::Silent(Silence::Late); cluster.links.len()];
            Err(LeaseError::NoQuorum { operation: Operation::Extend, tally: tally(cluster, late) })
        }
        other => other,
    };
    settle(cluster, lease, outlook)
}

/// Remembers what came of an extension, for the next. A loss is told once, to those who look at the history.
fn settle(
    cluster: &Arc<Cluster>,
    lease: &DetachedLease,
    outlook: Result<Duration, LeaseError>,
) -> Result<Duration, LeaseError> {
    let now = clock::now();
    match &outlook {
        Ok(_) => cluster.doubts.forget(lease.id),
        Err(LeaseError::Lost(why)) => {
            cluster.doubts.forget(lease.id);
            let is_known = end_here(cluster, lease);
            if let Ok(key) = key(cluster, lease) {
                give_back(cluster, lease, &key, None);
            }
            // The call that ended it reports that.
            if !is_known && *why != LostError::Ended {
                cluster.note(|| event(cluster, lease, What::Lost).because(&why.to_string()));
            }
        }
        Err(LeaseError::NoQuorum { .. }) => {
            cluster.doubts.add(lease.id, now + lease.ttl.duration(), now);
        }
        Err(LeaseError::Config(_) | LeaseError::Closed) => {}
    }
    outlook
}

/// Remembers that this client must not extend the lease any more. Says whether that was known.
fn end_here(cluster: &Cluster, lease: &DetachedLease) -> bool {
    let now = clock::now();
    cluster.ended.add(lease.id, now + ENDED_FOR, now)
}

/// Something that has happened to a lease that was detached.
pub(crate) fn event(cluster: &Cluster, lease: &DetachedLease, what: What) -> Event {
    let event = cluster.event(&lease.name, what, lease.fence);
    event.by(Holder::decode(&lease.holder), word_for(lease.mode, lease.fence))
}

/// Looks where the vote stands, and for how long.
pub(crate) async fn check(cluster: &Arc<Cluster>, lease: &DetachedLease) -> Result<Duration, LeaseError> {
    let request = Request::Check { attempt: lease.id, slot: lease.slot() };
    outlook(cluster, lease, request, Operation::Check).await
}

/// Takes the votes back, on every node, with a note that the attempt is over: what others may have under way for this
/// lease is not known here.
pub(crate) async fn release(cluster: &Arc<Cluster>, lease: &DetachedLease) -> Result<Released, LeaseError> {
    let key = key(cluster, lease)?;
    let votes = Votes::by(cluster, cluster.settings.node_deadline(lease.ttl)).ok_or(LeaseError::Closed)?;
    give_back(cluster, lease, &key, Some(&votes));
    end_here(cluster, lease);
    let quorum = cluster.settings.quorum;
    let said =
        votes.wait(|said| count(said, is_grant) >= quorum.majority() || count(said, is_refusal) > quorum.spare());
    let said: Vec<_> = said.await.into_iter().map(Some).collect();
    let (stood, gone) = (count(&said, is_grant), count(&said, is_refusal));
    if stood >= quorum.majority() {
        cluster.note(|| event(cluster, lease, What::Released));
        return Ok(Released::Standing);
    }
    if stood + gone >= quorum.majority() {
        return Ok(Released::Gone);
    }
    // Nodes that could not be reached were told nothing yet: what is wrong with them says more than that they are late.
    let late = Outcome::Silent(Silence::Late);
    let said = said.into_iter().flatten();
    let said = said.map(|outcome| if outcome == late { Outcome::Silent(Silence::Unheard) } else { outcome });
    Err(LeaseError::NoQuorum { operation: Operation::Release, tally: tally(cluster, said.collect()) })
}

/// Takes the votes back, without waiting for anything.
pub(crate) fn give_back(cluster: &Arc<Cluster>, lease: &DetachedLease, key: &Arc<LockKey>, votes: Option<&Arc<Votes>>) {
    cluster.claims.end_repair(lease.mode.owner(), lease.id);
    let mark = Arc::new(Mark::of_another(lease.id));
    mark.finish();
    let now = clock::now();
    let back = GiveBack::new(&mark, key, lease.ttl, lease.fence.is_none(), now);
    for link in &cluster.links {
        let voter = votes.map(|votes| Arc::clone(votes) as Arc<dyn Voter>);
        if !link.release(&back, None, voter)
            && let Some(votes) = votes
        {
            votes.note(link.node, Outcome::Silent(Silence::Owing));
        }
    }
    cluster.flush();
}

/// Takes back every entry of an owner, on every node, with a note that keeps it out: what others may have under way for it
/// is not known here. `lease` is one of them, where that is known.
pub(crate) async fn retire(
    cluster: &Arc<Cluster>,
    key: &Arc<LockKey>,
    owner: OwnerId,
    keep_out: Duration,
    lease: Option<&DetachedLease>,
) -> Result<Released, LeaseError> {
    let end = match lease {
        // What was held cannot be asked for any more when it is known that something was.
        None if cluster.settings.history => Some(end_of(cluster, key, owner).await),
        _ => None,
    };
    let votes = Votes::by(cluster, cluster.settings.look_deadline()).ok_or(LeaseError::Closed)?;
    cluster.claims.end_repairs_of(owner, &key.text);
    lease.map(|lease| end_here(cluster, lease));
    let tombstone = u64::try_from(keep_out.as_millis()).unwrap_or(u64::MAX).clamp(1, TOMBSTONE_MILLIS_MAX);
    votes.ask(cluster, key, Request::Retire { owner, tombstone });
    let majority = cluster.settings.quorum.majority();
    let is_told = |outcome: &Outcome| is_grant(outcome) || is_refusal(outcome);
    let said = votes.wait(|said| count(said, is_told) >= majority).await;
    let (told, stood) =
        said.iter().fold((0, false), |(told, stood), said| (told + usize::from(is_told(said)), stood | is_grant(said)));
    if told < majority {
        return Err(LeaseError::NoQuorum { operation: Operation::Release, tally: tally(cluster, said) });
    }
    if !stood {
        return Ok(Released::Gone);
    }
    cluster.note(|| match (lease, end) {
        (Some(lease), _) => event(cluster, lease, What::Released),
        (None, end) => {
            let (fence, holder, mode) = end.unwrap_or_default();
            cluster.event(&key.name, What::Released, fence).by(holder, mode)
        }
    });
    Ok(Released::Standing)
}

/// How an owner holds a name, as far as the nodes can tell: its fence, who it is and in which mode. Readers are not told
/// apart.
async fn end_of(
    cluster: &Arc<Cluster>,
    key: &Arc<LockKey>,
    owner: OwnerId,
) -> (Option<Fence>, Option<Holder>, &'static str) {
    let Some(votes) = Votes::by(cluster, cluster.settings.look_deadline()) else { return Default::default() };
    votes.ask(cluster, key, Request::Inspect);
    let is_report = |outcome: &Outcome| matches!(outcome, Outcome::Voted { vote: Vote::Report(_), .. });
    let said = votes.wait(|said| count(said, is_report) >= cluster.settings.quorum.majority()).await;
    let reports = said.into_iter().filter_map(|outcome| match outcome {
        Outcome::Voted { vote: Vote::Report(report), .. } => Some(report),
        _ => None,
    });
    let held = reports.filter_map(|report| Some((report.fence, report.held?)));
    // The seal has seen to it that a majority carries the highest.
    let highest = held.max_by_key(|(fence, held)| (held.period == Period::Reentrant(owner), *fence));
    match highest {
        Some((fence, held)) if held.period == Period::Reentrant(owner) => {
            (Some(fence), held.holder, held.period.as_str())
        }
        Some((_, held)) if held.period == Period::Shared => (None, None, held.period.as_str()),
        _ => Default::default(),
    }
}

/// How long a majority lets the lease stand at least: the m-th largest end, each counted from its own send, less drift.
async fn outlook(
    cluster: &Arc<Cluster>,
    lease: &DetachedLease,
    request: Request,
    operation: Operation,
) -> Result<Duration, LeaseError> {
    let key = key(cluster, lease)?;
    let votes = Votes::by(cluster, cluster.settings.node_deadline(lease.ttl)).ok_or(LeaseError::Closed)?;
    let (began, wall) = (clock::now(), clock::wall());
    votes.ask(cluster, &key, request);
    let quorum = cluster.settings.quorum;
    let stands = |outcome: &Outcome| end(outcome, lease.ttl).is_some();
    let said = votes.wait(|said| count(said, stands) >= quorum.majority() || count(said, is_refusal) > quorum.spare());
    let said = said.await;
    let ends = said.iter().filter_map(|outcome| end(outcome, lease.ttl));
    match validity::mth_largest(ends, quorum.majority()) {
        Some(until) => {
            let until = until.before(cluster.settings.drift.of(lease.ttl));
            let left = validity::left(until, clock::now());
            // A pause of the machine since the request was sent is only seen on the wall clock.
            let lasts = i64::try_from(until.since(began).as_nanos()).unwrap_or(i64::MAX);
            if left.is_zero() || clock::wall() > wall.saturating_add(lasts) {
                Err(LeaseError::Lost(LostError::Expired))
            } else {
                Ok(left)
            }
        }
        None if said.iter().filter(|outcome| is_refusal(outcome)).count() > quorum.spare() => {
            Err(LeaseError::Lost(if said.iter().any(is_end) { LostError::Ended } else { LostError::Taken }))
        }
        None => Err(LeaseError::NoQuorum { operation, tally: tally(cluster, said) }),
    }
}

/// When the vote that a node spoke of may end, by our clock.
fn end(outcome: &Outcome, ttl: Ttl) -> Option<Moment> {
    match outcome {
        Outcome::Voted { vote: Vote::Grant { .. }, sent } => Some(*sent + ttl.duration()),
        Outcome::Voted { vote: Vote::Standing { remaining }, sent } => {
            Some(*sent + remaining.map_or(ttl.duration(), |left| left.min(ttl.duration())))
        }
        _ => None,
    }
}

fn count(said: &[Option<Outcome>], fits: impl Fn(&Outcome) -> bool) -> usize {
    said.iter().flatten().filter(|outcome| fits(outcome)).count()
}

fn is_grant(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Voted { vote: Vote::Grant { .. }, .. })
}

/// Whether the node has no vote for the lease. One that lost its memory has nothing to say.
fn is_refusal(outcome: &Outcome) -> bool {
    let Outcome::Voted { vote: Vote::Refusal(why), .. } = outcome else { return false };
    matches!(why, Refusal::Absent | Refusal::Held { .. } | Refusal::Tombstoned | Refusal::Retired)
}

/// Whether the node says that somebody ended the lease.
fn is_end(outcome: &Outcome) -> bool {
    let Outcome::Voted { vote: Vote::Refusal(why), .. } = outcome else { return false };
    matches!(why, Refusal::Tombstoned | Refusal::Retired)
}

/// Where the lease is kept, if it can be one of this cluster's.
fn key(cluster: &Cluster, lease: &DetachedLease) -> Result<Arc<LockKey>, ConfigError> {
    let settings = &cluster.settings;
    Ttl::new(lease.ttl(), settings.max_ttl)?;
    Ok(Arc::new(settings.template.key(&lease.name)?))
}
