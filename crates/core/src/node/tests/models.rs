//! Each kind against a model that knows only who conflicts with whom, who waits, and when things lapse.

extern crate std;

mod model;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::request::{BreakMode, ENTRY_LEASE, Parting, Target};
use crate::vote::GrantedSlot;
use model::{Model, Says};

/// One request: how long after the last one, whose, and what.
type Move = (u64, usize, Act);

#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire {
        ahead: i64,
        ttl: u64,
        in_queue: bool,
        start: u32,
    },
    /// `astray` asks for another slot than the one that is held.
    Renew {
        ttl: u64,
        repair: bool,
        astray: bool,
    },
    Release,
    Leave,
    Yield,
    /// By the fence that is stored, or by another.
    Break {
        mode: BreakMode,
        wrong: bool,
    },
}

fn moves(cast: usize) -> impl Strategy<Value = Vec<Move>> {
    let ttl = || 100..3_000_u64;
    let act = prop_oneof![
        6 => (-40..40_i64, ttl(), any::<bool>(), 0..4_u32)
            .prop_map(|(ahead, ttl, in_queue, start)| Act::Acquire { ahead, ttl, in_queue, start }),
        2 => (ttl(), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(ttl, repair, astray)| Act::Renew { ttl, repair, astray }),
        2 => Just(Act::Release),
        1 => Just(Act::Leave),
        1 => Just(Act::Yield),
        1 => (any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(drain, wrong)| Act::Break {
            mode: if drain { BreakMode::Drain } else { BreakMode::Now },
            wrong,
        }),
    ];
    vec((prop_oneof![4 => 0..50_u64, 1 => 0..3_000_u64], 0..cast, act), 1..100)
}

/// The order of the tickets is not that of the players.
fn tickets(cast: usize) -> impl Strategy<Value = Vec<u64>> {
    Just((1..=cast as u64).collect::<Vec<_>>()).prop_shuffle()
}

/// Plays the moves on a node and in the model, and compares. `told` says whether hints are sure to be good ones.
fn play(cast: &[Mode], tickets: Vec<u64>, moves: Vec<Move>, told: bool) {
    let mut model = Model::new(cast, tickets);
    let (mut node, mut now) = (Node::new(), T);
    for (wait, who, act) in moves {
        now += wait;
        model.lapse(now);
        let attempt = LeaseId::from_bits(model.attempts[who]);
        let waiter = waiter(cast[who], model.tickets[who]);
        let (was_in, was_free) = (model.standing.contains_key(&who), model.standing.is_empty());
        let (stored, clock) = (node.fence(), now * 1_000);
        let release = |parting| Request::Release { attempt, tombstone: None, parting };
        let (request, expected) = match act {
            Act::Acquire { ahead, ttl: millis, in_queue, start } => {
                let mode = match cast[who] {
                    Mode::Slot { permits, .. } => slot(permits, start),
                    mode => mode,
                };
                let (proposal, holder) = (Fence::new(clock.saturating_add_signed(ahead)), "".into());
                let waiter = in_queue.then_some(waiter);
                let request = Request::Acquire { attempt, proposal, ttl: ttl(millis), holder, mode, waiter };
                (request, model.expects_of_acquire(who, in_queue))
            }
            Act::Renew { ttl: millis, repair, astray } => {
                let held = model.standing.get(&who).and_then(|stands| stands.slot).unwrap_or(0);
                let mode = match cast[who] {
                    Mode::Slot { permits, .. } => slot(permits, (held + u32::from(astray)) % permits),
                    mode => mode,
                };
                let (fence, holder) = (Fence::new(clock), "".into());
                let request = Request::Renew { attempt, fence, ttl: ttl(millis), repair, holder, mode };
                (request, model.expects_of_renewal(who, mode, repair))
            }
            Act::Break { mode, wrong } => {
                let target = Target::Fence(Fence::new(stored.unwrap_or(1) + u64::from(wrong)));
                (Request::Break { target, mode }, model.expects_of_break(stored, wrong))
            }
            Act::Release | Act::Leave | Act::Yield => {
                let parting = match act {
                    Act::Leave => Some(Parting::Leave(waiter)),
                    Act::Yield => Some(Parting::Yield(waiter)),
                    _ => None,
                };
                (release(parting), if was_in { Says::Grant } else { Says::Absent })
            }
        };
        let was_taken = !was_free || model.drained.is_some();
        let answer = node.answer(now, &request);
        assert_eq!(Says::of(&answer.vote), expected, "{request:?}");

        let is_granted = expected == Says::Grant;
        let place = (who, now + ENTRY_LEASE.as_millis() as u64);
        match act {
            Act::Acquire { ttl, in_queue, .. } => {
                if let Vote::Grant { fence, .. } = answer.vote {
                    model.fences(who, fence.get(), stored, was_in, was_free);
                    model.stands(who, now + ttl, &answer.vote, None);
                }
                let waits = matches!(expected, Says::Held | Says::Behind);
                match (in_queue, is_granted) {
                    (true, true) => drop(model.queue.remove(&model.tickets[who])),
                    (true, false) if waits => drop(model.queue.insert(model.tickets[who], place)),
                    _ => {}
                }
            }
            Act::Renew { ttl, .. } => {
                if is_granted && !was_in {
                    model.leases[who] += 1;
                }
                model.stands(who, now + ttl, &answer.vote, Some(clock));
            }
            Act::Break { mode, .. } => {
                if expected == Says::Broken {
                    model.breaks(mode, |attempt| node.record.tombstones.contains_key(&LeaseId::from_bits(attempt)));
                }
            }
            Act::Release | Act::Leave | Act::Yield => {
                model.standing.remove(&who);
                match act {
                    Act::Leave => drop(model.queue.remove(&model.tickets[who])),
                    Act::Yield if was_in => drop(model.queue.insert(model.tickets[who], place)),
                    _ => {}
                }
            }
        }
        compare(&node, &model);
        if told {
            let freed = match act {
                Act::Release | Act::Leave => was_in,
                Act::Break { mode, wrong } => was_taken && mode == BreakMode::Now && !wrong,
                _ => false,
            };
            check_hint(&node, &model, now, answer.hint, freed);
        }
    }
}

