//! A node: the core's rules over a memory that may be lost, restored or emptied.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quorlock::sim::{Question, Said};
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::node::roster::{self, Membership, apply_roster};
use quorlock_core::node::{
    Constants, Epoch, FenceNote, Identity, Incarnation, NodeCommand, NodeTime, QueuedWaiter, Record, apply, attend,
};
use quorlock_core::request::{Request, Ticket};
use quorlock_core::vote::{Handoff, Refusal, Vote};

use super::batch_order::execution_order;
use super::connections::ToNode;
use crate::clock::Clock;
use crate::run::Flaw;

/// The part of a node that a snapshot contains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    life: Option<Incarnation>,
    membership: Option<Membership>,
    records: BTreeMap<String, Record>,
}

pub(crate) struct Server {
    index: usize,
    restarts: u32,
    /// How often the node loaded other data since its last restart.
    promotions: u32,
    /// The wall clock, in nanoseconds since the Unix epoch.
    pub(super) clock: Clock,
    /// The sum of all steps of the clock, in nanoseconds.
    clock_offset: i64,
    pub(super) memory: Memory,
    pub(super) snapshot: Option<Memory>,
    /// Attempts whose votes a snapshot restored. No client has to release these votes.
    restored_attempts: Vec<LeaseId>,
    /// Tickets of queue positions that a snapshot restored.
    restored_tickets: Vec<Ticket>,
    /// The virtual time at which the node last lost its memory.
    pub(super) memory_lost_at: u64,
    /// The virtual time until which the node is stopped, and keeps its connections.
    pub(super) frozen_until: u64,
    /// The virtual time until which the node is down after a crash, and refuses connections.
    pub(super) down_until: u64,
    /// Messages that a frozen node has not read yet.
    pub(super) backlog: VecDeque<(usize, ToNode)>,
    /// The connection on which each client listens for hints.
    pub(super) listeners: BTreeMap<Channel, usize>,
    /// Whether an acquire raises the fence of another attempt's vote, as in a run without the rule `raise-own-votes`.
    raises_any_vote: bool,
    /// Whether the node adds up the times that clients measured of its quarantine, as in a run without the rule
    /// `highest-claim`.
    adds_up_claims: bool,
    /// A deliberate bug in the node's retirements.
    flaw: Option<Flaw>,
    /// The attempts whose first acquire was refused, for `raises_any_vote`.
    refused_attempts: BTreeSet<LeaseId>,
}

/// A value for the lock with this key.
pub(super) type Keyed<T> = (String, T);

/// A message to other clients than the one whose request causes it.
pub(super) enum Notice {
    Hint(Channel, Ticket, Option<Handoff>),
    Broken(String),
}

impl Server {
    pub(crate) fn new(index: usize, clock: Clock) -> Self {
        Self {
            index,
            restarts: 0,
            promotions: 0,
            clock,
            clock_offset: 0,
            memory: Memory::default(),
            snapshot: None,
            restored_attempts: Vec::new(),
            restored_tickets: Vec::new(),
            memory_lost_at: 0,
            frozen_until: 0,
            down_until: 0,
            backlog: VecDeque::new(),
            listeners: BTreeMap::new(),
            raises_any_vote: false,
            adds_up_claims: false,
            flaw: None,
            refused_attempts: BTreeSet::new(),
        }
    }

    /// Initializes the node as one that has voted for a long time.
    pub(crate) fn init_voting(&mut self, constants: Constants) {
        let init = NodeCommand::Init { identity: self.identity(), fresh: Epoch(u128::from(self.restarts)), constants };
        let time = self.time(0);
        attend(&mut self.memory.life, &init, time);
    }

    /// Sets whether an acquire raises the fence of another attempt's vote.
    pub(crate) fn set_raises_any_vote(&mut self, raises_any_vote: bool) {
        self.raises_any_vote = raises_any_vote;
    }

    /// Sets whether the node adds up the times that clients measured of its quarantine.
    pub(crate) fn set_adds_up_claims(&mut self, adds_up_claims: bool) {
        self.adds_up_claims = adds_up_claims;
    }

    /// Sets a deliberate bug.
    pub(crate) fn set_flaw(&mut self, flaw: Option<Flaw>) {
        self.flaw = flaw;
    }

    /// Stores the fence of an earlier lease. The fence is ahead of the node's clock by `ahead_micros`.
    pub(crate) fn store_fence(&mut self, key: String, ahead_micros: i64) {
        let fence = Fence::new(self.time(0).wall_micros.saturating_add_signed(ahead_micros));
        let (by, ticket, holder) = (LeaseId::from_bits(0), None, String::new());
        let note = FenceNote { fence, by, since_micros: 0, ticket, holder, until: u64::MAX };
        self.memory.records.entry(key).or_default().fence = Some(note);
    }

