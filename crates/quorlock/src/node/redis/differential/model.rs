//! A node of the core, which gets the same requests as the server.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, Name, OwnerId};
use quorlock_core::node::roster::{Membership, RosterAnswer, RosterCommand, apply_roster, vote};
use quorlock_core::node::{
    Answer, Constants, Epoch, FenceNote, Identity, Incarnation, NodeCommand, NodeTime, Record, Standing, Trust, apply,
    attend,
};
use quorlock_core::request::{Parting, Request, Target, Ticket, Waiter};
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;

use super::steps::{
    BreakTarget, CHANNELS, CONSTANTS, Command, Departure, IDENTITIES, Intent, Jump, Kind, KnownLife, NAMES, OWNERS,
    Proposal, ROLES, Role, RoleSet, Span, TICKETS,
};
use crate::node::key::KeyTemplate;
use crate::node::roster_history::{RosterHistory, RosterStep};
use crate::node::{Life, LockKey};

const START: i64 = 1_700_000_000_123_456;
/// An epoch that no node has.
const NO_EPOCH: Epoch = Epoch(0);

/// Returns the constants of one of five clusters. Each of the others differs from the first in one constant.
pub(super) fn constants(set: usize) -> Constants {
    let first = Constants { cluster: "c1".into(), nodes: 3, max_ttl_millis: 3_000, max_skew_micros: 1_000_000 };
    let all: [Constants; CONSTANTS] = [
        first.clone(),
        Constants { cluster: "c2".into(), ..first.clone() },
        Constants { nodes: 5, ..first.clone() },
        // The longest possible ttl, so that fences are kept for longer than a day.
        Constants { max_ttl_millis: 86_400_000, ..first.clone() },
        Constants { max_skew_micros: 1_000_001, ..first },
    ];
    all[set].clone()
}

/// Returns the attempts that request a name.
pub(super) fn attempts(name: usize) -> impl Iterator<Item = LeaseId> {
    (0..ROLES.len()).map(move |role| attempt(name, role))
}

/// Returns the owners that may be retired from a name.
pub(super) fn owners() -> impl Iterator<Item = OwnerId> {
    OWNERS.into_iter().map(OwnerId::from_bits)
}

/// Returns the attempt of a role. The bits start at 1, because a node takes a vote with the bits 0 for a broken vote.
fn attempt(name: usize, role: usize) -> LeaseId {
    LeaseId::from_bits((name * ROLES.len() + role) as u128 + 1)
}

/// Returns the channels on which the test receives hints.
pub(super) fn channels() -> impl Iterator<Item = Channel> {
    (1..=CHANNELS as u128).map(Channel)
}

fn waiter(ticket: usize) -> Waiter {
    let (after, id, shared) = TICKETS[ticket];
    let channel = Channel((ticket % CHANNELS + 1) as u128);
    Waiter { ticket: Ticket { at: START.unsigned_abs() + after, id }, channel, shared }
}

/// The state of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) life: Option<Incarnation>,
    pub(super) membership: Option<Membership>,
    pub(super) records: [Record; NAMES],
}

#[derive(Debug)]
pub(super) struct Model {
    roles: RoleSet,
    pub(super) state: State,
    pub(super) keys: [Arc<LockKey>; NAMES],
    pub(super) micros: i64,
    /// The previous life in which the node could vote.
    earlier: Option<Life>,
    /// The last life in which the node could vote.
    current: Option<Life>,
    epochs: u128,
    history: RosterHistory,
    /// The last copy of the membership.
    copy: Option<Membership>,
}

impl Model {
    pub(super) fn new(roles: RoleSet) -> Self {
        let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
        let key = |name| Arc::new(template.key(&Name::new(name).unwrap()).unwrap());
        Self {
            roles,
            state: State::default(),
            keys: [key("plain"), key("plainer"), key("with spaces, \u{9501} and a\nnew line")],
            micros: START,
            earlier: None,
            current: None,
            epochs: 0,
            history: RosterHistory::default(),
            copy: None,
        }
    }

    fn time(&self) -> NodeTime {
        NodeTime::wall(self.micros.unsigned_abs())
    }

