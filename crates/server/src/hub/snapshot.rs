//! The snapshot that new readers of the stream get first. A snapshot is large, so all new readers share one snapshot,
//! and each reads it piece by piece.

use std::fmt::Write;
use std::sync::{Arc, Weak};

use quorlock::EventView;
use serde_json::json;

use super::state::State;
use super::{EventId, SNAPSHOT_EVENTS, StreamEvent, to_json, unix_millis};
use crate::auth::Identity;

/// The size above which a piece of the stream is sent.
pub(super) const PIECE_BYTES: usize = 8 * 1024;

/// The full state at one moment. It shares the last event about each lock with the copy, which saves memory.
pub(super) struct Snapshot {
    /// The id of the last event before the snapshot.
    pub(super) id: EventId,
    parts: Vec<Part>,
}

/// A part of the text of a snapshot.
enum Part {
    /// Text that is the same for every reader.
    Text(String),
    /// An item of a list. Some readers may not see it.
    ListItem(Arc<StreamEvent>),
}

impl Snapshot {
    pub(super) fn new(state: &State) -> Self {
        let mut head = json!({"at_ms": unix_millis(), "nodes": state.nodes, "outages": state.outages}).to_string();
        // Remove the closing brace: the lists follow.
        head.pop();
        let stream_event = |event: &EventView| {
            Arc::new(StreamEvent {
                id: state.newest_id,
                kind: "history",
                data: to_json(event),
                name: Some(event.name.as_str().into()),
            })
        };
        let lists: [(_, Vec<_>); 3] = [
            ("locks", state.locks.values().map(|tracked| Arc::clone(&tracked.event)).collect()),
            ("history", state.history.iter().take(SNAPSHOT_EVENTS).map(stream_event).collect()),
            ("lapses", state.lapses.reported.iter().map(stream_event).collect()),
        ];
        let mut parts = vec![Part::Text(format!("id: {}\nevent: snapshot\ndata: {head}", state.newest_id))];
        for (field, items) in lists {
            parts.push(Part::Text(format!(",\"{field}\":[")));
            parts.extend(items.into_iter().map(Part::ListItem));
            parts.push(Part::Text("]".into()));
        }
        parts.push(Part::Text("}\n\n".into()));
        Self { id: state.newest_id, parts }
    }

    pub(super) fn is_being_read(self: &Arc<Self>) -> bool {
        Arc::weak_count(self) > 0
    }
}

/// A follower's progress in a snapshot. The follower does not keep the snapshot alive. If the hub has replaced the
/// snapshot before the follower has read all of it, the follower has to subscribe again.
pub(super) struct SnapshotReader {
    pub(super) snapshot: Weak<Snapshot>,
    /// The id of the last event before the snapshot.
    pub(super) id: EventId,
    /// The number of parts that the follower has read.
    parts_read: usize,
    /// Whether the follower has read no item of the current list yet.
    is_list_start: bool,
}

impl SnapshotReader {
    pub(super) fn new(snapshot: &Arc<Snapshot>) -> Self {
        Self { snapshot: Arc::downgrade(snapshot), id: snapshot.id, parts_read: 0, is_list_start: true }
    }

    /// Returns the next piece, with the items that the caller may see. Returns an empty piece at the end, and `None` if
    /// the snapshot was replaced.
    pub(super) fn next(&mut self, caller: &Identity) -> Option<String> {
        let snapshot = self.snapshot.upgrade()?;
        let mut text = String::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        for part in &snapshot.parts[self.parts_read..] {
            self.parts_read += 1;
            match part {
                Part::Text(part) => {
                    text.push_str(part);
                    self.is_list_start = true;
                }
                Part::ListItem(event) if event.is_visible_to(caller) => {
                    if !std::mem::take(&mut self.is_list_start) {
                        text.push(',');
                    }
                    text.push_str(&event.data);
                }
                Part::ListItem(_) => {}
            }
            if text.len() >= PIECE_BYTES {
                break;
            }
        }
        Some(text)
    }
}

impl StreamEvent {
    /// Returns whether the caller may see the event.
    pub(super) fn is_visible_to(&self, caller: &Identity) -> bool {
        self.name.as_ref().is_none_or(|name| caller.has_access_to(name))
    }

    /// Appends the event in the format of server-sent events.
    pub(super) fn write_to(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", self.id, self.kind, self.data);
    }
}