fn compare(node: &Node, model: &Model) {
    let until = model.standing.values().map(|stands| stands.until).max().or(model.drained);
    assert_eq!(node.vote().map(|(_, until)| until), until);
    assert_eq!(node.queue(), model.queue.keys().copied().collect::<Vec<_>>());
    for entry in &node.record.entries {
        let who = model.attempts.iter().position(|attempt| entry.attempt == LeaseId::from_bits(*attempt));
        let stands = who.and_then(|who| model.standing.get(&who));
        let stands = stands.map(|stands| (stands.until, stands.slot, stands.fence));
        assert_eq!(stands, Some((entry.until, entry.slot, entry.fence.get())));
    }
}

/// A hint is for the first waiter, who would get the vote; and after a release it is not forgotten.
fn check_hint(node: &Node, model: &Model, now: u64, hint: Option<Waiter>, released: bool) {
    let Some((ticket, (who, _))) = model.queue.first_key_value() else {
        assert_eq!(hint, None);
        return;
    };
    let mut asked = Node { life: node.life.clone(), record: node.record.clone() };
    let ask = waits(model.cast[*who], LeaseId::from_bits(99), *ticket);
    let would_get_it = matches!(asked.ask(now, &ask), Vote::Grant { .. });
    if let Some(hint) = hint {
        assert_eq!((hint.ticket.at, would_get_it), (*ticket, true), "a hint that does not help");
    }
    assert!(hint.is_some() || !released || !would_get_it, "nobody was told");
}

const REENTRANT: [Mode; 5] = [
    Mode::Reentrant { owner: OWNER },
    Mode::Reentrant { owner: STRANGER },
    Mode::Reentrant { owner: OWNER },
    Mode::Reentrant { owner: STRANGER },
    Mode::Reentrant { owner: OWNER },
];
const SHARED: [Mode; 6] = [
    Mode::Shared { owner: OWNER, reenters: true },
    Mode::Shared { owner: OWNER, reenters: false },
    Mode::Shared { owner: STRANGER, reenters: false },
    Mode::Exclusive { writer: Some(OWNER) },
    Mode::Exclusive { writer: Some(STRANGER) },
    Mode::Exclusive { writer: None },
];
const SEMAPHORE: [Mode; 5] = [Mode::Slot { permits: 3, slot: 0 }; 5];

proptest! {
    #[test]
    fn a_reentrant_lock_is_a_set_of_one_owners_entries(moves in moves(5), tickets in tickets(5)) {
        play(&REENTRANT, tickets, moves, false);
    }

    #[test]
    fn a_shared_lock_has_readers_or_one_writer(moves in moves(6), tickets in tickets(6)) {
        play(&SHARED, tickets, moves, true);
    }

    #[test]
    fn a_semaphore_has_no_more_holders_than_slots(moves in moves(5), tickets in tickets(5)) {
        play(&SEMAPHORE, tickets, moves, true);
    }

    #[test]
    fn exclusive_waiters_are_served_in_order(moves in moves(4), tickets in tickets(4)) {
        play(&[Mode::EXCLUSIVE; 4], tickets, moves, true);
    }

    #[test]
    fn kinds_keep_each_other_out(moves in moves(8), tickets in tickets(8)) {
        let cast = [REENTRANT[0], REENTRANT[1], SHARED[0], SHARED[1], SHARED[3], SEMAPHORE[0], SEMAPHORE[1], slot(2, 0)];
        play(&cast, tickets, moves, false);
    }
}
