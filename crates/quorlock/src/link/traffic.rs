//! Counts the messages on a client's links.

use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of requests, replies and hints on all links together.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) requests: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) hints: AtomicU64,
}

impl Traffic {
    pub(crate) fn sent(&self, requests: usize) {
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, replies: usize) {
        self.replies.fetch_add(replies as u64, Ordering::Relaxed);
    }

    pub(crate) fn heard_hint(&self) {
        self.hints.fetch_add(1, Ordering::Relaxed);
    }
}
