//! Compares a node with a model for random requests. The model knows which clients conflict, which of them wait, and
//! when votes and queue positions expire.

extern crate std;

mod model;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::request::{BreakMode, ENTRY_LEASE, Parting, Target};
use crate::vote::GrantedSlot;
use model::{Model, VoteKind};

/// The milliseconds since the previous request, the client, and the request that the client sends.
type TimedAction = (u64, usize, Action);

#[derive(Clone, Copy, Debug)]
enum Action {
    Acquire {
        /// The proposal minus the node's clock, in microseconds.
        fence_offset: i64,
        ttl_ms: u64,
        in_queue: bool,
        first_slot: u32,
    },
    Renew {
        ttl_ms: u64,
        repair: bool,
        /// Whether the request names another slot than the one that the client holds.
        is_other_slot: bool,
    },
    Release,
    Leave,
    Yield,
    Break {
        mode: BreakMode,
        /// Whether the request names another fence than the stored one.
        is_wrong_fence: bool,
    },
}

fn actions(clients: usize) -> impl Strategy<Value = Vec<TimedAction>> {
    let ttl_ms = || 100..3_000_u64;
    let action = prop_oneof![
        6 => (-40..40_i64, ttl_ms(), any::<bool>(), 0..4_u32).prop_map(|(fence_offset, ttl_ms, in_queue, first_slot)| {
            Action::Acquire { fence_offset, ttl_ms, in_queue, first_slot }
        }),
        2 => (ttl_ms(), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(ttl_ms, repair, is_other_slot)| Action::Renew { ttl_ms, repair, is_other_slot }),
        2 => Just(Action::Release),
        1 => Just(Action::Leave),
        1 => Just(Action::Yield),
        1 => (any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(drain, is_wrong_fence)| Action::Break {
            mode: if drain { BreakMode::Drain } else { BreakMode::Now },
            is_wrong_fence,
        }),
    ];
    vec((prop_oneof![4 => 0..50_u64, 1 => 0..3_000_u64], 0..clients, action), 1..100)
}

/// Returns one ticket for each client, in random order.
fn tickets(clients: usize) -> impl Strategy<Value = Vec<u64>> {
    Just((1..=clients as u64).collect::<Vec<_>>()).prop_shuffle()
}

/// Applies the actions to a node and to the model, and compares both after each action. `checks_hints` must be `false`
/// for modes whose hints are not exact: a hint may be missing, or its waiter may be refused.
fn compare_with_model(modes: &[Mode], tickets: Vec<u64>, actions: Vec<TimedAction>, checks_hints: bool) {
    let mut model = Model::new(modes, tickets);
    let (mut node, mut now_ms) = (Node::new(), T);
    for (wait_ms, client, action) in actions {
        now_ms += wait_ms;
        model.remove_expired(now_ms);
        let attempt = LeaseId::from_bits(model.attempts[client]);
        let waiter = waiter(modes[client], model.tickets[client]);
        let (had_vote, was_free) = (model.votes.contains_key(&client), model.votes.is_empty());
        let (stored_fence, clock) = (node.fence(), now_ms * 1_000);
        let release = |parting| Request::Release { attempt, tombstone: None, parting };
        let (request, expected) = match action {
            Action::Acquire { fence_offset, ttl_ms, in_queue, first_slot } => {
                let mode = match modes[client] {
                    Mode::Slot { permits, .. } => slot(permits, first_slot),
                    mode => mode,
                };
                let (proposal, holder) = (Fence::new(clock.saturating_add_signed(fence_offset)), "".into());
                let waiter = in_queue.then_some(waiter);
                let request = Request::Acquire { attempt, proposal, ttl: ttl(ttl_ms), holder, mode, waiter };
                (request, model.predict_acquire(client, in_queue))
            }
            Action::Renew { ttl_ms, repair, is_other_slot } => {
                let held_slot = model.votes.get(&client).and_then(|vote| vote.slot).unwrap_or(0);
                let mode = match modes[client] {
                    Mode::Slot { permits, .. } => slot(permits, (held_slot + u32::from(is_other_slot)) % permits),
                    mode => mode,
                };
                let (fence, holder) = (Fence::new(clock), "".into());
                let request = Request::Renew { attempt, fence, ttl: ttl(ttl_ms), repair, holder, mode };
                (request, model.predict_renewal(client, mode, repair))
            }
            Action::Break { mode, is_wrong_fence } => {
                let target = Target::Fence(Fence::new(stored_fence.unwrap_or(1) + u64::from(is_wrong_fence)));
                (Request::Break { target, mode }, model.predict_break(stored_fence, is_wrong_fence))
            }
            Action::Release | Action::Leave | Action::Yield => {
                let parting = match action {
                    Action::Leave => Some(Parting::Leave(waiter)),
                    Action::Yield => Some(Parting::Yield(waiter)),
                    _ => None,
                };
                (release(parting), if had_vote { VoteKind::Grant } else { VoteKind::Absent })
            }
        };
        let was_taken = !was_free || model.drains_until_ms.is_some();
        let answer = node.answer(now_ms, &request);
        assert_eq!(VoteKind::of(&answer.vote), expected, "{request:?}");

        let is_granted = expected == VoteKind::Grant;
        let queue_position = (client, now_ms + ENTRY_LEASE.as_millis() as u64);
        match action {
            Action::Acquire { ttl_ms, in_queue, .. } => {
                if let Vote::Grant { fence, .. } = answer.vote {
                    model.check_fence(client, fence.get(), stored_fence, had_vote, was_free);
                    model.record_vote(client, now_ms + ttl_ms, &answer.vote, None);
                }
                let must_wait = matches!(expected, VoteKind::Held | VoteKind::Behind);
                match (in_queue, is_granted) {
                    (true, true) => drop(model.queue.remove(&model.tickets[client])),
                    (true, false) if must_wait => drop(model.queue.insert(model.tickets[client], queue_position)),
                    _ => {}
                }
            }
            Action::Renew { ttl_ms, .. } => {
                if is_granted && !had_vote {
                    model.lease_counts[client] += 1;
                }
                model.record_vote(client, now_ms + ttl_ms, &answer.vote, Some(clock));
            }
            Action::Break { mode, .. } => {
                if expected == VoteKind::Broken {
                    let tombstones = &node.record.tombstones;
                    model.apply_break(mode, |attempt| tombstones.contains_key(&LeaseId::from_bits(attempt)));
                }
            }
            Action::Release | Action::Leave | Action::Yield => {
                model.votes.remove(&client);
                match action {
                    Action::Leave => drop(model.queue.remove(&model.tickets[client])),
                    Action::Yield if had_vote => drop(model.queue.insert(model.tickets[client], queue_position)),
                    _ => {}
                }
            }
        }
        check_state(&node, &model);
        if checks_hints {
            let was_released = match action {
                Action::Release | Action::Leave => had_vote,
                Action::Break { mode, is_wrong_fence } => was_taken && mode == BreakMode::Now && !is_wrong_fence,
                _ => false,
            };
            check_hint(&node, &model, now_ms, answer.hint, was_released);
        }
    }
}