    /// The name of the node's cluster.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.memory.life.as_ref().map(|life| life.constants.cluster.as_str())
    }

    pub(super) fn identity(&self) -> Identity {
        let promotion = if self.promotions == 0 { String::new() } else { format!("copy:{}", self.promotions) };
        Identity { run: format!("run-{}-{}", self.index, self.restarts), promotion }
    }

    pub(super) fn time(&self, now: u64) -> NodeTime {
        NodeTime::wall(self.clock.read(now) / 1_000)
    }

    /// Steps the clock by `by` nanoseconds.
    pub(super) fn step_clock(&mut self, now: u64, by: i64) {
        self.clock.jump(now, by);
        self.clock_offset += by;
    }

    /// Undoes all changes of the node's clock.
    pub(super) fn reset_clock(&mut self, now: u64) {
        self.step_clock(now, -self.clock_offset);
        self.clock.set_rate(now, 0);
    }

    /// Restarts the node with this memory.
    pub(super) fn restart(&mut self, memory: Memory) {
        self.restarts += 1;
        self.promotions = 0;
        self.replace(memory);
        self.backlog.clear();
        self.listeners.clear();
    }

    /// Loads this memory without a restart, and keeps the connections.
    pub(super) fn roll_back(&mut self, memory: Memory) {
        self.promotions += 1;
        self.replace(memory);
    }

    /// Replaces the node's memory, and records what the new memory restores.
    fn replace(&mut self, memory: Memory) {
        let votes = memory.records.values().filter_map(|record| record.vote.as_ref());
        self.restored_attempts.extend(votes.map(|vote| vote.attempt));
        let entries = memory.records.values().flat_map(|record| &record.entries);
        self.restored_attempts.extend(entries.map(|entry| entry.attempt));
        let queued = || memory.records.values().flat_map(|record| &record.queue);
        self.restored_tickets.extend(queued().map(|queued| queued.waiter.ticket));
        // Until the node has a new epoch, it may hand its vote to a waiter that the snapshot restored.
        self.restored_attempts.extend(queued().filter_map(|queued| Some(queued.request.as_ref()?.1.attempt())));
        self.memory = memory;
    }

    /// Empties the memory, and keeps the connections.
    pub(super) fn flush(&mut self) {
        self.memory = Memory::default();
    }

    /// Answers a question. Also returns the messages to other clients.
    pub(super) fn serve(&mut self, question: &Question, now: u64) -> (Said, Vec<Notice>) {
        let time = self.time(now);
        let mut notices = Vec::new();
        let said = match question {
            Question::NodeCommand(node_command) => {
                let summed = self.summed_claim(node_command);
                let standing = attend(&mut self.memory.life, summed.as_ref().unwrap_or(node_command), time);
                Said::Standing(Box::new(standing), self.identity())
            }
            Question::Roster(command) => {
                let answer = apply_roster(&mut self.memory.membership, command, time);
                Said::Roster(Box::new(answer), self.identity())
            }
            Question::Note => Said::Noted,
            Question::Other => Said::Nothing,
            Question::Batch(epoch, messages) => {
                let mut votes: Vec<(usize, Vote)> = Vec::with_capacity(messages.len());
                for at in execution_order(messages) {
                    let (key, request) = &messages[at];
                    votes.push((at, self.vote(*epoch, key, request, time, &mut notices)));
                }
                votes.sort_unstable_by_key(|(at, _)| *at);
                Said::Votes(votes.into_iter().map(|(_, vote)| vote).collect(), time.wall_micros)
            }
        };
        (said, notices)
    }

    /// If the node adds up claims: the claim that it executes instead of `node_command`.
    fn summed_claim(&self, node_command: &NodeCommand) -> Option<NodeCommand> {
        match (node_command, &self.memory.life) {
            (NodeCommand::Claim { epoch, elapsed_micros }, Some(life)) if self.adds_up_claims => {
                let elapsed_micros = life.elapsed_micros.saturating_add(*elapsed_micros);
                Some(NodeCommand::Claim { epoch: *epoch, elapsed_micros })
            }
            _ => None,
        }
    }

    fn vote(&mut self, epoch: Epoch, key: &str, request: &Request, now: NodeTime, notices: &mut Vec<Notice>) -> Vote {
        let Memory { life, membership, records } = &mut self.memory;
        if !records.contains_key(key) {
            records.insert(key.to_owned(), Record::default());
        }
        let Some(record) = records.get_mut(key) else { return Vote::Refusal(Refusal::Absent) };
        let has_listener = |channel| self.listeners.contains_key(&channel);
        let apply = |record: &mut Record| match (&*membership, &*life) {
            (Some(membership), _) => roster::vote(membership, record, request, epoch, now, has_listener),
            (None, Some(life)) => apply(life, record, request, epoch, now, has_listener),
            // A node without an epoch refuses every request.
            (None, None) => Refusal::WrongEpoch.into(),
        };
        let mut answer = apply(record);
        // A client that does not wait repeats an acquire only to raise a fence (to seal).
        if let (true, Request::Acquire { proposal, waiter: None, .. }, Vote::Refusal(Refusal::Held { .. }), Some(note)) =
            (self.raises_any_vote, request, &answer.vote, &mut record.fence)
            && !self.refused_attempts.insert(request.attempt())
        {
            note.fence = note.fence.max(*proposal);
            answer.vote = Vote::grant(note.fence);
        }
        if let (Request::Retire { .. }, Some(flaw)) = (request, self.flaw) {
            match flaw {
                Flaw::RetirementWithoutTombstone => record.retired.clear(),
                Flaw::RetirementFromAllNames => {
                    for record in records.values_mut() {
                        apply(record);
                    }
                }
            }
        }
        if let Vote::Broken { .. } = answer.vote {
            notices.push(Notice::Broken(key.to_owned()));
        }
        if let Some(hint) = answer.hint.filter(|hint| has_listener(hint.channel)) {
            notices.push(Notice::Hint(hint.channel, hint.ticket, answer.handoff));
        }
        answer.vote
    }

    /// The votes and queue positions on this node, each with the key of its lock, except for those that a snapshot
    /// restored.
    pub(super) fn leftovers(&mut self, now: u64) -> (Vec<Keyed<LeaseId>>, Vec<Keyed<QueuedWaiter>>) {
        let time = self.time(now);
        let (mut votes, mut queued) = (Vec::new(), Vec::new());
        for (key, record) in &mut self.memory.records {
            record.remove_expired(time);
            let single_vote = record.vote.iter().filter(|_| record.entries.is_empty()).map(|vote| vote.attempt);
            let attempts = single_vote.chain(record.entries.iter().map(|entry| entry.attempt));
            votes.extend(
                attempts
                    .filter(|attempt| !self.restored_attempts.contains(attempt))
                    .map(|attempt| (key.clone(), attempt)),
            );
            let waiters = record.queue.iter().filter(|queued| !self.restored_tickets.contains(&queued.waiter.ticket));
            queued.extend(waiters.map(|queued| (key.clone(), queued.clone())));
        }
        (votes, queued)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quorlock_core::fence::Fence;
    use quorlock_core::node::roster::{Change, ClusterId, Life, Roster, RosterCommand, Settings};
    use quorlock_core::quorum::MemberId;
    use quorlock_core::terms::Mode;
    use quorlock_core::time::Ttl;

    use super::*;

    fn execute(server: &mut Server, command: RosterCommand) -> Option<Membership> {
        match server.serve(&Question::Roster(command), 0).0 {
            Said::Roster(answer, identity) => {
                assert!(answer.accepted && identity == server.identity());
                answer.membership
            }
            said => panic!("{said:?}"),
        }
    }

    fn ask(server: &mut Server, epoch: Epoch) -> Vote {
        let ttl = Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap();
        let (attempt, proposal, holder) = (LeaseId::from_bits(1), Fence::default(), "".into());
        let request = Request::Acquire { attempt, proposal, ttl, holder, mode: Mode::EXCLUSIVE, waiter: None };
        match server.serve(&Question::Batch(epoch, vec![("a".into(), Arc::new(request))]), 0).0 {
            Said::Votes(mut votes, _) => votes.remove(0),
            said => panic!("{said:?}"),
        }
    }

    #[test]
    fn a_node_votes_by_its_roster_until_it_is_emptied() {
        let mut server = Server::new(0, Clock::new(1_000_000_000, 0));
        let (member, life, identity) = (MemberId(1), Life(7), server.identity());
        let (max_ttl_millis, max_skew_micros) = (1_000, 0);
        let settings = Settings { max_ttl_millis, max_skew_micros, key_template: "".into(), trusts_restarts: false };
        let first = Roster::of_every_seat(ClusterId(1), 1, vec![(member, "n1".into())], settings, None).unwrap();
        let second = first.successor(&Change::default()).unwrap();
        execute(&mut server, RosterCommand::Identify { identity, member, life, floor_offset: 0 });
        execute(&mut server, RosterCommand::Install(Arc::new(first.clone())));
        let elapsed_micros = first.quarantine_micros();
        let voting = execute(&mut server, RosterCommand::Claim { life, since: 1, elapsed_micros }).unwrap();
        assert!(matches!(ask(&mut server, voting.epoch()), Vote::Grant { .. }));
        execute(&mut server, RosterCommand::Install(Arc::new(second)));
        assert_eq!(ask(&mut server, voting.epoch()), Vote::Refusal(Refusal::NewRoster));
        server.flush();
        assert_eq!(execute(&mut server, RosterCommand::Read), None);
        assert_eq!(ask(&mut server, voting.epoch()), Vote::Refusal(Refusal::WrongEpoch));
    }
}
