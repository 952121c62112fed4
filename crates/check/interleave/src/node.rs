//! A node that runs the core's rules and counts the requests of each attempt.

use std::collections::BTreeMap;

use quorlock::sim::{Ear, Question, Said};
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::node::roster::{self, Membership, apply_roster};
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeCommand, NodeTime, Record, apply, attend};
use quorlock_core::request::{Request, Ticket};
use quorlock_core::vote::{Handoff, Refusal, Vote};

/// A message to a node.
pub(crate) enum NodeMessage {
    Connect(u64, Ear),
    Ask(u64, Question),
    HangUp(u64),
    /// All connections break. Messages in flight still arrive.
    CutConnections,
    /// The node's thread ends.
    Stop,
}

/// The numbers of requests that a node got from one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Acquires.
    pub acquires: u32,
    /// Renewals.
    pub renewals: u32,
    /// Releases.
    pub releases: u32,
}

pub(crate) struct Node {
    index: usize,
    life: Option<Incarnation>,
    membership: Option<Membership>,
    records: BTreeMap<String, Record>,
    connections: BTreeMap<u64, Ear>,
    /// The connection on which each client listens for hints.
    listeners: BTreeMap<Channel, u64>,
    pub(crate) request_counts: BTreeMap<LeaseId, RequestCounts>,
}

type Hint = (Channel, Ticket, Option<Handoff>);

impl Node {
    /// A node that has voted for a long time.
    pub(crate) fn new(index: usize, constants: Constants, now: NodeTime) -> Self {
        let mut life = None;
        let init = NodeCommand::Init { identity: identity(index), fresh: Epoch(index as u128 + 1), constants };
        attend(&mut life, &init, now);
        Self {
            index,
            life,
            membership: None,
            records: BTreeMap::new(),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            request_counts: BTreeMap::new(),
        }
    }

    /// Handles a message. Returns `false` after [`NodeMessage::Stop`].
    pub(crate) fn handle(&mut self, message: NodeMessage, now: NodeTime) -> bool {
        match message {
            NodeMessage::Connect(connection, ear) => {
                self.listeners.insert(ear.channel(), connection);
                ear.hear(Said::Open(identity(self.index)));
                self.connections.insert(connection, ear);
            }
            NodeMessage::Ask(connection, question) => self.serve(connection, &question, now),
            NodeMessage::HangUp(connection) => self.remove_connection(connection),
            NodeMessage::CutConnections => {
                for (_, ear) in std::mem::take(&mut self.connections) {
                    ear.hear(Said::End("the connection was cut".into()));
                }
                self.listeners.clear();
            }
            NodeMessage::Stop => return false,
        }
        true
    }

    fn remove_connection(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.listeners.retain(|_, listener| *listener != connection);
    }

    fn serve(&mut self, connection: u64, question: &Question, now: NodeTime) {
        let mut hints = Vec::new();
        let said = match question {
            Question::NodeCommand(node_command) => {
                Said::Standing(Box::new(attend(&mut self.life, node_command, now)), identity(self.index))
            }
            Question::Roster(command) => {
                let answer = apply_roster(&mut self.membership, command, now);
                Said::Roster(Box::new(answer), identity(self.index))
            }
            Question::Note => Said::Noted,
            Question::Other => Said::Nothing,
            Question::Batch(epoch, messages) => {
                let votes = messages.iter().map(|(key, request)| self.vote(*epoch, key, request, now, &mut hints));
                Said::Votes(votes.collect(), now.wall_micros)
            }
        };
        if let Some(ear) = self.connections.get(&connection) {
            ear.hear(said);
        }
        for (channel, ticket, handoff) in hints {
            if let Some(ear) = self.listeners.get(&channel).and_then(|listener| self.connections.get(listener)) {
                ear.hear(Said::Hint(ticket, handoff));
            }
        }
    }

    fn vote(&mut self, epoch: Epoch, key: &str, request: &Request, now: NodeTime, hints: &mut Vec<Hint>) -> Vote {
        let counts = self.request_counts.entry(request.attempt()).or_default();
        match request {
            Request::Acquire { .. } => counts.acquires += 1,
            Request::Renew { .. } => counts.renewals += 1,
            Request::Release { .. } => counts.releases += 1,
            _ => {}
        }
        let record = self.records.entry(key.to_owned()).or_default();
        let has_listener = |channel| self.listeners.contains_key(&channel);
        let answer = match (&self.membership, &self.life) {
            (Some(membership), _) => roster::vote(membership, record, request, epoch, now, has_listener),
            (None, Some(life)) => apply(life, record, request, epoch, now, has_listener),
            (None, None) => Refusal::WrongEpoch.into(),
        };
        hints.extend(answer.hint.map(|hint| (hint.channel, hint.ticket, answer.handoff)));
        answer.vote
    }

    /// Describes the votes and queue positions that are left.
    pub(crate) fn leftovers(&mut self, now: NodeTime) -> Vec<String> {
        let mut leftovers = Vec::new();
        for (key, record) in &mut self.records {
            record.remove_expired(now);
            leftovers.extend(record.vote.iter().map(|vote| format!("a vote of {:?} for {key}", vote.attempt)));
            leftovers.extend(
                record.queue.iter().map(|queued| format!("a queue position of {:?} for {key}", queued.waiter.ticket)),
            );
        }
        leftovers
    }
}

fn identity(index: usize) -> Identity {
    Identity::of_run(format!("run-{index}"))
}
