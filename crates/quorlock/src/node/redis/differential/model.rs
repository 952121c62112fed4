//! A node as the core has it, in step with the server.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, Name, OwnerId};
use quorlock_core::node::{
    Answer, Constants, Epoch, FenceNote, Identity, Incarnation, NodeCommand, NodeTime, Record, Standing, Trust, apply,
    attend,
};
use quorlock_core::request::{Parting, Request, Target, Ticket, Waiter};
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;
use quorlock_core::vote::Refusal;

use super::steps::{
    Aim, Away, Bid, CHANNELS, CONSTANTS, Cast, IDENTITIES, Intent, Jump, Kind, Known, NAMES, OWNERS, ROLES, Role, Span,
    TICKETS, Visit,
};
use crate::node::key::KeyTemplate;
use crate::node::{Life, LockKey};

const START: i64 = 1_700_000_000_123_456;
const NOBODY: Epoch = Epoch(0);

/// What the nodes of five clusters agree on: each but the first differs from it in one thing.
pub(super) fn constants(which: usize) -> Constants {
    let first = Constants { cluster: "c1".into(), nodes: 3, max_ttl_millis: 3_000, max_skew_micros: 1_000_000 };
    let all: [Constants; CONSTANTS] = [
        first.clone(),
        Constants { cluster: "c2".into(), ..first.clone() },
        Constants { nodes: 5, ..first.clone() },
        // The longest that there is, so that fences are kept for longer than a day.
        Constants { max_ttl_millis: 86_400_000, ..first.clone() },
        Constants { max_skew_micros: 1_000_001, ..first },
    ];
    all[which].clone()
}

/// The attempts that ask for a name.
pub(super) fn attempts(name: usize) -> impl Iterator<Item = LeaseId> {
    (0..ROLES.len()).map(move |who| attempt(name, who))
}

/// The owners that may be retired from a name.
pub(super) fn owners() -> impl Iterator<Item = OwnerId> {
    OWNERS.into_iter().map(OwnerId::from_bits)
}

/// From 1: nobody draws the attempt that could be taken for one that was broken.
fn attempt(name: usize, who: usize) -> LeaseId {
    LeaseId::from_bits((name * ROLES.len() + who) as u128 + 1)
}

/// Where hints are heard.
pub(super) fn channels() -> impl Iterator<Item = Channel> {
    (1..=CHANNELS as u128).map(Channel)
}

fn waiter(which: usize) -> Waiter {
    let (after, id, shared) = TICKETS[which];
    let channel = Channel((which % CHANNELS + 1) as u128);
    Waiter { ticket: Ticket { at: START.unsigned_abs() + after, id }, channel, shared }
}

/// What one node holds, by the core's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) life: Option<Incarnation>,
    pub(super) records: [Record; NAMES],
}

#[derive(Debug)]
pub(super) struct Model {
    cast: Cast,
    pub(super) state: State,
    pub(super) keys: [Arc<LockKey>; NAMES],
    pub(super) micros: i64,
    /// The last life that could vote but the current one.
    earlier: Option<Life>,
    current: Option<Life>,
    epochs: u128,
}

impl Model {
    pub(super) fn new(cast: Cast) -> Self {
        let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
        let key = |name| Arc::new(template.key(&Name::new(name).unwrap()).unwrap());
        Self {
            cast,
            state: State::default(),
            keys: [key("plain"), key("plainer"), key("with spaces, \u{9501} and a\nnew line")],
            micros: START,
            earlier: None,
            current: None,
            epochs: 0,
        }
    }

    fn time(&self) -> NodeTime {
        NodeTime::wall(self.micros.unsigned_abs())
    }

    pub(super) fn pass(&mut self, jump: &Jump) {
        match jump {
            Jump::By(micros) => self.micros += micros,
            Jump::ToTheEndOf { what, offset } => {
                let of_a_name = |record: &Record| {
                    let notes = [record.vote.as_ref().map(|n| n.until), record.fence.as_ref().map(|n| n.until)];
                    let entries = record.entries.iter().map(|entry| entry.until);
                    let places = record.queue.iter().map(|place| place.until);
                    let tombstones = record.tombstones.values().chain(record.retired.values()).copied();
                    notes.into_iter().flatten().chain(entries).chain(places).chain(tombstones).collect::<Vec<_>>()
                };
                let lapses = self.state.records.iter().flat_map(of_a_name);
                let ends: Vec<i64> = lapses.map(|millis| millis.cast_signed() * 1_000).collect();
                if !ends.is_empty() {
                    self.micros = what.get(&ends) + offset;
                }
            }
        }
    }

    /// Which set of constants a client of this node would have.
    pub(super) fn kin(&self) -> usize {
        self.state
            .life
            .as_ref()
            .map_or(0, |life| (0..CONSTANTS).position(|set| constants(set) == life.constants).unwrap())
    }

