//! A follower of the stream of changes.

use std::sync::Arc;

use tokio::sync::watch;

use super::snapshot::{PIECE_BYTES, Reading};
use super::{Hub, Mark};
use crate::auth::Identity;

/// A reader of the stream. It gets a snapshot or the events that it missed, and then each change.
pub(crate) struct Follower {
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Arc<Identity>,
    pub(super) told: watch::Receiver<Mark>,
    /// The snapshot, while the follower reads it.
    pub(super) reading: Option<Reading>,
    /// The position of the last event that the follower has read. If the events after it are not kept, the follower
    /// reads a snapshot first.
    pub(super) read: Mark,
}

impl Follower {
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
            // The hub owns the sender, so this cannot fail.
            let _ = self.told.changed().await;
        }
    }

    /// Returns the next events, up to the size of a piece, or `None` if the next event is no longer kept.
    fn take(&mut self) -> Option<String> {
        let state = self.hub.state();
        let behind = state.count_after(self.read)?;
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
