//! Each kind against a model that knows only who conflicts with whom, who waits, and when things lapse.

extern crate std;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ticket::{ENTRY_LEASE, Parting};
use crate::vote::{BreakMode, GrantedSlot, Target};

/// One request: how long after the last one, whose, and what.
type Move = (u64, usize, Act);

#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire {
        ahead: i64,
        ttl: u64,
        in_line: bool,
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
            .prop_map(|(ahead, ttl, in_line, start)| Act::Acquire { ahead, ttl, in_line, start }),
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

/// A vote that stands.
#[derive(Clone, Copy, Debug)]
struct Stands {
    until: u64,
    slot: Option<u32>,
}

struct Model {
    cast: Vec<Mode>,
    tickets: Vec<u64>,
    /// By player.
    standing: BTreeMap<usize, Stands>,
    /// Through which millisecond a broken vote keeps everybody out.
    drained: Option<u64>,
    /// Each player's attempt: a new one after it was broken.
    attempts: Vec<u128>,
    /// By ticket: whose it is, and how long it is kept.
    line: BTreeMap<u64, (usize, u64)>,
    /// By fence: which lease it was given to.
    given: BTreeMap<u64, (usize, u64)>,
    /// How many leases each player has had.
    leases: Vec<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Says {
    Grant,
    Held,
    Behind,
    Permits,
    Upgrade,
    Absent,
    Broken,
    Other,
}

impl Says {
    fn of(vote: &Vote) -> Self {
        match vote {
            Vote::Grant { .. } => Self::Grant,
            Vote::Refusal(Refusal::Held { .. }) => Self::Held,
            Vote::Refusal(Refusal::Behind { .. }) => Self::Behind,
            Vote::Refusal(Refusal::Permits { .. }) => Self::Permits,
            Vote::Refusal(Refusal::Upgrade) => Self::Upgrade,
            Vote::Refusal(Refusal::Absent) => Self::Absent,
            Vote::Broken { .. } => Self::Broken,
            Vote::Refusal(Refusal::Other { .. }) => Self::Other,
            other => panic!("{other:?}"),
        }
    }
}

/// Whether two may hold at the same time, if there is room.
fn agree(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared { .. }, Mode::Shared { .. }) => true,
        (Mode::Reentrant { owner: one }, Mode::Reentrant { owner: other }) => one == other,
        (Mode::Slot { permits: one, .. }, Mode::Slot { permits: other, .. }) => one == other,
        _ => false,
    }
}

impl Model {
    fn new(cast: &[Mode], tickets: Vec<u64>) -> Self {
        let (standing, drained, line, given) = Default::default();
        let attempts = (1..=cast.len() as u128).collect();
        let leases = alloc::vec![0; cast.len()];
        Self { cast: cast.to_vec(), tickets, standing, drained, attempts, line, given, leases }
    }

    fn lapse(&mut self, now: u64) {
        self.standing.retain(|_, stands| stands.until >= now);
        self.drained.take_if(|until| *until < now);
        self.line.retain(|_, (_, until)| *until >= now);
    }

