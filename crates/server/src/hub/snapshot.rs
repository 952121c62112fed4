//! Everything at one moment, for those who begin to follow. It is large: all of them read the same one, piece by piece.

use std::fmt::Write;
use std::sync::{Arc, Weak};

use serde_json::json;

use super::state::State;
use super::{HISTORY_SHOWN, Mark, News, to_json, unix_millis};
use crate::auth::Identity;
use crate::view::EventView;

/// A piece is sent when it has reached this size.
pub(super) const PIECE_BYTES: usize = 8 * 1024;

/// Everything at one moment. What it has of a lock is the event that told of it last, and takes no memory of its own.
pub(super) struct Snapshot {
    pub(super) mark: Mark,
    /// The parts that are the same for everyone: the beginning of a JSON object.
    head: String,
    /// Lists of what some may not see.
    lists: [(&'static str, Vec<Arc<News>>); 3],
}

impl Snapshot {
    pub(super) fn new(state: &State) -> Self {
        let outages: Vec<_> = state.outages.seen().collect();
        let mut head = json!({"at_ms": unix_millis(), "nodes": state.nodes, "outages": outages}).to_string();
        // The lists come before the end of the object.
        head.pop();
        let news = |event: &EventView| {
            Arc::new(News {
                mark: state.last,
                what: "history",
                data: to_json(event),
                name: Some(event.name.as_str().into()),
            })
        };
        let lists = [
            ("locks", state.locks.values().map(|tracked| Arc::clone(&tracked.told)).collect()),
            ("history", state.history.iter().take(HISTORY_SHOWN).map(news).collect()),
            ("lapses", state.lapses.seen().map(news).collect()),
        ];
        Self { mark: state.last, head, lists }
    }

    pub(super) fn is_being_read(self: &Arc<Self>) -> bool {
        Arc::weak_count(self) > 0
    }
}

/// How far a follower has read the snapshot. It does not keep it alive: a follower that is so slow that the events after
/// the snapshot are gone has to begin again, and holds no memory until it does.
pub(super) struct Reading {
    pub(super) snapshot: Weak<Snapshot>,
    /// Where the events after the snapshot begin.
    pub(super) mark: Mark,
    /// `None` before the head.
    list: Option<usize>,
    item: usize,
    is_first: bool,
}

impl Reading {
    pub(super) fn new(snapshot: &Arc<Snapshot>) -> Self {
        Self { snapshot: Arc::downgrade(snapshot), mark: snapshot.mark, list: None, item: 0, is_first: true }
    }

    /// The next piece of what the caller may see: empty at the end, and `None` if the snapshot was replaced.
    pub(super) fn next(&mut self, caller: &Identity) -> Option<String> {
        let snapshot = self.snapshot.upgrade()?;
        let mut text = String::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        let Some(mut list) = self.list else {
            self.list = Some(0);
            // Writing to a string cannot fail.
            let _ = write!(text, "id: {}\nevent: snapshot\ndata: {}", snapshot.mark, snapshot.head);
            return Some(text);
        };
        let Some((title, items)) = snapshot.lists.get(list) else { return Some(String::new()) };
        if self.item == 0 {
            let _ = write!(text, ",\"{title}\":[");
            self.is_first = true;
        }
        for item in &items[self.item..] {
            self.item += 1;
            if item.is_for(caller) {
                if !std::mem::take(&mut self.is_first) {
                    text.push(',');
                }
                text.push_str(&item.data);
            }
            if text.len() >= PIECE_BYTES {
                return Some(text);
            }
        }
        text.push(']');
        list += 1;
        (self.list, self.item) = (Some(list), 0);
        if list == snapshot.lists.len() {
            text.push_str("}\n\n");
        }
        Some(text)
    }
}

impl News {
    /// Whether the caller may see it.
    pub(super) fn is_for(&self, caller: &Identity) -> bool {
        self.name.as_ref().is_none_or(|name| caller.sees(name))
    }

    /// Adds it to a stream of server-sent events.
    pub(super) fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", self.mark, self.what, self.data);
    }
}
