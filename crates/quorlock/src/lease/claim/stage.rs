//! The state of a claim, which its mutex guards.

use std::time::Duration;

use quorlock_core::acquire::Acquire;
use quorlock_core::hold::{Defeat, Hold, Step, Wait};
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::request::{Parting, Waiter};
use quorlock_core::rules::Rule;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Tally};

use crate::cluster::owner::OwnerFence;
use crate::error::LostError;
use crate::platform::clock;
use crate::platform::entropy::SystemRng;
use crate::platform::timers::Call;

/// The state of a claim.
pub(super) struct ClaimState {
    pub(super) stage: Stage,
    pub(super) attempt: LeaseId,
    /// The nodes that this attempt or an earlier one asked.
    pub(super) asked: NodeSet,
    /// Whether this attempt has sent a request.
    pub(super) has_asked: bool,
    /// Whether the claim listens for hints, because nodes may have it in their queues: it was refused, or has asked
    /// again.
    pub(super) listens: bool,
    /// The position in the queue, after the win.
    pub(super) waiter: Option<Waiter>,
    /// The nodes that granted the acquire, after the win. A granted renewal does not end a queue position.
    pub(super) granted: NodeSet,
    /// The end of its validity by the wall clock.
    pub(super) wall_until: i64,
    /// Why it is over, unless it was released.
    pub(super) end: Option<LostError>,
    /// The last renewal that was decided: its number, and the tally if it failed.
    pub(super) verdict: Option<(u32, Option<Box<Tally>>)>,
    /// The fence that the entries of one owner of a reentrant lock share.
    pub(super) owner_fence: Option<OwnerFence>,
    /// The next timer call.
    pub(super) call: Option<Call>,
    /// The nodes at whose links requests are queued.
    pub(super) queued: NodeSet,
    /// Whether something changed that a caller may wait for.
    pub(super) has_changed: bool,
}

pub(super) enum Stage {
    /// The lock is being acquired.
    Acquiring {
        machine: Box<Acquire>,
        /// The latest state of the queue that the observer has not seen.
        news: Option<Wait>,
    },
    /// The lock was won. The hold knows whether it is still held.
    Held(Hold),
    /// The lease is detached: other processes renew and release it. The claim still requests it from nodes that do not
    /// have it, which is called the repair.
    Detached {
        hold: Hold,
        /// The time of the next requests, and the pause after them. `None` once the repair is over.
        next: Option<Moment>,
        pause: Duration,
    },
    /// The lock was not won. The caller takes the defeat, which is `None` if the client was closed.
    Over(Option<Box<Defeat>>),
}

impl ClaimState {
    pub(super) fn hold(&self) -> Option<&Hold> {
        match &self.stage {
            Stage::Held(hold) | Stage::Detached { hold, .. } => Some(hold),
            Stage::Acquiring { .. } | Stage::Over(_) => None,
        }
    }

    /// Returns the time by which to judge the hold: `now`, or the end of the hold if it is over by the wall clock. The
    /// clock of `now` stops while the machine is paused, and the nodes' ttls do not. A wall clock that was set forward
    /// looks the same.
    pub(super) fn moment(&self, now: Moment, wall: impl FnOnce() -> i64) -> Moment {
        let Some((_, until)) = self.hold().and_then(Hold::span) else { return now };
        let notices = self.hold().is_some_and(|hold| hold.terms().rules.hold(Rule::NoticePauses));
        if notices && wall() > self.wall_until { now.max(until) } else { now }
    }

    /// Updates the end by the wall clock after the hold may have been renewed.
    pub(super) fn follow_hold(&mut self) {
        if let Some((from, until)) = self.hold().and_then(Hold::span) {
            let lasts = i64::try_from(until.since(from).as_nanos()).unwrap_or(i64::MAX);
            self.wall_until = clock::wall_at(from).saturating_add(lasts);
        }
    }

    /// Takes a node's reply to the current attempt.
    pub(super) fn take(&mut self, round: u32, node: usize, outcome: Outcome, now: Moment) -> Vec<Step> {
        let now = self.moment(now, clock::wall);
        let rng = &mut SystemRng::default();
        let steps = match &mut self.stage {
            Stage::Acquiring { machine, .. } => return machine.take(self.attempt, node, outcome, now, rng),
            Stage::Held(hold) => hold.take(round, node, outcome, now, rng),
            Stage::Detached { hold, .. } => {
                // Only the set of nodes that have granted it matters here. The processes that have its text detect a
                // loss.
                hold.take(round, node, outcome, now, rng);
                Vec::new()
            }
            Stage::Over(_) => Vec::new(),
        };
        self.follow_hold();
        steps
    }

    pub(super) fn next_tick(&self) -> Option<Moment> {
        match &self.stage {
            Stage::Acquiring { machine, .. } => machine.next_tick(),
            Stage::Held(hold) => hold.next_tick(),
            Stage::Detached { next, .. } => *next,
            Stage::Over(_) => None,
        }
    }

    /// Returns the time for which no timer call is scheduled yet.
    pub(super) fn unscheduled(&self) -> Option<Moment> {
        self.next_tick().filter(|next| self.call.is_none_or(|(at, _)| *next < at))
    }

    /// Returns whether the claim has queued its last release.
    pub(super) fn is_settled(&self) -> bool {
        match &self.stage {
            Stage::Acquiring { .. } => false,
            Stage::Held(hold) => !hold.is_held(),
            Stage::Detached { .. } | Stage::Over(_) => true,
        }
    }

    /// Returns what to do about the position in each node's queue when the lease is over. A node that granted the lease
    /// has no position for it, unless it was asked more than once.
    pub(super) fn parting(&self) -> impl Fn(usize) -> Option<Parting> + use<> {
        let (waiter, listens, granted) = (self.waiter, self.listens, self.granted);
        move |node| waiter.filter(|_| listens || !granted.contains(node)).map(Parting::Leave)
    }

    pub(super) fn set_attempt(&mut self, attempt: LeaseId) {
        if self.attempt != attempt {
            (self.attempt, self.has_asked) = (attempt, false);
        }
    }
}
