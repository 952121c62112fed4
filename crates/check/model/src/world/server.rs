//! A node: the core's rules over a memory that may be lost, restored or emptied.

use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, OwnerId};
use quorlock_core::node::{
    Answer, Epoch, FenceNote, Identity, Incarnation, NodeCommand, NodeTime, Record, Standing, apply, attend,
};
use quorlock_core::request::{BreakMode, Request, Target};
use quorlock_core::rules::Rule;
use quorlock_core::terms::Mode;
use quorlock_core::vote::{Refusal, Vote};

use super::clock::{BASE, server_time};
use super::link::Letter;
use crate::setup::{Flaw, Setup};

/// The part of a node that a snapshot contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    pub(super) life: Option<Incarnation>,
    pub(super) record: Record,
    /// The first fence of each reader, for the flaw that never forgets it.
    shares: Vec<(OwnerId, Fence)>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Server {
    pub(super) run: u32,
    /// How often this run loaded other data.
    promotions: u32,
    pub(super) memory: Memory,
    pub(super) snapshot: Option<Box<Memory>>,
    /// How far its wall clock is off, in microseconds.
    offset: i64,
    /// When it started, by its own wall clock.
    started: u64,
}

impl Server {
    /// A node that has been voting for long.
    pub(super) fn voting(setup: &Setup, index: usize) -> Self {
        let mut server =
            Self { run: 0, promotions: 0, memory: Memory::default(), snapshot: None, offset: 0, started: 0 };
        let init = NodeCommand::Init { identity: server.identity(), fresh: Epoch(0), constants: setup.constants() };
        server.attend(setup, 0, &init);
        let stored = setup.fences.iter().find(|(of, _)| *of == index);
        server.memory.record.fence = stored.map(|(_, ahead)| FenceNote {
            fence: Fence::new(BASE.saturating_add_signed(*ahead)),
            by: LeaseId::from_bits(0),
            since_micros: 0,
            ticket: None,
            holder: String::new(),
            until: u64::MAX,
        });
        server
    }

    pub(super) fn identity(&self) -> Identity {
        let promotion = if self.promotions == 0 { String::new() } else { format!("copy:{}", self.promotions) };
        Identity { run: format!("run{}", self.run), promotion }
    }

    pub(super) fn time(&self, setup: &Setup, now: u64) -> NodeTime {
        let time = server_time(setup.ppm, self.offset, now);
        if setup.expires_by_wall() { NodeTime::wall(time.wall_micros) } else { time }
    }

    pub(super) fn attend(&mut self, setup: &Setup, now: u64, node_command: &NodeCommand) -> Standing {
        let time = self.time(setup, now);
        let was_voting = self.is_voting();
        let before = self.epoch();
        let added = self.added(setup, node_command);
        let standing = attend(&mut self.memory.life, added.as_ref().unwrap_or(node_command), time);
        let (is_new, is_voting) = (self.epoch() != before, self.is_voting());
        if let Some(life) = &mut self.memory.life {
            if setup.lacks(Flaw::QuarantineShort) && is_new {
                life.quarantine_micros -= 4_000;
            }
            let forgets = setup.lacks(Flaw::FloorLost) || setup.lacks(Flaw::FenceRestored);
            if forgets && is_voting && !was_voting && now > 0 {
                life.floor = Some(Fence::default());
            }
        }
        standing
    }

    /// The command that a node executes instead if it adds up claims.
    fn added(&self, setup: &Setup, node_command: &NodeCommand) -> Option<NodeCommand> {
        match (node_command, &self.memory.life) {
            (NodeCommand::Claim { epoch, elapsed_micros }, Some(life))
                if setup.lacks(Flaw::Core(Rule::HighestClaim)) =>
            {
                Some(NodeCommand::Claim { epoch: *epoch, elapsed_micros: life.elapsed_micros + elapsed_micros })
            }
            _ => None,
        }
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.memory.life.as_ref().and_then(|life| life.epoch)
    }

    pub(super) fn is_voting(&self) -> bool {
        self.memory.life.as_ref().is_some_and(|life| life.floor.is_some())
    }

    /// Whether it may vote, and a client has read its state since it started.
    pub(super) fn may_vote(&self) -> bool {
        self.is_voting() && self.memory.life.as_ref().is_some_and(|life| !life.is_replaced_by(&self.identity()))
    }

    /// Whether it has a vote. A broken one does not count.
    pub(super) fn has_vote(&self) -> bool {
        let vote = self.memory.record.vote.as_ref();
        vote.is_some_and(|vote| !vote.attempt.reveal().ends_with(Digest::NOBODY))
    }

    /// How long it has been running, by its own wall clock.
    pub(super) fn uptime(&self, setup: &Setup, now: u64) -> u64 {
        self.time(setup, now).wall_micros.saturating_sub(self.started)
    }

