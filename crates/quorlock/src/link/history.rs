//! A link's part in the history: what it has to write, and who wants to read.
//!
//! Nothing hangs on it. Events wait for a second, so that many are written at once; those that a node cannot take are
//! lost, and so are the oldest when there are too many.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use quorlock_core::vote::Silence;
use tokio::sync::oneshot;

use super::Link;
use crate::node::History;
use crate::node::event::Event;
use crate::platform::runtime::{self, Instant};

/// The most events that wait to be written.
const NOTES_MAX: usize = 1_000;
/// How long they wait.
const NOTE_WITHIN: Duration = Duration::from_secs(1);

/// What is to be written.
#[derive(Default)]
pub(super) struct Notes {
    pending: VecDeque<Arc<Event>>,
    /// When the oldest of them is to be written at the latest.
    due: Option<Instant>,
}

/// Somebody who waits for an answer about the history; nobody does for what was written.
pub(super) type Recalling = Option<oneshot::Sender<Result<Vec<Event>, Silence>>>;

impl Link {
    /// Writes an event into the node's history, soon or at once.
    pub(crate) fn note(&self, event: Arc<Event>, at_once: bool) {
        let is_first = {
            let mut notes = self.notes();
            if notes.pending.len() >= NOTES_MAX {
                notes.pending.pop_front();
            }
            notes.pending.push_back(event);
            let is_first = notes.due.is_none();
            notes.due.get_or_insert_with(|| runtime::now() + NOTE_WITHIN);
            is_first
        };
        if at_once {
            self.send_notes();
        } else if is_first {
            self.wake.notify_one();
        }
    }

    /// Whether there is something to be written that can be.
    pub(crate) fn is_noting(&self) -> bool {
        let port = self.port();
        port.as_ref().is_some_and(|port| port.recalls.iter().any(Option::is_none) || !self.notes().pending.is_empty())
    }

    /// When to write next.
    pub(super) fn notes_due(&self) -> Option<Instant> {
        self.notes().due
    }

    /// Writes what there is, if there is a connection.
    pub(super) fn send_notes(&self) {
        let mut port = self.port();
        let Some(port) = &mut *port else { return };
        let events: Vec<_> = {
            let mut notes = self.notes();
            notes.due = None;
            notes.pending.drain(..).collect()
        };
        if !events.is_empty() {
            port.recalls.push_back(None);
            port.session().history(History::Note(events));
        }
    }

    /// Asks for the newest events. Whoever asks sees to it that it does not wait for ever.
    pub(crate) fn recall(&self, limit: usize) -> Result<oneshot::Receiver<Result<Vec<Event>, Silence>>, Silence> {
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let (sender, receiver) = oneshot::channel();
        // What this client has to say belongs to it.
        self.send_notes();
        let mut port = self.port();
        let port = port.as_mut().ok_or_else(|| Silence::Unreachable("not connected".into()))?;
        port.recalls.push_back(Some(sender));
        port.session().history(History::Recall(limit));
        Ok(receiver)
    }

    /// The oldest question about the history was answered, on this connection.
    pub(super) fn recalled(&self, connection: u64, told: Result<Vec<Event>, String>) {
        let asker = {
            let mut port = self.port();
            let port = port.as_mut().filter(|port| port.is(connection));
            let Some(asker) = port.and_then(|port| port.recalls.pop_front()) else { return };
            asker
        };
        match (asker, told) {
            // Whoever has lost patience is gone.
            (Some(asker), told) => drop(asker.send(told.map_err(Silence::Failed))),
            (None, Ok(_)) => {}
            (None, Err(why)) => tracing::debug!(node = %self.title, %why, "not written into the history"),
        }
        self.nudge();
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock()
    }
}
