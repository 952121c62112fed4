//! A follower of the stream of changes.

use std::sync::Arc;

use tokio::sync::watch;

use super::snapshot::{PIECE_BYTES, SnapshotReader};
use super::{EventId, Hub};
use crate::auth::Identity;

/// A reader of the stream. It gets a snapshot or the events that it has missed, and then each new event.
pub(crate) struct Follower {
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Arc<Identity>,
    pub(super) newest_id: watch::Receiver<EventId>,
    /// `None` if the follower does not read a snapshot now.
    pub(super) snapshot: Option<SnapshotReader>,
    /// The id of the last event that the follower has read. If the hub no longer keeps the events after that event, the
    /// follower reads a snapshot first.
    pub(super) last_read_id: EventId,
}

impl Follower {
    /// Waits for the next piece of the stream. Returns `None` if the follower was too slow and has to subscribe again.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(snapshot) = &mut self.snapshot {
                let text = snapshot.next(&self.caller)?;
                if !text.is_empty() {
                    return Some(text);
                }
                (self.last_read_id, self.snapshot) = (snapshot.id, None);
            }
            self.newest_id.borrow_and_update();
            match self.take_events() {
                Some(text) if text.is_empty() => {}
                Some(text) => return Some(text),
                None => {
                    self.snapshot = Some(SnapshotReader::new(self.hub.state().snapshot()));
                    continue;
                }
            }
            // The hub owns the sender, so this wait cannot fail.
            let _ = self.newest_id.changed().await;
        }
    }

    /// Returns the text of the next events, up to the size of a piece. Returns `None` if the hub no longer keeps the
    /// next event.
    fn take_events(&mut self) -> Option<String> {
        let state = self.hub.state();
        let unread = state.count_after(self.last_read_id)?;
        let mut text = String::new();
        for event in state.events.range(state.events.len() - unread..) {
            self.last_read_id = event.id;
            if event.is_visible_to(&self.caller) {
                event.write_to(&mut text);
            }
            if text.len() >= PIECE_BYTES {
                break;
            }
        }
        Some(text)
    }
}