    /// Votes, and hands the vote to a waiter that can be notified.
    pub(super) fn vote(
        &mut self,
        setup: &Setup,
        now: u64,
        letter: &Letter,
        can_hear: impl FnOnce(Channel) -> bool,
    ) -> Answer {
        let Letter { request, epoch, again: raises, .. } = letter;
        let time = self.time(setup, now);
        let life = self.life_for(setup, request, *epoch);
        let Memory { record, shares, .. } = &mut self.memory;
        record.sweep_tombstones(time);
        if setup.lacks(Flaw::ReleaseVoids) && matches!(request, Request::Release { .. }) {
            let attempt = request.attempt();
            if record.entries.iter().any(|entry| entry.attempt == attempt) {
                record.entries.retain(|entry| entry.attempt == attempt);
            }
        }
        let tombstones = setup.lacks(Flaw::BreakForgets).then(|| record.tombstones.clone());
        let mutated = mutated_break(setup, record, request);
        let mut answer = apply(&life, record, mutated.as_ref().unwrap_or(request), *epoch, time, can_hear);
        if let (Request::Break { .. }, Some(tombstones)) = (request, tombstones) {
            record.tombstones = tombstones;
        }
        if setup.lacks(Flaw::RetireForgets) {
            record.retired.clear();
        }
        if let (true, Request::Acquire { proposal, .. }, Vote::Refusal(Refusal::Held { .. }), Some(note)) =
            (*raises && setup.lacks(Flaw::RaiseAnyVote), request, &answer.vote, &mut record.fence)
        {
            note.fence = note.fence.max(*proposal);
            answer.vote = Vote::grant(note.fence);
        }
        if setup.lacks(Flaw::StaleShare)
            && let Request::Acquire { mode: Mode::Shared { owner, .. }, .. } = request
            && let Vote::Grant { fence, .. } = &mut answer.vote
        {
            match shares.iter().find(|(of, _)| of == owner) {
                Some((_, first)) => *fence = *first,
                None => shares.push((*owner, *fence)),
            }
        }
        if let Some(note) = &mut record.fence {
            // Nothing reads these fields here.
            (note.until, note.since_micros) = (u64::MAX, 0);
        }
        answer
    }

    /// Whether a request is a release that changes nothing here.
    pub(super) fn is_idle(&self, letter: &Letter) -> bool {
        let record = &self.memory.record;
        let (Request::Release { attempt, tombstone: None, parting: None } | Request::PlainRelease { attempt }) =
            &letter.request
        else {
            return false;
        };
        let has_vote = record.vote.as_ref().is_some_and(|vote| vote.attempt == *attempt);
        !has_vote && record.entries.iter().all(|entry| entry.attempt != *attempt)
    }

    /// The node's state for this request.
    fn life_for(&self, setup: &Setup, request: &Request, epoch: Epoch) -> Incarnation {
        let known = self.memory.life.clone().unwrap_or_else(|| Incarnation {
            identity: self.identity(),
            epoch: None,
            floor: None,
            quarantine_micros: 0,
            suspended: false,
            elapsed_micros: 0,
            constants: setup.constants(),
            founders: String::new(),
            restarts: 0,
        });
        // `SET NX PX` has no epoch: the link checks it.
        if request.is_plain() || setup.lacks(Flaw::HandshakeUntied) || setup.lacks(Flaw::EpochUnchecked) {
            return Incarnation { epoch: Some(epoch), floor: known.floor.or(Some(Fence::default())), ..known };
        }
        let mut known = known;
        if setup.lacks(Flaw::FloorLost) || setup.lacks(Flaw::TrustWithoutFloor) {
            // The clock does not count either.
            known.constants.max_skew_micros = u64::MAX / 4;
        }
        known
    }

    /// Restarts with this memory.
    pub(super) fn restart(&mut self, setup: &Setup, now: u64, memory: Memory) {
        self.run += 1;
        self.promotions = 0;
        self.memory = memory;
        self.started = self.time(setup, now).wall_micros;
    }

    /// Loads a copy of its own life from before the first vote. Returns whether its identity shows that.
    pub(super) fn roll_back(&mut self, setup: &Setup) -> bool {
        let life = self.memory.life.take();
        self.memory = Memory { life, ..Memory::default() };
        let is_told = !setup.lacks(Flaw::RollbackUnnoticed);
        self.promotions += u32::from(is_told);
        is_told
    }

    pub(super) fn jump(&mut self, by: i64) {
        self.offset += by;
    }

    /// Whether a jump of its clock cannot affect anything.
    pub(super) fn is_blank(&self) -> bool {
        self.memory.record.is_empty()
    }

    /// Removes everything that has expired, so that equivalent states are equal.
    pub(super) fn lapse(&mut self, setup: &Setup, now: u64) {
        let time = self.time(setup, now);
        self.memory.record.lapse(time);
        self.memory.record.sweep_tombstones(time);
    }

    /// The last milliseconds of everything that clients may wait for, by a clock that has not jumped.
    pub(super) fn ends(&self, setup: &Setup) -> impl Iterator<Item = u64> + '_ {
        let record = &self.memory.record;
        let ends = record.vote.iter().map(|vote| vote.until).chain(record.entries.iter().map(|entry| entry.until));
        let jumped = if setup.expires_by_wall() { self.offset / 1_000 } else { 0 };
        ends.map(move |until| until.saturating_add_signed(-jumped))
    }
}

/// The request that a node executes instead if it lacks one of the rules of breaking.
fn mutated_break(setup: &Setup, record: &Record, request: &Request) -> Option<Request> {
    let Request::Break { target, mode } = *request else { return None };
    match setup.flaw? {
        Flaw::BreakFrees => Some(Request::Break { target, mode: BreakMode::Now }),
        Flaw::BreakAny => {
            let target = Target::Fence(record.fence.as_ref()?.fence);
            Some(Request::Break { target, mode })
        }
        _ => None,
    }
}
