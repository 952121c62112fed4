//! Sends random sequences of exclusive and plain requests to a node, and checks the answers.

extern crate std;

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::request::{BreakMode, Target};

/// The milliseconds since the previous request, the error of the wall clock in microseconds, the client, and the
/// request that the client sends.
type TimedAction = (u64, i64, u8, Action);

#[derive(Clone, Copy, Debug)]
enum Action {
    Acquire {
        /// The proposal minus the wall clock, in microseconds.
        fence_offset: i64,
        ttl_ms: u64,
    },
    Renew {
        fence_offset: i64,
        ttl_ms: u64,
        repair: bool,
    },
    Extend {
        ttl_ms: u64,
    },
    Release {
        tombstone_ms: Option<u64>,
    },
    Break {
        mode: BreakMode,
        /// The fence of the request minus the stored fence. A break of a higher fence than the stored one is refused.
        excess: u64,
    },
}

/// Clients with this number or a higher one send plain requests.
const FIRST_PLAIN: u8 = 3;

fn actions() -> impl Strategy<Value = Vec<TimedAction>> {
    // Small offsets, and offsets that may exceed the max clock skew.
    let fence_offset = || prop_oneof![-5..5_i64, -12_000_000..12_000_000_i64];
    let ttl_ms = || 100..3_000_u64;
    let action = prop_oneof![
        4 => (fence_offset(), ttl_ms()).prop_map(|(fence_offset, ttl_ms)| Action::Acquire { fence_offset, ttl_ms }),
        2 => (fence_offset(), ttl_ms(), any::<bool>())
            .prop_map(|(fence_offset, ttl_ms, repair)| Action::Renew { fence_offset, ttl_ms, repair }),
        1 => ttl_ms().prop_map(|ttl_ms| Action::Extend { ttl_ms }),
        2 => prop::option::of(0..3_000_u64).prop_map(|tombstone_ms| Action::Release { tombstone_ms }),
        1 => (any::<bool>(), prop_oneof![3 => Just(0), 1 => Just(1_u64)]).prop_map(|(drain, excess)| Action::Break {
            mode: if drain { BreakMode::Drain } else { BreakMode::Now },
            excess,
        }),
    ];
    vec((prop_oneof![0..3_u64, 0..2_000_u64], -5_000_000..5_000_000_i64, 0..5_u8, action), 1..80)
}

fn request(client: u8, action: Action, wall_micros: u64, stored_fence: u64) -> Request {
    let (attempt, fence) =
        (LeaseId::from_bits(u128::from(client) + 1), |offset| Fence::new(wall_micros.saturating_add_signed(offset)));
    let is_plain = client >= FIRST_PLAIN;
    match action {
        Action::Acquire { ttl_ms, .. } if is_plain => Request::PlainAcquire { attempt, ttl: ttl(ttl_ms) },
        Action::Acquire { fence_offset, ttl_ms } => {
            let (proposal, ttl, holder) = (fence(fence_offset), ttl(ttl_ms), "".into());
            Request::Acquire { attempt, proposal, ttl, holder, mode: Mode::EXCLUSIVE, waiter: None }
        }
        Action::Renew { fence_offset, ttl_ms, repair } if !is_plain => {
            let (fence, ttl, holder) = (fence(fence_offset), ttl(ttl_ms), "".into());
            Request::Renew { attempt, fence, ttl, repair, holder, mode: Mode::EXCLUSIVE }
        }
        Action::Renew { ttl_ms, .. } | Action::Extend { ttl_ms } => Request::PlainExtend { attempt, ttl: ttl(ttl_ms) },
        Action::Break { mode, excess } => {
            Request::Break { target: Target::Fence(Fence::new(stored_fence + excess)), mode }
        }
        Action::Release { .. } if is_plain => Request::PlainRelease { attempt },
        Action::Release { tombstone_ms } => Request::Release { attempt, tombstone: tombstone_ms, parting: None },
    }
}