    fn others(&self, who: usize) -> impl Iterator<Item = (Mode, Option<u32>)> + '_ {
        let others = self.standing.iter().filter(move |(other, _)| **other != who);
        others.map(|(other, stands)| (self.cast[*other], stands.slot))
    }

    /// How many more could hold together with those who do, by this mode.
    fn room(&self, mode: Mode) -> usize {
        match mode {
            Mode::Slot { permits, .. } => permits as usize - self.standing.len(),
            _ => 1,
        }
    }

    fn expects_of_acquire(&self, who: usize, in_line: bool) -> Says {
        let mode = self.cast[who];
        if self.drained.is_some() {
            return Says::Held;
        }
        if self.standing.contains_key(&who) {
            return Says::Grant;
        }
        if let Some((other, _)) = self.others(who).find(|(other, _)| !agree(mode, *other)) {
            let is_own_share = |(other, _)| matches!((mode, other), (Mode::Exclusive { writer: Some(writer) }, Mode::Shared { owner }) if writer == owner);
            return match (mode, other) {
                (Mode::Slot { .. }, Mode::Slot { .. }) => Says::Permits,
                _ if self.others(who).any(is_own_share) => Says::Upgrade,
                _ => Says::Held,
            };
        }
        let joins_its_owner = matches!(mode, Mode::Reentrant { .. }) && !self.standing.is_empty();
        if joins_its_owner {
            return Says::Grant;
        }
        let before = |ticket: &&u64| !in_line || **ticket < self.tickets[who];
        let in_the_way = |ticket: &&u64| !(mode.is_shared() && self.cast[self.line[*ticket].0].is_shared());
        let ahead = self.line.keys().filter(before).filter(in_the_way).count();
        match self.room(mode) {
            0 => Says::Held,
            room if ahead >= room => Says::Behind,
            _ => Says::Grant,
        }
    }

    fn expects_of_renewal(&self, who: usize, wanted: Mode, repair: bool) -> Says {
        let slot = match wanted {
            Mode::Slot { slot, .. } => Some(slot),
            _ => None,
        };
        if self.drained.is_some() {
            return Says::Held;
        }
        let is_own = self.standing.get(&who).is_some_and(|stands| stands.slot == slot);
        let fits = self.others(who).all(|(other, taken)| agree(wanted, other) && (slot.is_none() || taken != slot));
        match (is_own, fits, repair) {
            (true, ..) | (false, true, true) => Says::Grant,
            (false, false, _) => Says::Held,
            (false, true, false) => Says::Absent,
        }
    }

    fn expects_of_break(&self, stored: Option<u64>, wrong: bool) -> Says {
        let is_taken = !self.standing.is_empty() || self.drained.is_some();
        match (is_taken, stored.is_some() && !wrong) {
            (_, true) => Says::Broken,
            (true, false) => Says::Other,
            (false, false) => Says::Absent,
        }
    }

    fn breaks(&mut self, mode: BreakMode) {
        let until = self.standing.values().map(|stands| stands.until).max().or(self.drained);
        for who in std::mem::take(&mut self.standing).into_keys() {
            self.attempts[who] += self.cast.len() as u128;
        }
        self.drained = until.filter(|_| mode == BreakMode::Drain);
    }

    fn stands(&mut self, who: usize, until: u64, vote: &Vote) {
        let Vote::Grant { slot, .. } = vote else { return };
        let slot = slot.as_ref().map(|GrantedSlot { index, free }| {
            let is_taken = |slot: u32| self.others(who).any(|(_, taken)| taken == Some(slot));
            assert!(!is_taken(*index), "slot {index} was granted twice");
            assert!(!free.contains(index) && !free.iter().any(|slot| is_taken(*slot)), "{free:?} are not all free");
            *index
        });
        assert_eq!(slot.is_some(), matches!(self.cast[who], Mode::Slot { .. }));
        // One that is moved to another slot begins anew.
        let before = self.standing.get(&who).filter(|before| before.slot == slot);
        let until = before.map_or(until, |before| before.until.max(until));
        self.standing.insert(who, Stands { until, slot });
    }

    /// A fence belongs to one lease; of a reentrant lock, to one owner for as long as it is in.
    fn fences(&mut self, who: usize, fence: u64, stored: Option<u64>, was_in: bool, was_free: bool) {
        if !was_in {
            self.leases[who] += 1;
        }
        let is_reentrant = matches!(self.cast[who], Mode::Reentrant { .. });
        if is_reentrant && !was_free {
            assert!(Some(fence) >= stored, "the owner's fence sank");
            assert!(was_in || Some(fence) == stored, "one fence for all entries");
            return;
        }
        if !was_in {
            assert!(self.given.keys().all(|given| fence > *given), "{fence} is not above every earlier one");
        }
        let lease = (who, self.leases[who]);
        assert_eq!(*self.given.entry(fence).or_insert(lease), lease, "{fence} was another lease's");
    }
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
            Act::Acquire { ahead, ttl: millis, in_line, start } => {
                let mode = match cast[who] {
                    Mode::Slot { permits, .. } => slot(permits, start),
                    mode => mode,
                };
                let (proposal, holder) = (Fence::new(clock.saturating_add_signed(ahead)), String::new());
                let waiter = in_line.then_some(waiter);
                let request = Request::Acquire { attempt, proposal, ttl: ttl(millis), holder, mode, waiter };
                (request, model.expects_of_acquire(who, in_line))
            }
            Act::Renew { ttl: millis, repair, astray } => {
                let held = model.standing.get(&who).and_then(|stands| stands.slot).unwrap_or(0);
                let mode = match cast[who] {
                    Mode::Slot { permits, .. } => slot(permits, (held + u32::from(astray)) % permits),
                    mode => mode,
                };
                let (fence, holder) = (Fence::new(clock), String::new());
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
            Act::Acquire { ttl, in_line, .. } => {
                if let Vote::Grant { fence, .. } = answer.vote {
                    model.fences(who, fence.get(), stored, was_in, was_free);
                    model.stands(who, now + ttl, &answer.vote);
                }
                let waits = matches!(expected, Says::Held | Says::Behind);
                match (in_line, is_granted) {
                    (true, true) => drop(model.line.remove(&model.tickets[who])),
                    (true, false) if waits => drop(model.line.insert(model.tickets[who], place)),
                    _ => {}
                }
            }
            Act::Renew { ttl, .. } => {
                if is_granted && !was_in {
                    model.leases[who] += 1;
                }
                model.stands(who, now + ttl, &answer.vote);
            }
            Act::Break { mode, .. } => {
                if expected == Says::Broken {
                    model.breaks(mode);
                }
            }
            Act::Release | Act::Leave | Act::Yield => {
                model.standing.remove(&who);
                match act {
                    Act::Leave => drop(model.line.remove(&model.tickets[who])),
                    Act::Yield if was_in => drop(model.line.insert(model.tickets[who], place)),
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
    assert_eq!(node.line(), model.line.keys().copied().collect::<Vec<_>>());
    for entry in &node.record.entries {
        let who = model.attempts.iter().position(|attempt| entry.attempt == LeaseId::from_bits(*attempt));
        let stands = who.and_then(|who| model.standing.get(&who));
        assert_eq!(stands.map(|stands| (stands.until, stands.slot)), Some((entry.until, entry.slot)));
    }
}

/// A hint is for the first in line, who would get the vote; and after a release it is not forgotten.
fn check_hint(node: &Node, model: &Model, now: u64, hint: Option<Hint>, released: bool) {
    let Some((ticket, (who, _))) = model.line.first_key_value() else {
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
    Mode::Shared { owner: OWNER },
    Mode::Shared { owner: OWNER },
    Mode::Shared { owner: STRANGER },
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
