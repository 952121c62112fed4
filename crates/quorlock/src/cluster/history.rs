//! The history of locks: creates events, and reads the events of all nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::name::{Holder, Name};
use quorlock_core::terms::HeldMode;
use quorlock_core::vote::Silence;

use crate::cluster::Cluster;
use crate::error::{Operation, ReadError};
use crate::link::Link;
use crate::node::event::{Event, HISTORY_MAX, What, word_for};
use crate::node::{Answer, Question};
use crate::platform::sync::Mutex;
use crate::platform::{clock, entropy};

/// The shortest deadline for reading a node's history.
const RECALL_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// The time of a client's last event, in microseconds. The client's estimate of the nodes' clocks changes a little with
/// every reply, but a later event must not get an earlier time.
#[derive(Debug, Default)]
pub(crate) struct LastEventTime(Mutex<u64>);

impl LastEventTime {
    /// Returns the time of the next event: `estimate`, or the microsecond after the last event if that is later.
    fn next(&self, estimate: u64) -> u64 {
        let mut last = self.0.lock();
        *last = estimate.max(last.saturating_add(1));
        *last
    }
}

/// The largest expected difference between two clients' estimates of the time. The estimates differ because clients
/// read the nodes' clocks over the network.
const ESTIMATES_APART_MAX_MICROS: u64 = 100_000;

impl Cluster {
    /// Creates an event with the current time.
    pub(crate) fn event(&self, name: &Name, what: What, fence: Option<Fence>) -> Event {
        let estimate = self.node_micros(clock::now()).and_then(|micros| u64::try_from(micros).ok());
        let (id, at_micros) = (entropy::bits() as u64, self.last_event.next(estimate.unwrap_or_default()));
        Event::new(id, at_micros, name, what, fence)
    }

    /// Creates an event of a lease, with the current time.
    pub(crate) fn lease_event(&self, name: &Name, hold: &Hold, what: What) -> Event {
        let (terms, fence) = (hold.terms(), hold.fence());
        self.event(name, what, fence).by(Holder::decode(&terms.holder), word_for(terms.mode, fence))
    }
}

impl Event {
    /// Returns whether this event frees the lock for the next holder.
    fn frees_lock(&self) -> bool {
        self.what == What::Released && self.has_single_holder()
    }

    /// Returns whether this event is a grant that was possible only after the event `other`.
    fn follows(&self, other: &Self) -> bool {
        self.what == What::Granted && self.has_single_holder() && self.name == other.name && self.fence > other.fence
    }

    /// Returns whether the lock had only one holder at a time.
    fn has_single_holder(&self) -> bool {
        self.fence.is_some() && HeldMode::SINGLE_OWNER.contains(&&*self.mode)
    }
}

/// Reads and merges the histories of all nodes. Returns the newest events first, and an event of several nodes only
/// once.
pub(crate) async fn history(cluster: &Arc<Cluster>, limit: usize) -> Result<Vec<Event>, ReadError> {
    if cluster.is_closed() {
        return Err(ReadError::Closed);
    }
    if limit == 0 {
        return Ok(Vec::new());
    }
    let limit = limit.min(HISTORY_MAX);
    let histories = join_all(cluster.links.iter().map(|link| recall(cluster, link, limit))).await;
    if histories.iter().all(Result::is_err) {
        return Err(cluster.no_quorum(Operation::History, histories.into_iter().map(Result::err)));
    }
    let events: HashMap<_, Event> = histories.into_iter().flatten().flatten().map(|event| (event.id, event)).collect();
    let mut events = sort(events.into_values().collect());
    events.reverse();
    events.truncate(limit);
    Ok(events)
}

/// Sorts events by time, oldest first. Clients estimate the time differently, so a release may have a later time than
/// the next grant of the lock. In this case the fences decide: the release comes first.
fn sort(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| (event.at_micros, event.id));
    let mut sorted = Vec::with_capacity(events.len());
    for event in events {
        let since = event.at_micros.saturating_sub(ESTIMATES_APART_MAX_MICROS);
        // The events before this position are too old to be a grant that followed this release.
        let near = sorted.iter().rposition(|earlier: &Event| earlier.at_micros < since).map_or(0, |far| far + 1);
        let next = if event.frees_lock() { sorted[near..].iter().position(|next| next.follows(&event)) } else { None };
        sorted.insert(next.map_or(sorted.len(), |next| near + next), event);
    }
    sorted
}

/// Reads one node's history.
async fn recall(cluster: &Cluster, link: &Link, limit: usize) -> Result<Vec<Event>, Silence> {
    let deadline = cluster.settings.look_deadline().max(RECALL_DEADLINE_MIN);
    // First write this client's own events, so that the answer includes them.
    link.send_notes();
    match link.query(Question::Recall(limit), deadline).await? {
        Answer::Events(events) => Ok(events),
        _ => Err(Silence::Failed("an answer to another question".into())),
    }
}

#[cfg(test)]
mod tests;
