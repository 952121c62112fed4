//! A snapshot for new readers of the stream. It is large, so several readers use the same snapshot, and read it piece
//! by piece.

use std::fmt::Write;
use std::sync::{Arc, Weak};

use quorlock::EventView;
use serde_json::json;

use super::state::State;
use super::{HISTORY_SHOWN, Mark, News, to_json, unix_millis};
use crate::auth::Identity;

/// The size at which a piece is sent.
pub(super) const PIECE_BYTES: usize = 8 * 1024;

/// The full state at one moment. For each lock it refers to the last event about the lock, which needs no extra memory.
pub(super) struct Snapshot {
    pub(super) mark: Mark,
    parts: Vec<Part>,
}

/// A part of the text of a snapshot.
enum Part {
    /// The same for every reader.
    Text(String),
    /// An entry of a list, which some readers may not see.
    Entry(Arc<News>),
}

impl Snapshot {
    pub(super) fn new(state: &State) -> Self {
        let mut head = json!({"at_ms": unix_millis(), "nodes": state.nodes, "outages": state.outages}).to_string();
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
        let lists: [(_, Vec<_>); 3] = [
            ("locks", state.locks.values().map(|tracked| Arc::clone(&tracked.told)).collect()),
            ("history", state.history.iter().take(HISTORY_SHOWN).map(news).collect()),
            ("lapses", state.lapses.seen.iter().map(news).collect()),
        ];
        let mut parts = vec![Part::Text(format!("id: {}\nevent: snapshot\ndata: {head}", state.last))];
        for (title, entries) in lists {
            parts.push(Part::Text(format!(",\"{title}\":[")));
            parts.extend(entries.into_iter().map(Part::Entry));
            parts.push(Part::Text("]".into()));
        }
        parts.push(Part::Text("}\n\n".into()));
        Self { mark: state.last, parts }
    }

    pub(super) fn is_being_read(self: &Arc<Self>) -> bool {
        Arc::weak_count(self) > 0
    }
}

/// A follower's position in the snapshot. It does not keep the snapshot alive: a follower that is too slow for the
/// events after the snapshot has to start again, and uses no memory until it does.
pub(super) struct Reading {
    pub(super) snapshot: Weak<Snapshot>,
    /// The mark after which the events following the snapshot begin.
    pub(super) mark: Mark,
    /// The number of parts that it has read.
    read: usize,
    /// Whether no entry of the list was read yet.
    is_first: bool,
}

impl Reading {
    pub(super) fn new(snapshot: &Arc<Snapshot>) -> Self {
        Self { snapshot: Arc::downgrade(snapshot), mark: snapshot.mark, read: 0, is_first: true }
    }

    /// Returns the next piece that the caller may see: empty at the end, and `None` if the snapshot was replaced.
    pub(super) fn next(&mut self, caller: &Identity) -> Option<String> {
        let snapshot = self.snapshot.upgrade()?;
        let mut text = String::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        for part in &snapshot.parts[self.read..] {
            self.read += 1;
            match part {
                Part::Text(part) => {
                    text.push_str(part);
                    self.is_first = true;
                }
                Part::Entry(news) if news.is_for(caller) => {
                    if !std::mem::take(&mut self.is_first) {
                        text.push(',');
                    }
                    text.push_str(&news.data);
                }
                Part::Entry(_) => {}
            }
            if text.len() >= PIECE_BYTES {
                break;
            }
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
