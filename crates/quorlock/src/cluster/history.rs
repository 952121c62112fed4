//! The history of locks: creating events, and reading those of all nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::name::{Holder, Name};
use quorlock_core::terms::Period;
use quorlock_core::vote::Silence;

use crate::cluster::Cluster;
use crate::error::{Operation, ReadError};
use crate::link::Link;
use crate::node::event::{Event, HISTORY_MAX, What, word_for};
use crate::node::{Answer, Question};
use crate::platform::{clock, entropy};

/// The shortest deadline for a node that is asked for its history.
const RECALL_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// The time of a client's last event. The estimate of the nodes' clocks changes a little with every reply; a later event
/// must not get an earlier time.
#[derive(Debug, Default)]
pub(crate) struct Chronicle(AtomicU64);

impl Chronicle {
    /// Returns `at`, or the microsecond after the last event if that is later.
    fn after_the_last(&self, at: u64) -> u64 {
        let later = |last: u64| at.max(last.saturating_add(1));
        // The closure never returns `None`.
        let last = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(later(last)));
        last.map_or(at, later)
    }
}

/// The most by which two clients' estimates of the time may differ, in microseconds: they read the nodes' clocks over the
/// network.
const CLOCKS_APART_MICROS: u64 = 100_000;

impl Cluster {
    /// Returns an event that happens now.
    pub(crate) fn event(&self, name: &Name, what: What, fence: Option<Fence>) -> Event {
        let at = self.node_micros(clock::now()).and_then(|micros| u64::try_from(micros).ok());
        let (id, at) = (entropy::bits() as u64, self.chronicle.after_the_last(at.unwrap_or_default()));
        Event::new(id, at, name, what, fence)
    }

    /// Returns an event that happens to a lease now.
    pub(crate) fn lease_event(&self, name: &Name, hold: &Hold, what: What) -> Event {
        let (terms, fence) = (hold.terms(), hold.fence());
        self.event(name, what, fence).by(Holder::decode(&terms.holder), word_for(terms.mode, fence))
    }
}

impl Event {
    /// Returns whether it frees the lock for the next holder.
    fn lets_go(&self) -> bool {
        self.what == What::Released && self.is_alone()
    }

    /// Returns whether it is a grant that was possible only after the other event.
    fn follows(&self, other: &Self) -> bool {
        self.what == What::Granted && self.is_alone() && self.name == other.name && self.fence > other.fence
    }

    fn is_alone(&self) -> bool {
        self.fence.is_some() && Period::ALONE.contains(&&*self.mode)
    }
}

/// Reads the histories of all nodes and merges them, newest first. An event that several nodes have is returned once.
pub(crate) async fn history(cluster: &Arc<Cluster>, limit: usize) -> Result<Vec<Event>, ReadError> {
    if cluster.is_closed() {
        return Err(ReadError::Closed);
    }
    if limit == 0 {
        return Ok(Vec::new());
    }
    let limit = limit.min(HISTORY_MAX);
    let told = join_all(cluster.links.iter().map(|link| recall(cluster, link, limit))).await;
    if told.iter().all(Result::is_err) {
        return Err(cluster.no_quorum(Operation::History, told.into_iter().map(Result::err)));
    }
    let events: HashMap<u64, Event> = told.into_iter().flatten().flatten().map(|event| (event.id, event)).collect();
    let mut events = in_order(events.into_values().collect());
    events.reverse();
    events.truncate(limit);
    Ok(events)
}

/// Sorts events by time, oldest first. Where a lock was released and granted again, the fences decide, because the clients'
/// clocks differ slightly and two holders would seem to overlap.
fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| (event.at_micros, event.id));
    let mut told = Vec::with_capacity(events.len());
    for event in events {
        let since = event.at_micros.saturating_sub(CLOCKS_APART_MICROS);
        let near = told.iter().rposition(|earlier: &Event| earlier.at_micros < since).map_or(0, |far| far + 1);
        let next = if event.lets_go() { told[near..].iter().position(|next| next.follows(&event)) } else { None };
        told.insert(next.map_or(told.len(), |next| near + next), event);
    }
    told
}

async fn recall(cluster: &Cluster, link: &Link, limit: usize) -> Result<Vec<Event>, Silence> {
    let deadline = cluster.settings.look_deadline().max(RECALL_DEADLINE_MIN);
    // The history includes this client's own events.
    link.send_notes();
    match link.query(Question::Recall(limit), deadline).await? {
        Answer::Events(events) => Ok(events),
        _ => Err(Silence::Failed("an answer out of turn".into())),
    }
}

#[cfg(test)]
mod tests;
