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

use super::clock::{NODE_CLOCK_START, server_time};
use super::link::RequestInFlight;
use crate::setup::{Flaw, Setup};

/// The part of a node that a snapshot contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    pub(super) life: Option<Incarnation>,
    pub(super) record: Record,
    /// The first fence of each reader, for [`Flaw::ReaderFenceKept`].
    reader_fences: Vec<(OwnerId, Fence)>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Server {
    /// The number of restarts.
    pub(super) restarts: u32,
    /// How often the server loaded other data since its last restart.
    promotions: u32,
    pub(super) memory: Memory,
    pub(super) snapshot: Option<Box<Memory>>,
    /// How far the server's wall clock is ahead of its steady clock, in microseconds.
    wall_offset_micros: i64,
    /// When the server started, by its own wall clock.
    started_wall_micros: u64,
}

impl Server {
    /// A node that has voted for a long time.
    pub(super) fn new_voting(setup: &Setup, index: usize) -> Self {
        let mut server = Self {
            restarts: 0,
            promotions: 0,
            memory: Memory::default(),
            snapshot: None,
            wall_offset_micros: 0,
            started_wall_micros: 0,
        };
        let init = NodeCommand::Init { identity: server.identity(), fresh: Epoch(0), constants: setup.constants() };
        server.attend(setup, 0, &init);
        let stored_fence = setup.stored_fences.iter().find(|(server, _)| *server == index);
        server.memory.record.fence = stored_fence.map(|(_, ahead)| FenceNote {
            fence: Fence::new(NODE_CLOCK_START.saturating_add_signed(*ahead)),
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
        Identity { run: format!("run{}", self.restarts), promotion }
    }

    pub(super) fn time(&self, setup: &Setup, now: u64) -> NodeTime {
        let time = server_time(setup.clock_rate_ppm, self.wall_offset_micros, now);
        if setup.expires_by_wall_clock() { NodeTime::wall(time.wall_micros) } else { time }
    }

    pub(super) fn attend(&mut self, setup: &Setup, now: u64, node_command: &NodeCommand) -> Standing {
        let time = self.time(setup, now);
        let was_voting = self.is_voting();
        let epoch_before = self.epoch();
        let summed = self.summed_claim(setup, node_command);
        let standing = attend(&mut self.memory.life, summed.as_ref().unwrap_or(node_command), time);
        let (is_new, is_voting) = (self.epoch() != epoch_before, self.is_voting());
        if let Some(life) = &mut self.memory.life {
            if setup.has_flaw(Flaw::QuarantineShort) && is_new {
                life.quarantine_micros -= 4_000;
            }
            let has_no_floor = setup.has_flaw(Flaw::FloorLost) || setup.has_flaw(Flaw::FenceRestored);
            if has_no_floor && is_voting && !was_voting && now > 0 {
                life.floor = Some(Fence::default());
            }
        }
        standing
    }

    /// If the setup has the flaw that nodes add up claims: the claim that the node executes instead of `node_command`.
    fn summed_claim(&self, setup: &Setup, node_command: &NodeCommand) -> Option<NodeCommand> {
        match (node_command, &self.memory.life) {
            (NodeCommand::Claim { epoch, elapsed_micros }, Some(life))
                if setup.has_flaw(Flaw::Core(Rule::HighestClaim)) =>
            {
                Some(NodeCommand::Claim { epoch: *epoch, elapsed_micros: life.elapsed_micros + elapsed_micros })
            }
            _ => None,
        }
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.memory.life.as_ref().and_then(|life| life.epoch)
    }

    /// Whether the node's quarantine is over.
    pub(super) fn is_voting(&self) -> bool {
        self.memory.life.as_ref().is_some_and(|life| life.floor.is_some())
    }

    /// Whether the node may vote, and a client has completed a handshake since the node's last restart.
    pub(super) fn may_vote(&self) -> bool {
        self.is_voting() && self.memory.life.as_ref().is_some_and(|life| !life.is_replaced_by(&self.identity()))
    }

    /// Whether the node has a vote. The vote of a broken lease does not count.
    pub(super) fn has_vote(&self) -> bool {
        let vote = self.memory.record.vote.as_ref();
        vote.is_some_and(|vote| !vote.attempt.reveal().ends_with(Digest::NOBODY))
    }

    /// How long the server has run, by its own wall clock, in microseconds.
    pub(super) fn uptime(&self, setup: &Setup, now: u64) -> u64 {
        self.time(setup, now).wall_micros.saturating_sub(self.started_wall_micros)
    }

    /// Executes a request. `has_listener` returns whether the node can notify the waiter that listens on a channel.
    pub(super) fn vote(
        &mut self,
        setup: &Setup,
        now: u64,
        in_flight: &RequestInFlight,
        has_listener: impl FnOnce(Channel) -> bool,
    ) -> Answer {
        let RequestInFlight { request, epoch, is_repeated, .. } = in_flight;
        let time = self.time(setup, now);
        let life = self.life_for(setup, request, *epoch);
        let Memory { record, reader_fences, .. } = &mut self.memory;
        record.sweep_tombstones(time);
        if setup.has_flaw(Flaw::ReleaseEndsAllEntries) && matches!(request, Request::Release { .. }) {
            let attempt = request.attempt();
            if record.entries.iter().any(|entry| entry.attempt == attempt) {
                record.entries.retain(|entry| entry.attempt == attempt);
            }
        }
        let tombstones = setup.has_flaw(Flaw::BreakWithoutTombstone).then(|| record.tombstones.clone());
        let break_with_flaw = break_with_flaw(setup, record, request);
        let mut answer = apply(&life, record, break_with_flaw.as_ref().unwrap_or(request), *epoch, time, has_listener);
        if let (Request::Break { .. }, Some(tombstones)) = (request, tombstones) {
            record.tombstones = tombstones;
        }
        if setup.has_flaw(Flaw::RetirementWithoutTombstone) {
            record.retired.clear();
        }
        if let (true, Request::Acquire { proposal, .. }, Vote::Refusal(Refusal::Held { .. }), Some(note)) =
            (*is_repeated && setup.has_flaw(Flaw::RaiseAnyVote), request, &answer.vote, &mut record.fence)
        {
            note.fence = note.fence.max(*proposal);
            answer.vote = Vote::grant(note.fence);
        }
        if setup.has_flaw(Flaw::ReaderFenceKept)
            && let Request::Acquire { mode: Mode::Shared { owner, .. }, .. } = request
            && let Vote::Grant { fence, .. } = &mut answer.vote
        {
            match reader_fences.iter().find(|(reader, _)| reader == owner) {
                Some((_, first)) => *fence = *first,
                None => reader_fences.push((*owner, *fence)),
            }
        }
        if let Some(note) = &mut record.fence {
            // Nothing in the search reads these fields, so equal states must not differ in them.
            (note.until, note.since_micros) = (u64::MAX, 0);
        }
        answer
    }

    /// Whether a request is a release that changes nothing on this node.
    pub(super) fn is_release_without_effect(&self, in_flight: &RequestInFlight) -> bool {
        let record = &self.memory.record;
        let (Request::Release { attempt, tombstone: None, parting: None } | Request::PlainRelease { attempt }) =
            &in_flight.request
        else {
            return false;
        };
        let has_vote = record.vote.as_ref().is_some_and(|vote| vote.attempt == *attempt);
        !has_vote && record.entries.iter().all(|entry| entry.attempt != *attempt)
    }

    /// The incarnation with which the node executes this request. A flaw may change it.
    fn life_for(&self, setup: &Setup, request: &Request, epoch: Epoch) -> Incarnation {
        let mut life = self.memory.life.clone().unwrap_or_else(|| Incarnation {
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
        // A plain request (`SET NX PX`) names no epoch. The client checks the epoch when the reply arrives.
        if request.is_plain() || setup.has_flaw(Flaw::HandshakeSkipped) || setup.has_flaw(Flaw::EpochUnchecked) {
            return Incarnation { epoch: Some(epoch), floor: life.floor.or(Some(Fence::default())), ..life };
        }
        if setup.has_flaw(Flaw::FloorLost) || setup.has_flaw(Flaw::TrustWithoutFloor) {
            // Without a floor, the node's clock would still limit fences. So the node ignores its clock.
            life.constants.max_skew_micros = u64::MAX / 4;
        }
        life
    }

    /// Restarts the server with this memory.
    pub(super) fn restart(&mut self, setup: &Setup, now: u64, memory: Memory) {
        self.restarts += 1;
        self.promotions = 0;
        self.memory = memory;
        self.started_wall_micros = self.time(setup, now).wall_micros;
    }

    /// Loads a copy of the node's data from before the first vote. Returns whether the node's identity changes, so that
    /// clients can notice.
    pub(super) fn roll_back(&mut self, setup: &Setup) -> bool {
        let life = self.memory.life.take();
        self.memory = Memory { life, ..Memory::default() };
        let is_noticeable = !setup.has_flaw(Flaw::RollbackUnnoticed);
        self.promotions += u32::from(is_noticeable);
        is_noticeable
    }

    pub(super) fn jump(&mut self, by_micros: i64) {
        self.wall_offset_micros += by_micros;
    }

    /// Whether the server's record is empty, so that a fault can change nothing.
    pub(super) fn has_no_records(&self) -> bool {
        self.memory.record.is_empty()
    }

    /// Removes everything that has expired, so that equivalent states are equal.
    pub(super) fn remove_expired(&mut self, setup: &Setup, now: u64) {
        let time = self.time(setup, now);
        self.memory.record.remove_expired(time);
        self.memory.record.sweep_tombstones(time);
    }

    /// The ends of all votes and entries, in milliseconds on a clock that has not jumped.
    pub(super) fn expiries(&self, setup: &Setup) -> impl Iterator<Item = u64> + '_ {
        let record = &self.memory.record;
        let ends = record.vote.iter().map(|vote| vote.until).chain(record.entries.iter().map(|entry| entry.until));
        let jump_millis = if setup.expires_by_wall_clock() { self.wall_offset_micros / 1_000 } else { 0 };
        ends.map(move |until| until.saturating_add_signed(-jump_millis))
    }
}

/// If the setup has a flaw in breaks: the request that the node executes instead of this break.
fn break_with_flaw(setup: &Setup, record: &Record, request: &Request) -> Option<Request> {
    let Request::Break { target, mode } = *request else { return None };
    match setup.flaw? {
        Flaw::BreakFreesAtOnce => Some(Request::Break { target, mode: BreakMode::Now }),
        Flaw::BreakOfAnyLease => {
            let target = Target::Fence(record.fence.as_ref()?.fence);
            Some(Request::Break { target, mode })
        }
        _ => None,
    }
}
