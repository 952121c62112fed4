//! A node: the core's rules over a memory that may be lost.

use quorlock_core::fence::Fence;
use quorlock_core::node::roster::{Life, Membership, Promise, RosterAnswer, RosterCommand, apply_roster, vote};
use quorlock_core::node::{Answer, Epoch, Identity, NodeTime, Record};
use quorlock_core::request::Request;

use super::setup::{Flaw, Setup, member_id};

#[derive(Clone, Debug, Hash)]
pub(super) struct Server {
    index: usize,
    /// The number of ids that the server has had before this one.
    lives: u32,
    restarts: u32,
    pub(super) stored_membership: Option<Membership>,
    pub(super) record: Record,
}

impl Server {
    /// A server without a roster, with its first id.
    pub(super) fn new(setup: &Setup, index: usize) -> Self {
        let mut server = Self { index, lives: 0, restarts: 0, stored_membership: None, record: Record::default() };
        server.assign_id(setup, NodeTime::wall(0));
        server
    }

    pub(super) fn membership(&self) -> Option<&Membership> {
        self.stored_membership.as_ref()
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.stored_membership.as_ref().map(Membership::epoch)
    }

    /// Gives the server a new id if it has none.
    fn assign_id(&mut self, setup: &Setup, now: NodeTime) {
        let identity = Identity::of_run(format!("{}", self.restarts));
        let (member, life) = (member_id(self.index, self.lives), Life(self.fresh_life()));
        let skew = super::setup::MAX_SKEW_MICROS.cast_signed();
        let assign_id = RosterCommand::Identify { identity, member, life, floor_offset: 2 * skew };
        self.apply(setup, &assign_id, now);
    }

    fn fresh_life(&self) -> u64 {
        self.index as u64 * 256 + u64::from(self.lives) * 16 + u64::from(self.restarts)
    }

    /// Applies a command like the core, except for the missing rule.
    pub(super) fn command(&mut self, setup: &Setup, command: &RosterCommand, now: NodeTime) -> RosterAnswer {
        let before = self.stored_membership.clone();
        if let (RosterCommand::Accept(proposal), Some(membership)) = (command, &mut self.stored_membership)
            && (setup.has_flaw(Flaw::NoBallots) || setup.has_flaw(Flaw::UnpromisedBallotsAccepted))
            && membership.generation() < proposal.roster.generation
        {
            membership.promised = Some(proposal.promise());
        }
        if let (RosterCommand::Promise { promise, .. }, true) = (command, setup.has_flaw(Flaw::NoBallots)) {
            return self.promise_without_ballot(*promise, now);
        }
        let command_with_flaw = self.command_with_flaw(setup, command);
        let mut answer = self.apply(setup, command_with_flaw.as_ref().unwrap_or(command), now);
        if self.stored_membership.as_ref().is_some_and(|membership| membership.member.is_none()) {
            self.lives += 1;
            self.assign_id(setup, now);
            answer.membership.clone_from(&self.stored_membership);
        }
        let has_installed = self.epoch() != before.as_ref().map(Membership::epoch);
        if has_installed && setup.has_flaw(Flaw::VotesForgottenAtInstall) {
            self.record = Record::default();
        }
        if setup.has_flaw(Flaw::NewcomersNotQuarantined)
            && let Some(membership) =
                self.stored_membership.as_mut().filter(|membership| membership.quarantine.is_some())
        {
            (membership.quarantine, membership.floor) = (None, Some(Fence::default()));
        }
        answer
    }

    /// Agrees to every promise, and does not report an accepted proposal.
    fn promise_without_ballot(&mut self, promise: Promise, now: NodeTime) -> RosterAnswer {
        let membership = self.stored_membership.clone().map(|membership| Membership { accepted: None, ..membership });
        let is_open =
            self.stored_membership.as_ref().is_some_and(|membership| membership.generation() < promise.generation);
        RosterAnswer { accepted: is_open, membership, at_micros: now.wall_micros }
    }

    /// For a claim: the command that a node with a flaw of claims executes instead.
    fn command_with_flaw(&self, setup: &Setup, command: &RosterCommand) -> Option<RosterCommand> {
        let RosterCommand::Claim { life, since, elapsed_micros } = *command else { return None };
        let quarantine = self.stored_membership.as_ref()?.quarantine?;
        let is_added = setup.has_flaw(Flaw::ClaimsAddedUp);
        let elapsed_micros = elapsed_micros + if is_added { quarantine.elapsed_micros } else { 0 };
        let elapsed_micros =
            if setup.has_flaw(Flaw::QuarantineEndsWithFirstClaim) { quarantine.micros } else { elapsed_micros };
        Some(RosterCommand::Claim { life, since, elapsed_micros })
    }

    fn apply(&mut self, _: &Setup, command: &RosterCommand, now: NodeTime) -> RosterAnswer {
        apply_roster(&mut self.stored_membership, command, now)
    }

    /// Restarts without its data.
    pub(super) fn crash(&mut self, setup: &Setup, now: NodeTime) {
        self.restarts += 1;
        self.record = Record::default();
        if setup.has_flaw(Flaw::IdKeptAfterLoss) {
            return;
        }
        self.lives += 1;
        self.stored_membership = None;
        self.assign_id(setup, now);
    }

    /// Restarts with its data.
    pub(super) fn restart(&mut self, setup: &Setup, now: NodeTime) {
        self.restarts += 1;
        if !setup.trusts_restarts {
            self.lives += 1;
            self.record = Record::default();
        }
        self.assign_id(setup, now);
    }

    pub(super) fn vote(&mut self, request: &Request, epoch: Epoch, now: NodeTime) -> Option<Answer> {
        let membership = self.stored_membership.as_ref()?;
        let answer = vote(membership, &mut self.record, request, epoch, now, |_| false);
        if let Some(note) = &mut self.record.fence {
            // Nothing in the search reads these fields, so equal states must not differ in them.
            (note.until, note.since_micros) = (u64::MAX, 0);
        }
        Some(answer)
    }
}