    pub(super) fn pass(&mut self, jump: &Jump) {
        match jump {
            Jump::By(micros) => self.micros += micros,
            Jump::ToTheEndOf { what, offset } => {
                let expiries = |record: &Record| {
                    let notes = [record.vote.as_ref().map(|n| n.until), record.fence.as_ref().map(|n| n.until)];
                    let entries = record.entries.iter().map(|entry| entry.until);
                    let positions = record.queue.iter().map(|queued| queued.until);
                    let tombstones = record.tombstones.values().chain(record.retired.values()).copied();
                    notes.into_iter().flatten().chain(entries).chain(positions).chain(tombstones).collect::<Vec<_>>()
                };
                let expiry_millis = self.state.records.iter().flat_map(expiries);
                let expiry_micros: Vec<i64> = expiry_millis.map(|millis| millis.cast_signed() * 1_000).collect();
                if !expiry_micros.is_empty() {
                    self.micros = what.get(&expiry_micros) + offset;
                }
            }
        }
    }

    /// Returns the index of the set of constants that this node has.
    pub(super) fn constants_set(&self) -> usize {
        let State { life, membership, .. } = &self.state;
        if let Some(roster) = membership.as_ref().and_then(|membership| membership.roster.as_ref()) {
            let (max_ttl_millis, max_skew_micros) = (roster.longest_ttl_millis, roster.settings.max_skew_micros);
            let is_same =
                |set: &Constants| (set.max_ttl_millis, set.max_skew_micros) == (max_ttl_millis, max_skew_micros);
            return (0..CONSTANTS).position(|set| is_same(&constants(set))).unwrap();
        }
        life.as_ref().map_or(0, |life| (0..CONSTANTS).position(|set| constants(set) == life.constants).unwrap())
    }

    pub(super) fn life(&self, known: KnownLife) -> Option<Life> {
        match known {
            KnownLife::Current => self.current,
            KnownLife::Earlier => self.earlier,
            KnownLife::None => None,
        }
    }

    fn epoch(&self, known: KnownLife) -> Epoch {
        let current = self.state.life.as_ref().and_then(|life| life.epoch);
        match known {
            KnownLife::Current => current.unwrap_or(NO_EPOCH),
            KnownLife::Earlier => self.earlier.map_or(NO_EPOCH, |life| life.epoch),
            KnownLife::None => NO_EPOCH,
        }
    }

    pub(super) fn request(&self, intent: &Intent) -> Request {
        let role = *intent.role.get(self.roles.0);
        let (attempt, mode) = (attempt(intent.name, role), mode(ROLES[role], intent.slot));
        let ttl = |millis| Ttl::new(Duration::from_millis(millis), Duration::MAX).unwrap();
        match intent.kind {
            Kind::Acquire { fence, ttl: millis, holder, waiter: ticket } => {
                let (proposal, waiter) = (self.fence(intent.name, fence), ticket.map(waiter));
                Request::Acquire { attempt, proposal, ttl: ttl(millis), holder: holder.into(), mode, waiter }
            }
            Kind::Renew { fence, ttl: millis, holder, repair } => {
                let fence = self.fence(intent.name, fence);
                Request::Renew { attempt, fence, ttl: ttl(millis), repair, holder: holder.into(), mode }
            }
            Kind::Release { tombstone, parting } => {
                let parting = parting.map(|departure| match departure {
                    Departure::Leave(ticket) => Parting::Leave(waiter(ticket)),
                    Departure::Yield(ticket) => Parting::Yield(waiter(ticket)),
                });
                Request::Release { attempt, tombstone, parting }
            }
            Kind::Retire { owner, tombstone } => {
                Request::Retire { owner: OwnerId::from_bits(OWNERS[owner]), tombstone }
            }
            Kind::Check => {
                Request::Check { attempt, slot: if let Mode::Slot { slot, .. } = mode { Some(slot) } else { None } }
            }
            // Without a roster the node does not know how long a tombstone must last. The scripts get that from the client.
            Kind::Break { .. } if self.state.membership.as_ref().is_some_and(|known| known.roster.is_none()) => {
                Request::Inspect
            }
            Kind::Break { mode, target } => Request::Break { target: self.target(intent.name, target), mode },
            // The Redlock page has only exclusive locks.
            Kind::PlainAcquire { ttl: millis } if is_exclusive(mode) => {
                Request::PlainAcquire { attempt, ttl: ttl(millis) }
            }
            Kind::PlainExtend { ttl: millis } if is_exclusive(mode) => {
                Request::PlainExtend { attempt, ttl: ttl(millis) }
            }
            Kind::PlainRelease if is_exclusive(mode) => Request::PlainRelease { attempt },
            Kind::Inspect | Kind::PlainAcquire { .. } | Kind::PlainExtend { .. } | Kind::PlainRelease => {
                Request::Inspect
            }
        }
    }