fn check_state(node: &Node, model: &Model) {
    let until_ms = model.votes.values().map(|vote| vote.until_ms).max().or(model.drains_until_ms);
    assert_eq!(node.vote().map(|(_, until_ms)| until_ms), until_ms);
    assert_eq!(node.queue(), model.queue.keys().copied().collect::<Vec<_>>());
    for entry in &node.record.entries {
        let client = model.attempts.iter().position(|attempt| entry.attempt == LeaseId::from_bits(*attempt));
        let vote = client.and_then(|client| model.votes.get(&client));
        let vote = vote.map(|vote| (vote.until_ms, vote.slot, vote.fence));
        assert_eq!(vote, Some((entry.until, entry.slot, entry.fence.get())));
    }
}

/// Checks that a hint names the first waiter, and that this waiter would be granted. A release must send such a hint.
fn check_hint(node: &Node, model: &Model, now_ms: u64, hint: Option<Waiter>, was_released: bool) {
    let Some((ticket, (client, _))) = model.queue.first_key_value() else {
        assert_eq!(hint, None);
        return;
    };
    let mut copy = Node { life: node.life.clone(), record: node.record.clone() };
    let request = acquire_queued(model.modes[*client], LeaseId::from_bits(99), *ticket);
    let would_be_granted = matches!(copy.ask(now_ms, &request), Vote::Grant { .. });
    if let Some(hint) = hint {
        assert_eq!(
            (hint.ticket.at, would_be_granted),
            (*ticket, true),
            "the hint is for the wrong waiter or too early"
        );
    }
    assert!(hint.is_some() || !was_released || !would_be_granted, "the first waiter got no hint");
}

const REENTRANT: [Mode; 5] = [
    Mode::Reentrant { owner: OWNER },
    Mode::Reentrant { owner: OTHER_OWNER },
    Mode::Reentrant { owner: OWNER },
    Mode::Reentrant { owner: OTHER_OWNER },
    Mode::Reentrant { owner: OWNER },
];
const SHARED: [Mode; 6] = [
    Mode::Shared { owner: OWNER, reenters: true },
    Mode::Shared { owner: OWNER, reenters: false },
    Mode::Shared { owner: OTHER_OWNER, reenters: false },
    Mode::Exclusive { writer: Some(OWNER) },
    Mode::Exclusive { writer: Some(OTHER_OWNER) },
    Mode::Exclusive { writer: None },
];
const SEMAPHORE: [Mode; 5] = [Mode::Slot { permits: 3, slot: 0 }; 5];

proptest! {
    #[test]
    fn all_entries_of_a_reentrant_lock_have_one_owner(actions in actions(5), tickets in tickets(5)) {
        compare_with_model(&REENTRANT, tickets, actions, false);
    }

    #[test]
    fn a_shared_lock_has_readers_or_one_writer(actions in actions(6), tickets in tickets(6)) {
        compare_with_model(&SHARED, tickets, actions, true);
    }

    #[test]
    fn a_semaphore_has_no_more_holders_than_slots(actions in actions(5), tickets in tickets(5)) {
        compare_with_model(&SEMAPHORE, tickets, actions, true);
    }

    #[test]
    fn exclusive_waiters_are_granted_in_ticket_order(actions in actions(4), tickets in tickets(4)) {
        compare_with_model(&[Mode::EXCLUSIVE; 4], tickets, actions, true);
    }

    #[test]
    fn clients_with_conflicting_modes_exclude_each_other(actions in actions(8), tickets in tickets(8)) {
        let [reader, other_reader, _, writer, ..] = SHARED;
        let [slot_of_3, ..] = SEMAPHORE;
        let modes = [REENTRANT[0], REENTRANT[1], reader, other_reader, writer, slot_of_3, slot_of_3, slot(2, 0)];
        compare_with_model(&modes, tickets, actions, false);
    }
}
