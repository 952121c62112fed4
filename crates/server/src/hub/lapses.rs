//! Leases that ended because nobody renewed them, as this replica has seen it: the nodes forget such a lease without a word.

use std::collections::VecDeque;

use super::change::Tracked;
use crate::view::{EventView, LockView};

/// How many are remembered.
const LAPSES_MAX: usize = 200;
/// How far the nodes' clocks, by which events are dated, may be from this one's.
const CLOCKS_MS: u64 = 10_000;

/// All of them since this replica began.
#[derive(Debug, Default)]
pub(super) struct Lapses {
    /// Those that were gone at the last look.
    suspected: Vec<Suspect>,
    /// Newest first.
    seen: VecDeque<EventView>,
}

/// A lease that is gone, at about the time at which it had to be.
#[derive(Debug)]
struct Suspect {
    lapse: EventView,
    /// When it was there last.
    held_ms: u64,
}

impl Suspect {
    /// Whether it has ended as this tells, and so not by itself.
    fn is_told_by(&self, event: &EventView) -> bool {
        event.is_end()
            && event.name == self.lapse.name
            && event.fence == self.lapse.fence
            && event.at_ms.saturating_add(CLOCKS_MS) >= self.held_ms
    }
}

impl Lapses {
    /// A lock before and now, when its lease was to end by now at the latest.
    pub(super) fn compare(&mut self, before: &Tracked, now: Option<&LockView>, by_ms: u64) {
        let lock = &before.lock;
        let ends_ms = lock.left_ms.and_then(|left| before.at_ms.checked_add(left));
        let Some(at_ms) = ends_ms.filter(|ends| *ends <= by_ms) else { return };
        let is_over = match now {
            // A majority had it, and no majority is without any of those.
            None => true,
            Some(now) if now.held => !before.is_same_lease(now),
            Some(now) => now.nodes.iter().all(|node| node.trouble.is_none()),
        };
        // Of several who held together, who is gone cannot be told.
        if is_over && lock.held && lock.holds == 1 {
            self.suspected.push(Suspect { lapse: EventView::lapsed(lock, at_ms), held_ms: before.at_ms });
        }
    }

    /// Those that were gone at the last look, and of which nothing else has been told since.
    pub(super) fn judge(&mut self, history: &[EventView]) -> Vec<EventView> {
        let suspected = std::mem::take(&mut self.suspected).into_iter();
        let lapsed = suspected.filter(|suspect| !history.iter().any(|event| suspect.is_told_by(event)));
        let lapsed: Vec<_> = lapsed.map(|suspect| suspect.lapse).collect();
        for lapse in &lapsed {
            self.seen.push_front(lapse.clone());
        }
        self.seen.truncate(LAPSES_MAX);
        lapsed
    }

    pub(super) fn seen(&self) -> impl Iterator<Item = &EventView> {
        self.seen.iter()
    }
}
