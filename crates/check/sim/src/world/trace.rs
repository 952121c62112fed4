//! The trace of a run: its events as text.

use std::collections::BTreeMap;

use quorlock::sim::{Question, Said};
use quorlock_core::name::LeaseId;
use quorlock_core::request::{Parting, Request};
use quorlock_core::vote::Handoff;
use quorlock_model::description;

use super::State;

/// The events of a run as text, if requested.
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
    /// The name of each attempt: its client and its number, for example `A2` for the second attempt of `A`.
    attempt_names: BTreeMap<LeaseId, String>,
}

impl Trace {
    pub(super) fn new(has_trace: bool) -> Self {
        Self { lines: has_trace.then(Vec::new), attempt_names: BTreeMap::new() }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.lines.is_some()
    }

    /// Adds an event of a client or a node. `who` is its name, for example `A` or `n1`.
    pub(crate) fn add(&mut self, now: u64, who: &str, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>10.3} ms  {who:<2} {}", now as f64 / 1e6, what()));
        }
    }

    pub(crate) fn add_of_client(&mut self, now: u64, client: usize, what: impl FnOnce() -> String) {
        self.add(now, &client_name(client), what);
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }

    fn attempt_name(&mut self, client: usize, attempt: LeaseId) -> String {
        let count = self.attempt_names.values().filter(|name| name.starts_with(&client_name(client))).count();
        self.attempt_names.entry(attempt).or_insert_with(|| format!("{}{}", client_name(client), count + 1)).clone()
    }
}

impl State {
    /// Adds a handoff (a node gives its vote to a waiter) to the trace.
    pub(super) fn trace_handoff(&mut self, listener: usize, handoff: Option<Handoff>) {
        let connection = &self.connections[listener];
        let (client, node, now) = (client_name(connection.client), format!("n{}", connection.node + 1), self.now);
        if let Some(Handoff { fence, .. }) = handoff {
            self.trace.add(now, &node, || format!("hands its vote on to {client}, with fence {fence}"));
        }
    }

    /// Adds a node's reply to the trace.
    pub(super) fn trace_reply(&mut self, connection: usize, question: &Question, said: &Said) {
        if self.trace.lines.is_none() {
            return;
        }
        let connection = &self.connections[connection];
        let (client, node) = (client_name(connection.client), format!("n{}", connection.node + 1));
        let connection_text = if connection.is_read_by_client { "" } else { ", from a broken connection" };
        let (index, now) = (connection.client, self.now);
        match (question, said) {
            (Question::Batch(_, messages), Said::Votes(votes, _)) => {
                for ((key, request), vote) in messages.iter().zip(votes) {
                    let sender = match request.attempt() {
                        attempt if attempt == LeaseId::from_bits(0) => client.clone(),
                        attempt => self.trace.attempt_name(index, attempt),
                    };
                    let name = key.trim_start_matches("quorlock:");
                    let (request_text, vote) =
                        (description::describe_request(request, false), description::describe_vote(request, vote));
                    let request_text = request_text + queue_effect(request);
                    self.trace.add(now, &node, || {
                        format!("gets {sender}'s {request_text} for {name}{connection_text}: {vote}")
                    });
                }
            }
            (Question::NodeCommand(node_command), Said::Standing(standing, _)) => {
                let command = format!("{node_command:?}");
                let command = command.split([' ', '{']).next().unwrap_or_default().to_lowercase();
                let state = standing.life.as_ref().map_or("blank", |life| match life.floor {
                    Some(_) => "may vote",
                    None => "in quarantine",
                });
                let refusal = if standing.accepted { "" } else { "refused, " };
                self.trace.add(now, &node, || format!("gets {client}'s {command}{connection_text}: {refusal}{state}"));
            }
            (Question::Roster(command), Said::Roster(answer, _)) => {
                let command = format!("{command:?}");
                let command = command.split([' ', '{', '(']).next().unwrap_or_default().to_lowercase();
                let state = answer.membership.as_ref().map_or("blank".into(), |membership| {
                    let votes = if membership.is_voting() { "may vote" } else { "does not vote" };
                    format!("generation {}, {votes}", membership.generation())
                });
                let refusal = if answer.accepted { "" } else { "refused, " };
                self.trace.add(now, &node, || format!("gets {client}'s {command}{connection_text}: {refusal}{state}"));
            }
            _ => {}
        }
    }
}

/// Describes the effect of a release on the queue position.
fn queue_effect(request: &Request) -> &'static str {
    match request {
        Request::Release { parting: Some(Parting::Leave(_)), .. } => ", which leaves the queue,",
        Request::Release { parting: Some(Parting::Yield(_)), .. } => ", which keeps its queue position,",
        _ => "",
    }
}

pub(crate) fn client_name(client: usize) -> String {
    char::from(b'A' + (client % 26) as u8).to_string()
}
