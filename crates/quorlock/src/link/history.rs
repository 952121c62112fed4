//! The events that a link writes to its node's history.
//!
//! The history may lack events. The link collects events for up to a second and writes them together. Events that the
//! node cannot store are lost. If too many events wait, the oldest are lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Inner, Link};
use crate::node::event::Event;
use crate::platform::runtime::{self, Instant};

/// The most events that wait to be written.
const NOTES_MAX: usize = 1_000;
/// The longest time that events wait.
const NOTE_DELAY_MAX: Duration = Duration::from_secs(1);

/// The events that wait to be written.
#[derive(Default)]
pub(super) struct Notes {
    pending: VecDeque<Arc<Event>>,
    /// The latest time at which to write the oldest event.
    due: Option<Instant>,
}

impl Link {
    /// Queues an event for the node's history. If `at_once` is set, writes it without delay.
    pub(crate) fn note(&self, event: Arc<Event>, at_once: bool) {
        let is_first = {
            let notes = &mut self.inner.lock().notes;
            if notes.pending.len() >= NOTES_MAX {
                notes.pending.pop_front();
            }
            notes.pending.push_back(event);
            let is_first = notes.due.is_none();
            notes.due.get_or_insert_with(|| runtime::now() + NOTE_DELAY_MAX);
            is_first
        };
        if at_once {
            self.send_notes();
        } else if is_first {
            self.wake.notify_one();
        }
    }

    /// Returns whether the link has a connection, and events wait to be written or are under way on it.
    pub(crate) fn is_noting(&self) -> bool {
        let inner = self.inner.lock();
        inner.connection.as_ref().is_some_and(|connection| connection.is_noting() || !inner.notes.pending.is_empty())
    }

    /// Returns when to write the waiting events.
    pub(super) fn notes_due(&self) -> Option<Instant> {
        self.inner.lock().notes.due
    }

    /// Writes the queued events, if there is a connection.
    pub(crate) fn send_notes(&self) {
        let mut inner = self.inner.lock();
        let Inner { connection: Some(connection), notes, .. } = &mut *inner else { return };
        notes.due = None;
        if !notes.pending.is_empty() {
            connection.note(notes.pending.drain(..).collect());
        }
    }
}
