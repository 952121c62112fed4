//! A snapshot for new followers. It is large, so all of them share one and read it piece by piece.

use std::fmt::Write;
use std::sync::{Arc, Weak};

use serde_json::json;

use super::state::State;
use super::{HISTORY_SHOWN, Mark, News, to_json, unix_millis};
use crate::auth::Identity;
use crate::view::EventView;

/// The size at which a piece is sent.
pub(super) const PIECE_BYTES: usize = 8 * 1024;

/// Everything at one moment. For each lock it shares the last event about it, which takes no extra memory.
pub(super) struct Snapshot {
    pub(super) mark: Mark,
    /// The parts that are the same for every reader: the beginning of a JSON object.
    head: String,
    /// The lists with entries that some readers may not see.
    lists: [(&'static str, Vec<Arc<News>>); 3],
}

impl Snapshot {
    pub(super) fn new(state: &State) -> Self {
        let outages: Vec<_> = state.outages.seen().collect();
        let mut head = json!({"at_ms": unix_millis(), "nodes": state.nodes, "outages": outages}).to_string();
        // Remove the closing brace: the lists follow.
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

/// A follower's position in the snapshot. It does not keep the snapshot alive: a follower that is too slow for the events
/// after the snapshot has to start again, and uses no memory until it does.
pub(super) struct Reading {
    pub(super) snapshot: Weak<Snapshot>,
    /// The mark after which the events following the snapshot begin.
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

    /// Returns the next piece that the caller may see: empty at the end, and `None` if the snapshot was replaced.
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
    /// Returns whether the caller may see it.
    pub(super) fn is_for(&self, caller: &Identity) -> bool {
        self.name.as_ref().is_none_or(|name| caller.sees(name))
    }

    /// Appends it to a stream of server-sent events.
    pub(super) fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", self.mark, self.what, self.data);
    }
}