    pub(super) fn life(&self, known: Known) -> Option<Life> {
        match known {
            Known::Current => self.current,
            Known::Earlier => self.earlier,
            Known::None => None,
        }
    }

    fn epoch(&self, known: Known) -> Epoch {
        let current = self.state.life.as_ref().and_then(|life| life.epoch);
        match known {
            Known::Current => current.unwrap_or(NOBODY),
            Known::Earlier => self.earlier.map_or(NOBODY, |life| life.epoch),
            Known::None => NOBODY,
        }
    }

    pub(super) fn request(&self, intent: &Intent) -> Request {
        let who = *intent.who.get(self.cast.0);
        let (attempt, mode) = (attempt(intent.name, who), mode(ROLES[who], intent.slot));
        let ttl = |millis| Ttl::new(Duration::from_millis(millis), Duration::MAX).unwrap();
        match intent.kind {
            Kind::Acquire { fence, ttl: millis, holder, waiter: which } => {
                let (proposal, waiter) = (self.fence(intent.name, fence), which.map(waiter));
                Request::Acquire { attempt, proposal, ttl: ttl(millis), holder: holder.into(), mode, waiter }
            }
            Kind::Renew { fence, ttl: millis, holder, repair } => {
                let fence = self.fence(intent.name, fence);
                Request::Renew { attempt, fence, ttl: ttl(millis), repair, holder: holder.into(), mode }
            }
            Kind::Release { tombstone, parting } => {
                let parting = parting.map(|away| match away {
                    Away::Leave(which) => Parting::Leave(waiter(which)),
                    Away::Yield(which) => Parting::Yield(waiter(which)),
                });
                Request::Release { attempt, tombstone, parting }
            }
            Kind::Retire { owner, tombstone } => {
                Request::Retire { owner: OwnerId::from_bits(OWNERS[owner]), tombstone }
            }
            Kind::Check => {
                Request::Check { attempt, slot: if let Mode::Slot { slot, .. } = mode { Some(slot) } else { None } }
            }
            // The page knows no other way to hold than alone.
            Kind::Break { mode, aim } => Request::Break { target: self.target(intent.name, aim), mode },
            Kind::PlainAcquire { ttl: millis } if is_alone(mode) => Request::PlainAcquire { attempt, ttl: ttl(millis) },
            Kind::PlainExtend { ttl: millis } if is_alone(mode) => Request::PlainExtend { attempt, ttl: ttl(millis) },
            Kind::PlainRelease if is_alone(mode) => Request::PlainRelease { attempt },
            Kind::Inspect | Kind::PlainAcquire { .. } | Kind::PlainExtend { .. } | Kind::PlainRelease => {
                Request::Inspect
            }
        }
    }

    fn target(&self, name: usize, aim: Aim) -> Target {
        let record = &self.state.records[name];
        let standing = record.vote.as_ref().map_or(LeaseId::from_bits(1), |vote| vote.attempt);
        match aim {
            Aim::Stored(off) => {
                let stored = record.fence.as_ref().map_or(1, |note| note.fence.get());
                Target::Fence(Fence::new(stored.saturating_add_signed(off)))
            }
            Aim::Standing => Target::Digest(Digest::of(standing)),
            Aim::Digest(who) => Target::Digest(Digest::of(attempt(name, *who.get(self.cast.0)))),
        }
    }

    fn fence(&self, name: usize, bid: Bid) -> Fence {
        let clock = self.micros.unsigned_abs();
        let max_clock_skew = constants(self.kin()).max_skew_micros;
        let stored = self.state.records[name].fence.as_ref().map_or(clock, |note| note.fence.get());
        Fence::new(match bid {
            Bid::Clock(ahead) => clock.saturating_add_signed(ahead),
            Bid::Limit(ahead) => (clock + max_clock_skew).saturating_add_signed(ahead),
            Bid::Stored(ahead) => stored.saturating_add_signed(ahead),
        })
    }

    /// The answer to the asker and, with a vote or without, to the first waiter.
    pub(super) fn answer(&mut self, life: Option<Life>, name: usize, request: &Request) -> Answer {
        let now = self.time();
        let epoch = life.map_or(NOBODY, |life| life.epoch);
        let State { life, records } = &mut self.state;
        let record = &mut records[name];
        let ends = |record: &Record| record.vote.as_ref().map(|vote| vote.until);
        let before = ends(record);
        let life = life.clone().unwrap_or_else(|| stranger(None));
        let is_stranger = life.epoch != Some(epoch) || life.floor.is_none();
        let answer = if is_stranger && request.is_plain() && request.may_grant() {
            // The page's commands know nothing of lives: the server obeys, and the client does not count it.
            apply(&stranger(Some(epoch)), record, request, epoch, now, |_| true);
            Refusal::WrongEpoch.into()
        } else {
            apply(&life, record, request, epoch, now, |_| true)
        };
        // Redis takes an end that is now for one that is past: a vote is let stand through the next millisecond.
        let is_lowered = ends(record) < before;
        if let Some(vote) = record.vote.as_mut().filter(|vote| is_lowered && vote.until == now.life_millis) {
            vote.until += 1;
        }
        answer
    }