    fn target(&self, name: usize, target: BreakTarget) -> Target {
        let record = &self.state.records[name];
        let current = record.vote.as_ref().map_or(LeaseId::from_bits(1), |vote| vote.attempt);
        match target {
            BreakTarget::Stored(offset) => {
                let stored = record.fence.as_ref().map_or(1, |note| note.fence.get());
                Target::Fence(Fence::new(stored.saturating_add_signed(offset)))
            }
            BreakTarget::CurrentVote => Target::Digest(Digest::of(current)),
            BreakTarget::Digest(role) => Target::Digest(Digest::of(attempt(name, *role.get(self.roles.0)))),
        }
    }

    fn fence(&self, name: usize, proposal: Proposal) -> Fence {
        let clock = self.micros.unsigned_abs();
        let max_clock_skew = constants(self.constants_set()).max_skew_micros;
        let stored = self.state.records[name].fence.as_ref().map_or(clock, |note| note.fence.get());
        Fence::new(match proposal {
            Proposal::Clock(ahead) => clock.saturating_add_signed(ahead),
            Proposal::Limit(ahead) => (clock + max_clock_skew).saturating_add_signed(ahead),
            Proposal::Stored(ahead) => stored.saturating_add_signed(ahead),
        })
    }

    /// Returns the answer to the request, with the hint or handoff for the first waiter.
    pub(super) fn answer(&mut self, life: Option<Life>, name: usize, request: &Request) -> Answer {
        let now = self.time();
        let epoch = life.map_or(NO_EPOCH, |life| life.epoch);
        let State { life, membership, records } = &mut self.state;
        let record = &mut records[name];
        let expiry = |record: &Record| record.vote.as_ref().map(|vote| vote.until);
        let before = expiry(record);
        let life = membership.as_ref().map(Membership::incarnation).or_else(|| life.clone());
        let life = life.unwrap_or_else(|| node_in_life(None));
        let answer = |record: &mut Record| match &*membership {
            Some(membership) => vote(membership, record, request, epoch, now, |_| true),
            None => apply(&life, record, request, epoch, now, |_| true),
        };
        let is_other_life = life.epoch != Some(epoch) || life.floor.is_none();
        let answer = if is_other_life && request.is_plain() && request.may_grant() {
            // Plain requests do not check the life: the server executes them, and the client does not count the vote.
            let refusal = answer(&mut record.clone());
            apply(&node_in_life(Some(epoch)), record, request, epoch, now, |_| true);
            refusal
        } else {
            answer(record)
        };
        // Redis deletes a key whose expiry is now, so the scripts let the vote expire one millisecond later.
        let is_lowered = expiry(record) < before;
        if let Some(vote) = record.vote.as_mut().filter(|vote| is_lowered && vote.until == now.life_millis) {
            vote.until += 1;
        }
        answer
    }

    pub(super) fn node_command(&mut self, command: &Command) -> NodeCommand {
        let mut fresh = || {
            self.epochs += 1;
            Epoch(self.epochs << 64)
        };
        match *command {
            Command::Look => NodeCommand::Look,
            Command::Hello { identity: which, constants: set, founders, trust } => NodeCommand::Hello {
                identity: identity(which),
                fresh: fresh(),
                constants: constants(set),
                founders: founders.into(),
                trust: trusted(trust),
            },
            Command::Reconfigure { identity: which, constants: set, trust, suspend } => NodeCommand::Reconfigure {
                identity: identity(which),
                fresh: fresh(),
                constants: constants(set),
                trust: trusted(trust),
                suspend,
            },
            Command::Init { identity: which, constants: set } => {
                NodeCommand::Init { identity: identity(which), fresh: fresh(), constants: constants(set) }
            }
            Command::Claim { life, span } => {
                NodeCommand::Claim { epoch: self.epoch(life), elapsed_micros: self.span(span) }
            }
        }
    }

