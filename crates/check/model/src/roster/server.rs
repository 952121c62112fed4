//! A node: the core's rules over a memory that may be lost.

use quorlock_core::fence::Fence;
use quorlock_core::node::roster::{Life, Membership, Promise, RosterAnswer, RosterCommand, apply_roster, vote};
use quorlock_core::node::{Answer, Epoch, Identity, NodeTime, Record};
use quorlock_core::request::Request;

use super::setup::{Flaw, Setup, member_id};

#[derive(Clone, Debug, Hash)]
pub(super) struct Server {
    index: usize,
    /// How many memories or ids it has had.
    lives: u32,
    runs: u32,
    pub(super) stored: Option<Membership>,
    pub(super) record: Record,
}

impl Server {
    /// A blank server that has its first id.
    pub(super) fn blank(setup: &Setup, index: usize) -> Self {
        let mut server = Self { index, lives: 0, runs: 0, stored: None, record: Record::default() };
        server.identify(setup, NodeTime::wall(0));
        server
    }

    pub(super) fn membership(&self) -> Option<&Membership> {
        self.stored.as_ref()
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.stored.as_ref().map(Membership::epoch)
    }

    /// Gives it a fresh id, if it needs one.
    fn identify(&mut self, setup: &Setup, now: NodeTime) {
        let identity = Identity::of_run(format!("{}", self.runs));
        let (member, life) = (member_id(self.index, self.lives), Life(self.fresh_life()));
        let skew = super::setup::MAX_SKEW_MICROS.cast_signed();
        let identify = RosterCommand::Identify { identity, member, life, floor_offset: 2 * skew };
        self.apply(setup, &identify, now);
    }

    fn fresh_life(&self) -> u64 {
        self.index as u64 * 256 + u64::from(self.lives) * 16 + u64::from(self.runs)
    }

    /// Applies a command as the core does, except for the missing rule.
    pub(super) fn command(&mut self, setup: &Setup, command: &RosterCommand, now: NodeTime) -> RosterAnswer {
        let before = self.stored.clone();
        if let (RosterCommand::Accept(proposal), Some(membership)) = (command, &mut self.stored)
            && (setup.lacks(Flaw::NoBallots) || setup.lacks(Flaw::AcceptUnpromised))
            && membership.generation() < proposal.roster.generation
        {
            membership.promised = Some(proposal.promise());
        }
        if let (RosterCommand::Promise { promise, .. }, true) = (command, setup.lacks(Flaw::NoBallots)) {
            return self.promise_anything(*promise, now);
        }
        let added = self.added(setup, command);
        let mut answer = self.apply(setup, added.as_ref().unwrap_or(command), now);
        if self.stored.as_ref().is_some_and(|membership| membership.member.is_none()) {
            self.lives += 1;
            self.identify(setup, now);
            answer.membership.clone_from(&self.stored);
        }
        let has_installed = self.epoch() != before.as_ref().map(Membership::epoch);
        if has_installed && setup.lacks(Flaw::SurvivorsForget) {
            self.record = Record::default();
        }
        if setup.lacks(Flaw::NewcomersVote)
            && let Some(membership) = self.stored.as_mut().filter(|membership| membership.quarantine.is_some())
        {
            (membership.quarantine, membership.floor) = (None, Some(Fence::default()));
        }
        answer
    }

    /// Answers every promise with yes, and without what it has accepted.
    fn promise_anything(&mut self, promise: Promise, now: NodeTime) -> RosterAnswer {
        let membership = self.stored.clone().map(|membership| Membership { accepted: None, ..membership });
        let is_open = self.stored.as_ref().is_some_and(|membership| membership.generation() < promise.generation);
        RosterAnswer { accepted: is_open, membership, at_micros: now.wall_micros }
    }

    /// The command that a node executes instead if it lacks one of the rules about claims.
    fn added(&self, setup: &Setup, command: &RosterCommand) -> Option<RosterCommand> {
        let RosterCommand::Claim { life, since, elapsed_micros } = *command else { return None };
        let quarantine = self.stored.as_ref()?.quarantine?;
        let is_added = setup.lacks(Flaw::ClaimsAdded);
        let elapsed_micros = elapsed_micros + if is_added { quarantine.elapsed_micros } else { 0 };
        let elapsed_micros = if setup.lacks(Flaw::QuarantineShort) { quarantine.micros } else { elapsed_micros };
        Some(RosterCommand::Claim { life, since, elapsed_micros })
    }

    fn apply(&mut self, _: &Setup, command: &RosterCommand, now: NodeTime) -> RosterAnswer {
        apply_roster(&mut self.stored, command, now)
    }

    /// Restarts without its data.
    pub(super) fn crash(&mut self, setup: &Setup, now: NodeTime) {
        self.runs += 1;
        self.record = Record::default();
        if setup.lacks(Flaw::IdKept) {
            return;
        }
        self.lives += 1;
        self.stored = None;
        self.identify(setup, now);
    }

    /// Restarts with its data.
    pub(super) fn restart(&mut self, setup: &Setup, now: NodeTime) {
        self.runs += 1;
        if !setup.trusts_restarts {
            self.lives += 1;
            self.record = Record::default();
        }
        self.identify(setup, now);
    }

    pub(super) fn vote(&mut self, request: &Request, epoch: Epoch, now: NodeTime) -> Option<Answer> {
        let membership = self.stored.as_ref()?;
        let answer = vote(membership, &mut self.record, request, epoch, now, |_| false);
        if let Some(note) = &mut self.record.fence {
            // Nothing reads these fields here.
            (note.until, note.since_micros) = (u64::MAX, 0);
        }
        Some(answer)
    }
}
