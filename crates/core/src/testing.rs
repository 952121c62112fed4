//! Test code that several modules share: moments, random numbers and answers.

use alloc::sync::Arc;
use core::time::Duration;

use crate::fence::Fence;
use crate::quorum::{Elector, Electors, Quorum};
use crate::rng::Rng;
use crate::time::{Moment, Ttl};
use crate::vote::{Outcome, QueuePosition, Refusal, Silence, Vote};

/// A source of numbers that counts up from zero or down from the highest number, so that it never repeats one.
pub(crate) struct CountingRng {
    next: u64,
    step: u64,
}

impl CountingRng {
    /// Returns a source of low numbers, with which every delay is the shortest one.
    pub(crate) fn low() -> Self {
        Self { next: 1, step: 1 }
    }

    /// Returns a source of high numbers, with which every delay is the longest one.
    pub(crate) fn high() -> Self {
        Self { next: u64::MAX, step: u64::MAX }
    }
}

impl Rng for CountingRng {
    fn bits(&mut self) -> u64 {
        self.next = self.next.wrapping_add(self.step);
        self.next
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the moment this many milliseconds after the clock's origin.
pub(crate) const fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

pub(crate) fn ttl(millis: u64) -> Ttl {
    Ttl::new(ms(millis), Duration::MAX).unwrap()
}

/// Returns electors among whom each of this many nodes is a member.
pub(crate) fn all(nodes: usize) -> Arc<Electors> {
    Arc::new(Electors::all(Quorum::new(nodes).unwrap()))
}

/// Returns the electors of a generation, for a list of this many nodes. `members` has each member, by the position of
/// [`Elector::at`], and the generation in which it was last quarantined.
pub(crate) fn roster(nodes: usize, generation: u64, members: &[(usize, u64)]) -> Arc<Electors> {
    let ids = members.iter().map(|(node, since)| (Elector::at(*node).member, *since)).collect();
    Arc::new(Electors::new(nodes, Quorum::majority_of(members.len()), generation, ids))
}

/// Returns the member of [`Elector::at`] this position, which votes under this generation.
pub(crate) fn under(generation: u64, node: usize) -> Elector {
    Elector { generation, ..Elector::at(node) }
}

/// Returns the outcome as an answer of this elector.
pub(crate) fn by(elector: Elector, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Voted { vote, sent, .. } => Outcome::Voted { vote, elector, sent },
        silent @ Outcome::Silent(_) => silent,
    }
}

/// Returns a grant of a request that was sent at this many milliseconds.
pub(crate) fn grant(fence: u64, sent_ms: u64) -> Outcome {
    Outcome::Voted { vote: Vote::grant(Fence::new(fence)), elector: Elector::at(0), sent: at(sent_ms) }
}

pub(crate) fn refuse(why: Refusal) -> Outcome {
    Outcome::Voted { vote: Vote::Refusal(why), elector: Elector::at(0), sent: at(0) }
}

/// Returns a refusal because another client holds the lock with this fence and no one waits.
pub(crate) fn held(fence: u64) -> Outcome {
    held_in(fence, QueuePosition::default())
}

/// Returns a refusal because another client holds the lock with this fence, with this queue.
pub(crate) fn held_in(fence: u64, queue: QueuePosition) -> Outcome {
    refuse(Refusal::Held { holder: None, remaining: Some(ms(1_000)), fence: Fence::new(fence), queue })
}

pub(crate) fn late() -> Outcome {
    Outcome::Silent(Silence::Late)
}