    fn span(&self, span: Span) -> u64 {
        let life = self.state.life.as_ref();
        match span {
            Span::Micros(micros) => micros,
            Span::HighestClaim(more) => life.map_or(0, |life| life.elapsed_micros).saturating_add_signed(more),
            Span::Whole(more) => life.map_or(0, |life| life.quarantine_micros).saturating_add_signed(more),
        }
    }

    pub(super) fn attend(&mut self, node_command: &NodeCommand) -> Standing {
        let now = self.time();
        let standing = attend(&mut self.state.life, node_command, now);
        self.note_life(self.state.life.clone());
        standing
    }

    /// Notes the life in which the node votes.
    fn note_life(&mut self, life: Option<Incarnation>) {
        let current = life.and_then(|life| Some(Life { epoch: life.epoch?, floor: life.floor? }));
        if current.is_some() && current != self.current {
            self.earlier = std::mem::replace(&mut self.current, current);
        }
    }

    /// Returns the commands after which the node votes.
    pub(super) fn founding(&mut self, others: usize, trusts_restarts: bool) -> [RosterCommand; 3] {
        self.history.founding(identity(0), others, trusts_restarts)
    }

    pub(super) fn roster_command(&mut self, step: &RosterStep) -> RosterCommand {
        self.history.command(step, self.state.membership.as_ref(), identity)
    }

    pub(super) fn execute(&mut self, command: &RosterCommand) -> RosterAnswer {
        let now = self.time();
        let answer = apply_roster(&mut self.state.membership, command, now);
        self.note_life(self.state.membership.as_ref().map(Membership::incarnation));
        answer
    }

    pub(super) fn copy(&mut self) {
        self.copy.clone_from(&self.state.membership);
    }

    /// Restores the last copy. Returns the command that identifies the server that loaded the copy; `None` if there is no
    /// copy, or if the copy does not show that another server loaded it.
    pub(super) fn restore(&mut self, which: usize) -> Option<RosterCommand> {
        let copy = self.copy.as_ref().filter(|copy| copy.identity.is_replaced_by(&identity(which)))?;
        self.state.membership = Some(copy.clone());
        Some(self.history.identify(identity(which)))
    }

    pub(super) fn wipe_epoch(&mut self) {
        if let Some(life) = &mut self.state.life {
            (life.epoch, life.floor) = (None, None);
        }
        self.state.membership = None;
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

    /// Returns the state without expired records.
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

fn identity(which: usize) -> Identity {
    let (run, promotion) = IDENTITIES[which % IDENTITIES.len()];
    Identity { run: run.into(), promotion: promotion.into() }
}

fn mode(role: Role, slot: u32) -> Mode {
    match role {
        Role::Exclusive => Mode::EXCLUSIVE,
        Role::Writer { owner } => Mode::Exclusive { writer: Some(OwnerId::from_bits(owner)) },
        Role::Reentrant { owner } => Mode::Reentrant { owner: OwnerId::from_bits(owner) },
        Role::Reader { owner, reenters } => Mode::Shared { owner: OwnerId::from_bits(owner), reenters },
        Role::Slot { permits } => Mode::Slot { permits, slot },
    }
}

fn trusted(floor_offset: Option<i64>) -> Trust {
    floor_offset.map_or(Trust::Quarantine, |floor_offset| Trust::Vote { floor_offset })
}

fn is_exclusive(mode: Mode) -> bool {
    matches!(mode, Mode::Exclusive { .. })
}

/// Returns a node that may vote in this epoch, or a blank node.
fn node_in_life(epoch: Option<Epoch>) -> Incarnation {
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
