//! The events that a link has to write into its node's history.
//!
//! Nothing hangs on it. Events wait for a second, so that many are written at once; those that a node cannot take are
//! lost, and so are the oldest when there are too many.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Link;
use super::state::Inner;
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

impl Link {
    /// Writes an event into the node's history, soon or at once.
    pub(crate) fn note(&self, event: Arc<Event>, at_once: bool) {
        let is_first = {
            let notes = &mut self.inner().notes;
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
        let inner = self.inner();
        inner.connection.as_ref().is_some_and(|connection| connection.is_noting() || !inner.notes.pending.is_empty())
    }

    /// When to write next.
    pub(super) fn notes_due(&self) -> Option<Instant> {
        self.inner().notes.due
    }

    /// Writes what there is, if there is a connection.
    pub(crate) fn send_notes(&self) {
        let mut inner = self.inner();
        let Inner { connection: Some(connection), notes, .. } = &mut *inner else { return };
        notes.due = None;
        if !notes.pending.is_empty() {
            connection.note(notes.pending.drain(..).collect());
        }
    }
}
