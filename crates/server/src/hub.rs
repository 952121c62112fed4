//! The hub: a copy of the nodes' state in this process, and the stream of changes to the copy.
//!
//! The service reads the nodes into the copy at most once a second. From the copy, the service answers requests for
//! lists, the history and single locks, so a thousand readers cost the nodes as much as one reader. The service reads
//! the nodes on a separate thread with separate connections, so reads do not delay requests for leases.

mod answer;
mod change;
mod event_id;
mod follower;
mod lapses;
mod published;
mod snapshot;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::metrics::counter::Counter;
use quorlock::{Client, EventView, Filter, HISTORY_MAX, LIST_MAX, LockView, ReadError};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::auth::Identity;
use crate::view::{MissingNode, NodesView, millis};
pub(crate) use event_id::EventId;
pub(crate) use follower::Follower;
use snapshot::Snapshot;
use state::{LastRead, ListCoverage, State};

/// How long the copy stays fresh after a read of the nodes has started. It stays fresh longer if the read is slow.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// The copy stays fresh for at least this multiple of the duration of its read, so that slow reads are less frequent.
const SLOW_READ_FACTOR: u32 = 4;
/// The number of history events in a snapshot.
const SNAPSHOT_EVENTS: usize = 200;
/// The numbers of events to request from the nodes. If the answer does not reach back to a known event, the hub
/// requests the next larger number.
const HISTORY_LIMITS: [usize; 3] = [SNAPSHOT_EVENTS, 2_000, HISTORY_MAX];

/// One event of the stream of changes.
#[derive(Debug)]
pub(crate) struct StreamEvent {
    id: EventId,
    kind: &'static str,
    /// One line of JSON.
    data: String,
    /// The name of the lock that the event is about.
    name: Option<Arc<str>>,
}

/// Reads the nodes, keeps the copy of their state, and publishes changes to the followers (the readers of the stream).
pub(crate) struct Hub {
    /// The client that acquires locks. It knows the health of the nodes without sending a request.
    client: Client,
    /// The client that reads the nodes, on separate connections.
    reader: Client,
    /// The id of the newest event of the stream.
    newest_id: watch::Sender<EventId>,
    /// The number of reads of the nodes into the copy so far.
    read_count: watch::Sender<u64>,
    /// Notified when a request needs a fresh copy.
    read_requested: Notify,
    /// Locked during every read of the nodes, so that only one read runs at a time.
    read_lock: tokio::sync::Mutex<()>,
    /// The metric that counts all reads of the nodes: into the copy, and for one answer.
    reads_metric: Counter,
    state: Mutex<State>,
}

impl Hub {
    pub(crate) fn new(client: Client, reader: Client, reads_metric: Counter) -> Arc<Self> {
        let state = State::default();
        Arc::new(Self {
            client,
            reader,
            newest_id: watch::Sender::new(state.newest_id),
            read_count: watch::Sender::new(0),
            read_requested: Notify::new(),
            read_lock: tokio::sync::Mutex::new(()),
            reads_metric,
            state: Mutex::new(state),
        })
    }

    /// Reads the nodes if a request or a follower needs a fresh copy, and waits until the copy is no longer fresh.
    /// While nobody needs the copy, only records the health of the nodes.
    pub(crate) async fn read_when_due(&self) {
        if self.newest_id.receiver_count() == 0 {
            tokio::select! {
                () = self.read_requested.notified() => {}
                // Without this branch, a replica that gets no read-only calls would notice no outages.
                () = tokio::time::sleep(FRESH_FOR) => return self.record_known_health(),
            }
        }
        let (began, fresh_for) = self.read_nodes().await;
        tokio::time::sleep(fresh_for.saturating_sub(began.elapsed())).await;
    }

    /// Records the health of the nodes that the service's client already knows, without a request.
    fn record_known_health(&self) {
        let nodes = NodesView::new(self.client.node_stats());
        let mut state = self.state();
        state.update_nodes(nodes);
        state.lapses.lose_full_view();
        state.drop_unread_snapshot();
        self.newest_id.send_replace(state.newest_id);
    }

