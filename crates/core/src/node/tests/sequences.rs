extern crate std;

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::request::{BreakMode, Target};

/// One request: how long after the last one, how far the wall clock is off, by whom, and what.
type Move = (u64, i64, u8, Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Acquire {
        ahead: i64,
        ttl: u64,
    },
    Renew {
        ahead: i64,
        ttl: u64,
        repair: bool,
    },
    Extend {
        ttl: u64,
    },
    Release {
        tombstone: Option<u64>,
    },
    /// By the fence that is stored, or one that is not.
    Break {
        mode: BreakMode,
        off: u64,
    },
}

/// The attempts from here on are plain: an attempt is of one kind for all its life.
const PLAIN: u8 = 3;

fn moves() -> impl Strategy<Value = Vec<Move>> {
    // Often within the tolerated skew of the clock, sometimes beyond it.
    let ahead = || prop_oneof![-5..5_i64, -12_000_000..12_000_000_i64];
    let ttl = || 100..3_000_u64;
    let kind = prop_oneof![
        4 => (ahead(), ttl()).prop_map(|(ahead, ttl)| Kind::Acquire { ahead, ttl }),
        2 => (ahead(), ttl(), any::<bool>()).prop_map(|(ahead, ttl, repair)| Kind::Renew { ahead, ttl, repair }),
        1 => ttl().prop_map(|ttl| Kind::Extend { ttl }),
        2 => prop::option::of(0..3_000_u64).prop_map(|tombstone| Kind::Release { tombstone }),
        1 => (any::<bool>(), prop_oneof![3 => Just(0), 1 => Just(1_u64)]).prop_map(|(drain, off)| Kind::Break {
            mode: if drain { BreakMode::Drain } else { BreakMode::Now },
            off,
        }),
    ];
    vec((prop_oneof![0..3_u64, 0..2_000_u64], -5_000_000..5_000_000_i64, 0..5_u8, kind), 1..80)
}

fn request(who: u8, kind: Kind, wall: u64, stored: u64) -> Request {
    let (attempt, fence) =
        (LeaseId::from_bits(u128::from(who) + 1), |ahead| Fence::new(wall.saturating_add_signed(ahead)));
    let is_plain = who >= PLAIN;
    match kind {
        Kind::Acquire { ttl: millis, .. } if is_plain => Request::PlainAcquire { attempt, ttl: ttl(millis) },
        Kind::Acquire { ahead, ttl: millis } => {
            let (proposal, ttl, holder) = (fence(ahead), ttl(millis), "".into());
            Request::Acquire { attempt, proposal, ttl, holder, mode: Mode::EXCLUSIVE, waiter: None }
        }
        Kind::Renew { ahead, ttl: millis, repair } if !is_plain => {
            let (fence, ttl, holder) = (fence(ahead), ttl(millis), "".into());
            Request::Renew { attempt, fence, ttl, repair, holder, mode: Mode::EXCLUSIVE }
        }
        Kind::Renew { ttl: millis, .. } | Kind::Extend { ttl: millis } => {
            Request::PlainExtend { attempt, ttl: ttl(millis) }
        }
        Kind::Break { mode, off } => Request::Break { target: Target::Fence(Fence::new(stored + off)), mode },
        Kind::Release { .. } if is_plain => Request::PlainRelease { attempt },
        Kind::Release { tombstone } => Request::Release { attempt, tombstone, parting: None },
    }
}

/// What the outside knows of a node, from its answers alone.
struct Outside {
    floor: Fence,
    /// Who has a vote, and through which millisecond at least; nobody, while it drains.
    standing: Option<(LeaseId, u64)>,
    /// Whose last vote was broken.
    broken: BTreeSet<LeaseId>,
    /// The highest fence that each attempt was granted.
    highest: BTreeMap<LeaseId, Fence>,
}

impl Outside {
    fn new(floor: u64) -> Self {
        Self { floor: Fence::new(floor), standing: None, broken: BTreeSet::new(), highest: BTreeMap::new() }
    }

    fn sees(&mut self, request: &Request, vote: &Vote, now: u64) {
        let attempt = request.attempt();
        self.standing.take_if(|(_, until)| now > *until);
        let before = self.standing;
        if let (Vote::Broken { digest, stood: true, .. }, Request::Break { mode, .. }) = (vote, request) {
            let Some((who, until)) = before else { return };
            self.broken.insert(who);
            self.standing = (*mode == BreakMode::Drain).then_some((digest.signature(), until));
        }
        let Vote::Grant { fence, .. } = vote else { return };
        assert!(!self.broken.contains(&attempt) || request.is_plain(), "a broken attempt came back");
        assert!(before.is_none_or(|(who, _)| who == attempt), "two attempts have a vote");
        let until = match request {
            Request::Acquire { ttl, .. } | Request::Renew { ttl, .. } => {
                (now + ttl.as_millis()).max(before.map_or(0, |(_, until)| until))
            }
            Request::PlainAcquire { ttl, .. } | Request::PlainExtend { ttl, .. } => now + ttl.as_millis(),
            Request::Inspect | Request::Check { .. } | Request::Break { .. } => return,
            Request::Release { .. } | Request::Retire { .. } | Request::PlainRelease { .. } => {
                assert!(before.is_some(), "nothing stood that could be taken back");
                self.standing = None;
                return;
            }
        };
        self.standing = Some((attempt, until));
        if matches!(request, Request::Acquire { .. }) && before.is_none() {
            let others = self.highest.iter().filter(|(who, _)| **who != attempt).map(|(_, fence)| *fence).max();
            assert!(others.is_none_or(|highest| *fence > highest), "{fence} after {others:?}");
            assert!(*fence >= self.floor, "{fence} below the floor");
        }
        if !request.is_plain() {
            let highest = self.highest.entry(attempt).or_default();
            assert!(*fence >= *highest, "an attempt's fence sank");
            *highest = *fence;
        }
    }
}

proptest! {
    #[test]
    fn one_vote_at_a_time_and_fences_only_grow(moves in moves(), floor in 0..2 * CLOCK) {
        let mut node = Node { life: voting(floor), ..Node::new() };
        let (mut outside, mut life_millis) = (Outside::new(floor), T);
        for (wait, off, who, kind) in moves {
            life_millis += wait;
            let wall_micros = (life_millis * 1_000).saturating_add_signed(off);
            let stored = node.fence();
            outside.broken.retain(|who| node.record.tombstones.get(who).is_some_and(|until| *until >= life_millis));
            let request = request(who, kind, wall_micros, stored.unwrap_or_default());
            let now = NodeTime { wall_micros, life_millis };
            let Answer { vote, .. } = answer(&node.life, &mut node.record, &request, EPOCH, now);
            prop_assert!(node.fence() >= stored, "the stored fence sank");
            outside.sees(&request, &vote, life_millis);
            let standing = node.vote().filter(|(_, until)| *until >= life_millis);
            prop_assert_eq!(standing, outside.standing);
        }
    }
}
