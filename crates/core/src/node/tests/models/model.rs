//! What a node comes to: who holds, who waits, and nothing of how that is stored.

extern crate std;

use std::collections::BTreeMap;

use super::*;

/// A vote that stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stands {
    pub(super) until: u64,
    pub(super) slot: Option<u32>,
    pub(super) fence: u64,
}

pub(super) struct Model {
    pub(super) cast: Vec<Mode>,
    pub(super) tickets: Vec<u64>,
    /// By player.
    pub(super) standing: BTreeMap<usize, Stands>,
    /// Through which millisecond a broken vote keeps everybody out.
    pub(super) drained: Option<u64>,
    /// Each player's attempt: a new one after its last one was broken.
    pub(super) attempts: Vec<u128>,
    /// By ticket: whose it is, and how long it is kept.
    pub(super) queue: BTreeMap<u64, (usize, u64)>,
    /// By fence: which lease it was given to.
    pub(super) given: BTreeMap<u64, (usize, u64)>,
    /// How many leases each player has had.
    pub(super) leases: Vec<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Says {
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
    pub(super) fn of(vote: &Vote) -> Self {
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
pub(super) fn agree(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared { .. }, Mode::Shared { .. }) => true,
        (Mode::Reentrant { owner: one }, Mode::Reentrant { owner: other }) => one == other,
        (Mode::Slot { permits: one, .. }, Mode::Slot { permits: other, .. }) => one == other,
        _ => false,
    }
}

impl Model {
    pub(super) fn new(cast: &[Mode], tickets: Vec<u64>) -> Self {
        let (standing, drained, queue, given) = Default::default();
        let attempts = (1..=cast.len() as u128).collect();
        let leases = alloc::vec![0; cast.len()];
        Self { cast: cast.to_vec(), tickets, standing, drained, attempts, queue, given, leases }
    }

    pub(super) fn lapse(&mut self, now: u64) {
        self.standing.retain(|_, stands| stands.until >= now);
        self.drained.take_if(|until| *until < now);
        self.queue.retain(|_, (_, until)| *until >= now);
    }

    pub(super) fn others(&self, who: usize) -> impl Iterator<Item = (Mode, Option<u32>)> + '_ {
        let others = self.standing.iter().filter(move |(other, _)| **other != who);
        others.map(|(other, stands)| (self.cast[*other], stands.slot))
    }

    /// The fence of the other entries of a reader that may read again with it.
    fn fence_of_reader(&self, who: usize) -> Option<u64> {
        let Mode::Shared { owner, reenters: true } = self.cast[who] else { return None };
        let is_own =
            |other: usize| other != who && self.cast[other].is_shared() && self.cast[other].owner() == Some(owner);
        self.standing.iter().filter(|(other, _)| is_own(**other)).map(|(_, stands)| stands.fence).max()
    }

    /// How many more could hold together with those who do, by this mode.
    pub(super) fn room(&self, mode: Mode) -> usize {
        match mode {
            Mode::Slot { permits, .. } => permits as usize - self.standing.len(),
            _ => 1,
        }
    }

    pub(super) fn expects_of_acquire(&self, who: usize, in_queue: bool) -> Says {
        let mode = self.cast[who];
        if self.drained.is_some() {
            return Says::Held;
        }
        if self.standing.contains_key(&who) {
            return Says::Grant;
        }
        if let Some((other, _)) = self.others(who).find(|(other, _)| !agree(mode, *other)) {
            let wants = match mode {
                Mode::Exclusive { writer } => writer,
                Mode::Reentrant { owner } => Some(owner),
                Mode::Shared { .. } | Mode::Slot { .. } => None,
            };
            let is_own_share =
                |(other, _)| matches!((wants, other), (Some(wants), Mode::Shared { owner, .. }) if wants == owner);
            return match (mode, other) {
                (Mode::Slot { .. }, Mode::Slot { .. }) => Says::Permits,
                _ if self.others(who).any(is_own_share) => Says::Upgrade,
                _ => Says::Held,
            };
        }
        let joins_its_owner = matches!(mode, Mode::Reentrant { .. }) && !self.standing.is_empty();
        if joins_its_owner || self.fence_of_reader(who).is_some() {
            return Says::Grant;
        }
        let before = |ticket: &&u64| !in_queue || **ticket < self.tickets[who];
        let in_the_way = |ticket: &&u64| !(mode.is_shared() && self.cast[self.queue[*ticket].0].is_shared());
        let ahead = self.queue.keys().filter(before).filter(in_the_way).count();
        match self.room(mode) {
            0 => Says::Held,
            room if ahead >= room => Says::Behind,
            _ => Says::Grant,
        }
    }

    pub(super) fn expects_of_renewal(&self, who: usize, wanted: Mode, repair: bool) -> Says {
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

    pub(super) fn expects_of_break(&self, stored: Option<u64>, wrong: bool) -> Says {
        let is_taken = !self.standing.is_empty() || self.drained.is_some();
        match (is_taken, stored.is_some() && !wrong) {
            (_, true) => Says::Broken,
            (true, false) => Says::Other,
            (false, false) => Says::Absent,
        }
    }

    /// `is_over` says which attempts the node has buried.
    pub(super) fn breaks(&mut self, mode: BreakMode, is_over: impl Fn(u128) -> bool) {
        let until = self.standing.values().map(|stands| stands.until).max().or(self.drained);
        let standing = std::mem::take(&mut self.standing);
        assert!(standing.keys().all(|who| is_over(self.attempts[*who])), "an attempt that was broken is not over");
        for attempt in self.attempts.iter_mut().filter(|attempt| is_over(**attempt)) {
            *attempt += self.cast.len() as u128;
        }
        self.drained = until.filter(|_| mode == BreakMode::Drain);
    }

    /// `renewed` is the fence of a renewal: it counts only where there was no entry.
    pub(super) fn stands(&mut self, who: usize, until: u64, vote: &Vote, renewed: Option<u64>) {
        let Vote::Grant { fence, slot } = vote else { return };
        let fence = renewed.unwrap_or(fence.get());
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
        let fence = before.filter(|_| renewed.is_some()).map_or(fence, |before| before.fence);
        self.standing.insert(who, Stands { until, slot, fence });
    }

    /// A fence belongs to one lease; of a reentrant lock and of a reader, to one owner for as long as it is in.
    pub(super) fn fences(&mut self, who: usize, fence: u64, stored: Option<u64>, was_in: bool, was_free: bool) {
        if !was_in {
            self.leases[who] += 1;
        }
        let is_reentrant = matches!(self.cast[who], Mode::Reentrant { .. });
        if is_reentrant && !was_free {
            assert!(Some(fence) >= stored, "the owner's fence sank");
            assert!(was_in || Some(fence) == stored, "one fence for all entries");
            return;
        }
        if let Some(own) = self.fence_of_reader(who).filter(|_| !was_in) {
            assert_eq!(fence, own, "one fence for all entries");
            return;
        }
        if !was_in {
            assert!(self.given.keys().all(|given| fence > *given), "{fence} is not above every earlier one");
        }
        let lease = (who, self.leases[who]);
        assert_eq!(*self.given.entry(fence).or_insert(lease), lease, "{fence} was another lease's");
    }
}
