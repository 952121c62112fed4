//! A follower of the stream of changes.

use std::sync::Arc;

use tokio::sync::watch;

use super::snapshot::{PIECE_BYTES, Reading};
use super::{Hub, Mark};
use crate::auth::Identity;

/// Follows the stream: first a snapshot or the missed events, then each change.
pub(crate) struct Follower {
    hub: Arc<Hub>,
    caller: Arc<Identity>,
    told: watch::Receiver<Mark>,
    /// The snapshot that it is still reading.
    pub(super) reading: Option<Reading>,
    /// The mark of the last event that it has read.
    read: Mark,
}

impl Follower {
    /// Continues after `last` if the events since then are kept, or else starts with a snapshot.
    pub(super) fn new(hub: Arc<Hub>, caller: Arc<Identity>, told: watch::Receiver<Mark>, last: Option<Mark>) -> Self {
        let known = last.filter(|last| hub.state().keeps_all_after(*last));
        let reading = if known.is_none() { Some(Reading::new(hub.state().snapshot())) } else { None };
        Self { hub, caller, told, reading, read: known.unwrap_or(Mark::first()) }
    }

    /// Waits for the next piece of the stream. Returns `None` if the follower was too slow and has to start again.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(reading) = &mut self.reading {
                let text = reading.next(&self.caller)?;
                if !text.is_empty() {
                    return Some(text);
                }
                (self.read, self.reading) = (reading.mark, None);
            }
            self.told.borrow_and_update();
            match self.take() {
                Some(text) if text.is_empty() => {}
                Some(text) => return Some(text),
                None => {
                    self.reading = Some(Reading::new(self.hub.state().snapshot()));
                    continue;
                }
            }
            if self.told.changed().await.is_err() {
                // The hub owns the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the next events, up to the size of a piece, or `None` if it is too far behind.
    fn take(&mut self) -> Option<String> {
        let state = self.hub.state();
        if !state.keeps_all_after(self.read) {
            return None;
        }
        let behind = state.last.steps_after(self.read).unwrap_or_default();
        let mut text = String::new();
        for news in state.kept.range(state.kept.len() - behind..) {
            self.read = news.mark;
            if news.is_for(&self.caller) {
                news.write(&mut text);
            }
            if text.len() >= PIECE_BYTES {
                break;
            }
        }
        Some(text)
    }
}