/// What an observer knows of a node from the node's answers alone.
struct Observer {
    floor: Fence,
    /// The signature and the last millisecond of the current vote.
    vote: Option<(LeaseId, u64)>,
    /// The attempts whose votes were broken.
    broken_attempts: BTreeSet<LeaseId>,
    /// The highest fence that each attempt was granted.
    highest_fences: BTreeMap<LeaseId, Fence>,
}

impl Observer {
    fn new(floor: u64) -> Self {
        Self { floor: Fence::new(floor), vote: None, broken_attempts: BTreeSet::new(), highest_fences: BTreeMap::new() }
    }

    fn observe(&mut self, request: &Request, vote: &Vote, now_ms: u64) {
        let attempt = request.attempt();
        self.vote.take_if(|(_, until_ms)| now_ms > *until_ms);
        let before = self.vote;
        if let (Vote::Broken { digest, stood: true, .. }, Request::Break { mode, .. }) = (vote, request) {
            let Some((attempt, until_ms)) = before else { return };
            self.broken_attempts.insert(attempt);
            self.vote = (*mode == BreakMode::Drain).then_some((digest.broken_signature(), until_ms));
        }
        let Vote::Grant { fence, .. } = vote else { return };
        assert!(!self.broken_attempts.contains(&attempt) || request.is_plain(), "a broken attempt was granted again");
        assert!(before.is_none_or(|(signature, _)| signature == attempt), "two attempts have a vote");
        let until_ms = match request {
            Request::Acquire { ttl, .. } | Request::Renew { ttl, .. } => {
                (now_ms + ttl.as_millis()).max(before.map_or(0, |(_, until_ms)| until_ms))
            }
            Request::PlainAcquire { ttl, .. } | Request::PlainExtend { ttl, .. } => now_ms + ttl.as_millis(),
            Request::Inspect | Request::Check { .. } | Request::Break { .. } => return,
            Request::Release { .. } | Request::Retire { .. } | Request::PlainRelease { .. } => {
                assert!(before.is_some(), "a release was granted without a vote");
                self.vote = None;
                return;
            }
        };
        self.vote = Some((attempt, until_ms));
        if matches!(request, Request::Acquire { .. }) && before.is_none() {
            let others =
                self.highest_fences.iter().filter(|(other, _)| **other != attempt).map(|(_, fence)| *fence).max();
            assert!(others.is_none_or(|highest| *fence > highest), "{fence} was granted after {others:?}");
            assert!(*fence >= self.floor, "{fence} is below the floor");
        }
        if !request.is_plain() {
            let highest = self.highest_fences.entry(attempt).or_default();
            assert!(*fence >= *highest, "an attempt's fence decreased");
            *highest = *fence;
        }
    }
}

proptest! {
    #[test]
    fn a_node_has_one_vote_at_a_time_and_its_fences_only_grow(actions in actions(), floor in 0..2 * CLOCK) {
        let mut node = Node { life: voting(floor), ..Node::new() };
        let (mut observer, mut life_millis) = (Observer::new(floor), T);
        for (wait_ms, clock_error, client, action) in actions {
            life_millis += wait_ms;
            let wall_micros = (life_millis * 1_000).saturating_add_signed(clock_error);
            let stored_fence = node.fence();
            let tombstones = &node.record.tombstones;
            let has_tombstone = |attempt: &LeaseId| tombstones.get(attempt).is_some_and(|until| *until >= life_millis);
            observer.broken_attempts.retain(has_tombstone);
            let request = request(client, action, wall_micros, stored_fence.unwrap_or_default());
            let now = NodeTime { wall_micros, life_millis };
            let Answer { vote, .. } = answer(&node.life, &mut node.record, &request, EPOCH, now);
            prop_assert!(node.fence() >= stored_fence, "the stored fence decreased");
            observer.observe(&request, &vote, life_millis);
            let vote = node.vote().filter(|(_, until_ms)| *until_ms >= life_millis);
            prop_assert_eq!(vote, observer.vote);
        }
    }
}
