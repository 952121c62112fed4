//! A copy of the nodes' state, which the service reads at most once a second for all callers.
//!
//! The service answers requests for lists, the history and single locks from the copy, so a thousand readers cost the
//! nodes as much as one reader. It reads the nodes on a separate thread with separate connections, so reads do not
//! delay locks.

mod answer;
mod change;
mod follower;
mod lapses;
mod mark;
mod past;
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
pub(crate) use follower::Follower;
pub(crate) use mark::Mark;
use snapshot::Snapshot;
use state::{Listed, Read, State};

/// The longest age of the copy.
const PACE: Duration = Duration::from_secs(1);
/// The shortest time between the starts of two reads, as a multiple of the duration of the first of them.
const REST: u32 = 4;
/// The number of history events in a snapshot.
const HISTORY_SHOWN: usize = 200;
/// The numbers of events to request. If the events do not reach back to known events, the hub requests the next larger
/// number.
const HISTORY_READ: [usize; 3] = [HISTORY_SHOWN, 2_000, HISTORY_MAX];

/// One event of the stream.
#[derive(Debug)]
pub(crate) struct News {
    mark: Mark,
    what: &'static str,
    /// One line of JSON.
    data: String,
    /// The name of the lock that the event is about.
    name: Option<Arc<str>>,
}

/// Reads the nodes, keeps the result, and publishes the changes.
pub(crate) struct Hub {
    /// The client that acquires locks. It knows the health of the nodes without a request.
    client: Client,
    /// The client that reads the nodes, on separate connections.
    reader: Client,
    /// The position of the newest event in the stream.
    told: watch::Sender<Mark>,
    /// The number of reads of the copy so far.
    copies: watch::Sender<u64>,
    wanted: Notify,
    /// Locked during every read of the nodes, so that only one read runs at a time.
    reading: tokio::sync::Mutex<()>,
    reads: Counter,
    state: Mutex<State>,
}

impl Hub {
    /// Returns a hub. `reads` counts the reads of the nodes.
    pub(crate) fn new(client: Client, reader: Client, reads: Counter) -> Arc<Self> {
        let state = State::default();
        Arc::new(Self {
            client,
            reader,
            told: watch::Sender::new(state.last),
            copies: watch::Sender::new(0),
            wanted: Notify::new(),
            reading: tokio::sync::Mutex::new(()),
            reads,
            state: Mutex::new(state),
        })
    }

    /// Reads the nodes once if a caller needs the copy, and waits until the next read is due.
    pub(crate) async fn read_when_due(&self) {
        if self.told.receiver_count() == 0 {
            tokio::select! {
                () = self.wanted.notified() => {}
                // Without this, a replica that nobody reads would report no outages.
                () = tokio::time::sleep(PACE) => return self.record_known_health(),
            }
        }
        let (began, good_for) = self.read_nodes().await;
        tokio::time::sleep(good_for.saturating_sub(began.elapsed())).await;
    }

    /// Records the health of the nodes that the service's client already knows, without a request.
    fn record_known_health(&self) {
        let nodes = NodesView::new(self.client.node_stats());
        let mut state = self.state();
        state.see_nodes(nodes);
        state.lapses.lose_sight();
        state.drop_idle_snapshot();
        self.told.send_replace(state.last);
    }

    /// Reads the nodes into the copy. Returns when the read began, and how long the copy is fresh from then.
    async fn read_nodes(&self) -> (Instant, Duration) {
        let reading = self.read().await;
        let (began, as_of) = (Instant::now(), unix_millis());
        let filter = Filter::default().limit(LIST_MAX);
        let (listing, history) = tokio::join!(self.reader.list(&filter), self.happened());
        drop(reading);
        // Do this before locking the state, so that other callers do not wait for it.
        let recalled = history.as_ref().map(|_| ()).map_err(Clone::clone);
        let mut locks = None;
        let listed = listing.map(|listing| {
            locks = Some(listing.names.iter().map(LockView::from).collect());
            Listed { is_cut: listing.is_cut, missing: MissingNode::list(listing.missing) }
        });
        let is_cut = listed.as_ref().is_ok_and(|listed| listed.is_cut);
        let nodes = NodesView::new(self.client.node_stats());
        let mut state = self.state();
        state.see_nodes(nodes);
        // Always publish them: round trips and clocks change with every read.
        let nodes = to_json(&state.nodes);
        state.tell("nodes", nodes, None);
        state.take_in(locks, is_cut, history.ok());
        let took = began.elapsed();
        let looked = json!({
            "at_ms": unix_millis(),
            "took_ms": millis(took),
            "locks": state.locks.len(),
            "is_cut": is_cut,
            "trouble": listed.as_ref().err().map(ToString::to_string),
        });
        state.tell("look", looked.to_string(), None);
        // A failure is not cached for longer than necessary.
        let good_for = if listed.is_ok() { PACE.max(took * REST) } else { PACE + took };
        state.read = Some(Read { as_of, good_until: began + good_for, listed, recalled });
        state.drop_idle_snapshot();
        self.told.send_replace(state.last);
        drop(state);
        self.copies.send_modify(|copies| *copies += 1);
        (began, good_for)
    }

    /// Returns the newest events, newest first, and whether these are all that the nodes keep.
    async fn happened(&self) -> Result<(Vec<EventView>, bool), ReadError> {
        // The first read needs all events, to know which locks have their grant in the history.
        let is_first = self.state().read.is_none();
        let mut limits = HISTORY_READ.into_iter().skip(if is_first { HISTORY_READ.len() - 1 } else { 0 });
        loop {
            let limit = limits.next().unwrap_or(HISTORY_MAX);
            let events: Vec<_> = self.reader.history(limit).await?.iter().map(EventView::from).collect();
            let is_all = events.len() < limit || limit == HISTORY_MAX;
            if is_all || self.state().reaches(&events) {
                return Ok((events, is_all));
            }
        }
    }

    /// Waits until no other task reads the nodes.
    async fn read(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let reading = self.reading.lock().await;
        self.reads.inc();
        reading
    }

    /// Waits until the copy is fresh.
    async fn wait_until_fresh(&self) {
        let mut copies = self.copies.subscribe();
        let seen = *copies.borrow_and_update();
        if !self.state().read.as_ref().is_some_and(Read::is_good) {
            self.wanted.notify_one();
            // The hub owns the sender, so this cannot fail.
            let _ = copies.wait_for(|copies| *copies > seen).await;
        }
    }

    /// Subscribes to the changes from now on, or to those after the last event that the reader has.
    pub(crate) async fn subscribe(self: &Arc<Self>, caller: Arc<Identity>, last: Option<Mark>) -> Follower {
        // Followers keep the copy fresh.
        let told = self.told.subscribe();
        self.wait_until_fresh().await;
        // The default mark belongs to no run, so a reader without a mark gets a snapshot first.
        Follower { hub: Arc::clone(self), caller, told, reading: None, read: last.unwrap_or_default() }
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