    /// Reads the nodes into the copy. Returns when the read began, and how long after that time the copy is fresh.
    async fn read_nodes(&self) -> (Instant, Duration) {
        let read_guard = self.start_read().await;
        let (began, as_of) = (Instant::now(), unix_millis());
        let filter = Filter::default().limit(LIST_MAX);
        let (listing, history) = tokio::join!(self.reader.list(&filter), self.newest_events());
        drop(read_guard);
        // Convert the locks before taking the mutex of the state, so that other tasks do not wait for the conversion.
        let history_result = history.as_ref().map(|_| ()).map_err(Clone::clone);
        let mut locks = None;
        let coverage = listing.map(|listing| {
            locks = Some(listing.names.iter().map(LockView::from).collect());
            ListCoverage { is_truncated: listing.is_truncated, missing: MissingNode::list(listing.missing) }
        });
        let is_truncated = coverage.as_ref().is_ok_and(|coverage| coverage.is_truncated);
        let nodes = NodesView::new(self.client.node_stats());
        let mut state = self.state();
        state.update_nodes(nodes);
        // Always publish the nodes: round trips and clocks change with every read.
        let nodes = to_json(&state.nodes);
        state.publish("nodes", nodes, None);
        state.update(locks, is_truncated, history.ok());
        let took = began.elapsed();
        let look = json!({
            "at_ms": unix_millis(),
            "took_ms": millis(took),
            "locks": state.locks.len(),
            "is_truncated": is_truncated,
            "trouble": coverage.as_ref().err().map(ToString::to_string),
        });
        state.publish("look", look.to_string(), None);
        // Repeat a failed read one second after it has failed, even if it was slow.
        let fresh_for = if coverage.is_ok() { FRESH_FOR.max(took * SLOW_READ_FACTOR) } else { FRESH_FOR + took };
        state.last_read = Some(LastRead { as_of, fresh_until: began + fresh_for, coverage, history: history_result });
        state.drop_unread_snapshot();
        self.newest_id.send_replace(state.newest_id);
        drop(state);
        self.read_count.send_modify(|count| *count += 1);
        (began, fresh_for)
    }

    /// Returns the newest events of the history, newest first, and whether these are all events that the nodes keep.
    async fn newest_events(&self) -> Result<(Vec<EventView>, bool), ReadError> {
        // The first read needs all events, to find the grants of the leases that are held now.
        let is_first = self.state().last_read.is_none();
        let mut limits = HISTORY_LIMITS.into_iter().skip(if is_first { HISTORY_LIMITS.len() - 1 } else { 0 });
        loop {
            let limit = limits.next().unwrap_or(HISTORY_MAX);
            let events: Vec<_> = self.reader.history(limit).await?.iter().map(EventView::from).collect();
            let is_all = events.len() < limit || limit == HISTORY_MAX;
            if is_all || self.state().knows_oldest_of(&events) {
                return Ok((events, is_all));
            }
        }
    }

    /// Waits until no other task reads the nodes, and counts a read. No other read can start while the guard exists.
    async fn start_read(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let guard = self.read_lock.lock().await;
        self.reads_metric.inc();
        guard
    }

    /// Waits until the copy is fresh.
    async fn wait_until_fresh(&self) {
        let mut reads = self.read_count.subscribe();
        let count_before = *reads.borrow_and_update();
        if self.state().last_read.as_ref().is_none_or(|read| read.fresh_until <= Instant::now()) {
            self.read_requested.notify_one();
            // The hub owns the sender, so this wait cannot fail.
            let _ = reads.wait_for(|count| *count > count_before).await;
        }
    }

    /// Returns a follower of the stream. The follower continues after the event `last_read_id`. It starts with a
    /// snapshot if `last_read_id` is `None` or too old.
    pub(crate) async fn subscribe(self: &Arc<Self>, caller: Arc<Identity>, last_read_id: Option<EventId>) -> Follower {
        // While there is a receiver, the hub keeps the copy fresh.
        let newest_id = self.newest_id.subscribe();
        self.wait_until_fresh().await;
        // The default id has a new random run number, so a reader without an id gets a snapshot first.
        let last_read_id = last_read_id.unwrap_or_default();
        Follower { hub: Arc::clone(self), caller, newest_id, snapshot: None, last_read_id }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn to_json(value: &impl Serialize) -> String {
    // Strings and numbers can always be serialized.
    serde_json::to_string(value).unwrap_or_default()
}

fn unix_millis() -> u64 {
    millis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests;
