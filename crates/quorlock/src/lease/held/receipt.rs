//! The receipt of a release.

use std::sync::Arc;

use quorlock_core::name::LeaseId;
use quorlock_core::quorum::{Quorum, Tally};
use quorlock_core::round::Round;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Silence};
use tokio::sync::Notify;

use crate::link::Voter;
use crate::platform::sync::Mutex;
use crate::platform::timers::Timed;

/// Counts the acknowledgements of a release.
pub(super) struct Receipt {
    round: Mutex<(Round, Moment)>,
    news: Notify,
}

impl Receipt {
    /// Of a majority of these nodes, by this moment.
    pub(super) fn new(quorum: Quorum, deadline: Moment) -> Self {
        Self { round: Mutex::new((Round::new(quorum), deadline)), news: Notify::new() }
    }

    /// Whether there is nothing left to wait for.
    pub(super) fn is_complete(&self) -> bool {
        let guard = self.round.lock();
        guard.0.is_answered() || guard.0.is_unanswerable()
    }

    pub(super) fn take(&self, node: usize, outcome: Outcome) {
        let is_news = {
            let mut guard = self.round.lock();
            guard.0.take(node, outcome);
            guard.0.is_answered() || guard.0.is_unanswerable()
        };
        if is_news {
            self.news.notify_waiters();
        }
    }

    pub(super) async fn wait(&self) -> Result<(), Tally> {
        loop {
            let news = self.news.notified();
            {
                let guard = self.round.lock();
                if guard.0.is_answered() {
                    return Ok(());
                }
                if guard.0.is_unanswerable() {
                    return Err(guard.0.tally());
                }
            }
            news.await;
        }
    }
}

impl Voter for Receipt {
    fn vote(self: Arc<Self>, node: usize, _attempt: LeaseId, _round: u32, outcome: Outcome, _now: Moment) {
        self.take(node, outcome);
    }
}

impl Timed for Receipt {
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment> {
        let mut guard = self.round.lock();
        if now < guard.1 {
            return Some(guard.1);
        }
        guard.0.silence_the_rest(&Silence::Late);
        drop(guard);
        self.news.notify_waiters();
        None
    }
}
