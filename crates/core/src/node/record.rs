//! What a node stores for one name.

use alloc::string::String;
use core::time::Duration;

use crate::fence::Fence;
use crate::name::LeaseId;
use crate::node::Constants;

/// Fences are kept at least this long after the last lease of a name, so that nothing piles up for ever.
pub const FENCE_RETENTION_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a fence is kept: long enough for the clocks to be past it when it goes.
pub fn retention_millis(constants: &Constants) -> u64 {
    let four_sigma = constants.sigma_micros.saturating_mul(4) / 1_000;
    (FENCE_RETENTION_MIN.as_millis() as u64).max(constants.max_ttl_millis.saturating_add(four_sigma))
}

/// A node's clocks. On Redis both are the wall clock; an SQLite node lets votes lapse by the time since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTime {
    /// Microseconds since the Unix epoch: for fences.
    pub wall_micros: u64,
    /// Milliseconds on the clock by which things lapse.
    pub life_millis: u64,
}

impl NodeTime {
    /// The time of a node that has only its wall clock.
    pub fn wall(micros: u64) -> Self {
        Self { wall_micros: micros, life_millis: micros / 1_000 }
    }
}

/// A vote that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteNote {
    /// For whom.
    pub attempt: LeaseId,
    /// The last millisecond in which it stands.
    pub until: u64,
}

/// The highest fence of a name, and who got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceNote {
    /// The number.
    pub fence: Fence,
    /// The attempt that it was given to. If the standing vote is another's, the holder is unknown.
    pub by: LeaseId,
    /// Since when, by the node's wall clock.
    pub since_micros: u64,
    /// Who, as text for people.
    pub holder: String,
    /// The last millisecond in which it is kept.
    pub until: u64,
}

/// What a node has for one name, as one attempt sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The vote that stands.
    pub vote: Option<VoteNote>,
    /// The highest fence.
    pub fence: Option<FenceNote>,
    /// The last millisecond of the asking attempt's tombstone.
    pub tombstone: Option<u64>,
}

impl Record {
    /// Forgets what has lapsed. Like Redis, a thing is still there in the millisecond in which it ends.
    pub fn lapse(&mut self, now: NodeTime) {
        let gone = |until: u64| now.life_millis > until;
        self.vote.take_if(|vote| gone(vote.until));
        self.fence.take_if(|fence| gone(fence.until));
        self.tombstone.take_if(|until| gone(*until));
    }
}