    pub(super) fn node_command(&mut self, visit: &Visit) -> NodeCommand {
        let identity = |which: usize| {
            let (run, promotion) = IDENTITIES[which % IDENTITIES.len()];
            Identity { run: run.into(), promotion: promotion.into() }
        };
        let mut fresh = || {
            self.epochs += 1;
            Epoch(self.epochs << 64)
        };
        match *visit {
            Visit::Look => NodeCommand::Look,
            Visit::Hello { identity: which, constants: set, founders, trust } => NodeCommand::Hello {
                identity: identity(which),
                fresh: fresh(),
                constants: constants(set),
                founders: founders.into(),
                trust: trusted(trust),
            },
            Visit::Reconfigure { identity: which, constants: set, trust, suspend } => NodeCommand::Reconfigure {
                identity: identity(which),
                fresh: fresh(),
                constants: constants(set),
                trust: trusted(trust),
                suspend,
            },
            Visit::Init { identity: which, constants: set } => {
                NodeCommand::Init { identity: identity(which), fresh: fresh(), constants: constants(set) }
            }
            Visit::Claim { life, span } => {
                NodeCommand::Claim { epoch: self.epoch(life), elapsed_micros: self.span(span) }
            }
        }
    }

    fn span(&self, span: Span) -> u64 {
        let life = self.state.life.as_ref();
        match span {
            Span::Micros(micros) => micros,
            Span::Known(more) => life.map_or(0, |life| life.elapsed_micros).saturating_add_signed(more),
            Span::Whole(more) => life.map_or(0, |life| life.quarantine_micros).saturating_add_signed(more),
        }
    }

    pub(super) fn attend(&mut self, node_command: &NodeCommand) -> Standing {
        let now = self.time();
        let standing = attend(&mut self.state.life, node_command, now);
        let voting = |life: &Incarnation| Some(Life { epoch: life.epoch?, floor: life.floor? });
        let current = self.state.life.as_ref().and_then(voting);
        if current.is_some() && current != self.current {
            self.earlier = std::mem::replace(&mut self.current, current);
        }
        standing
    }

    pub(super) fn wipe_epoch(&mut self) {
        if let Some(life) = &mut self.state.life {
            (life.epoch, life.floor) = (None, None);
        }
    }

    pub(super) fn wipe_all(&mut self) {
        self.state = State::default();
    }

    pub(super) fn vanish(&mut self, name: usize) {
        let record = &mut self.state.records[name];
        record.vote = None;
        record.entries.clear();
    }

    pub(super) fn plant(&mut self, name: usize, below: u64) -> &FenceNote {
        let now = self.time();
        self.state.records[name].fence.insert(FenceNote {
            fence: Fence::new(Fence::MAX.get() - below),
            by: attempt(name, 0),
            since_micros: now.wall_micros,
            ticket: None,
            holder: "7 host late".into(),
            until: now.life_millis + 60_000,
        })
    }

    /// What there is to see now: without what has lapsed.
    pub(super) fn visible(&mut self) -> State {
        let now = self.time();
        for record in &mut self.state.records {
            record.remove_expired(now);
            record.sweep_tombstones(now);
            // A hash has no order.
            record.entries.sort_by_key(|entry| entry.attempt);
        }
        self.state.clone()
    }
}

fn mode(role: Role, slot: u32) -> Mode {
    match role {
        Role::Alone => Mode::EXCLUSIVE,
        Role::Writer { owner } => Mode::Exclusive { writer: Some(OwnerId::from_bits(owner)) },
        Role::Reentrant { owner } => Mode::Reentrant { owner: OwnerId::from_bits(owner) },
        Role::Reader { owner, reenters } => Mode::Shared { owner: OwnerId::from_bits(owner), reenters },
        Role::Slot { permits } => Mode::Slot { permits, slot },
    }
}

fn trusted(floor_offset: Option<i64>) -> Trust {
    floor_offset.map_or(Trust::Quarantine, |floor_offset| Trust::Vote { floor_offset })
}

fn is_alone(mode: Mode) -> bool {
    matches!(mode, Mode::Exclusive { .. })
}

/// A node that may vote in this life, or blank.
fn stranger(epoch: Option<Epoch>) -> Incarnation {
    Incarnation {
        identity: Identity::default(),
        epoch,
        floor: epoch.map(|_| Fence::default()),
        quarantine_micros: 66_000_000,
        suspended: false,
        elapsed_micros: 0,
        constants: constants(0),
        founders: String::new(),
        restarts: 0,
    }
}
