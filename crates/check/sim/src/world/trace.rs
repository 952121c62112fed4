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
    attempts: BTreeMap<LeaseId, String>,
}

impl Trace {
    pub(super) fn new(has_trace: bool) -> Self {
        Self { lines: has_trace.then(Vec::new), attempts: BTreeMap::new() }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.lines.is_some()
    }

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

    fn name(&mut self, client: usize, attempt: LeaseId) -> String {
        let count = self.attempts.values().filter(|name| name.starts_with(&client_name(client))).count();
        self.attempts.entry(attempt).or_insert_with(|| format!("{}{}", client_name(client), count + 1)).clone()
    }
}

impl State {
    /// Adds a handoff (a node gives its vote to a waiter) to the trace.
    pub(super) fn trace_handoff(&mut self, listener: usize, handoff: Option<Handoff>) {
        let of = &self.connections[listener];
        let (client, node, now) = (client_name(of.client), format!("n{}", of.node + 1), self.now);
        if let Some(Handoff { fence, .. }) = handoff {
            self.trace.add(now, &node, || format!("hands its vote on to {client}, with fence {fence}"));
        }
    }

    /// Adds a node's reply to the trace.
    pub(super) fn trace_reply(&mut self, connection: usize, question: &Question, said: &Said) {
        if self.trace.lines.is_none() {
            return;
        }
        let of = &self.connections[connection];
        let (client, node) = (client_name(of.client), format!("n{}", of.node + 1));
        let late = if of.is_read_by_client { "" } else { ", from a broken connection" };
        let (index, now) = (of.client, self.now);
        match (question, said) {
            (Question::Batch(_, messages), Said::Votes(votes, _)) => {
                for ((key, request), vote) in messages.iter().zip(votes) {
                    let whose = match request.attempt() {
                        attempt if attempt == LeaseId::from_bits(0) => client.clone(),
                        attempt => self.trace.name(index, attempt),
                    };
                    let name = key.trim_start_matches("quorlock:");
                    let (what, vote) = (description::of_request(request, false), description::of_vote(request, vote));
                    let what = what + queue_effect(request);
                    self.trace.add(now, &node, || format!("gets {whose}'s {what} for {name}{late}: {vote}"));
                }
            }
            (Question::NodeCommand(node_command), Said::Standing(standing, _)) => {
                let what = format!("{node_command:?}");
                let what = what.split([' ', '{']).next().unwrap_or_default().to_lowercase();
                let state = standing.life.as_ref().map_or("blank", |life| match life.floor {
                    Some(_) => "may vote",
                    None => "in quarantine",
                });
                let done = if standing.accepted { "" } else { "refused, " };
                self.trace.add(now, &node, || format!("gets {client}'s {what}{late}: {done}{state}"));
            }
            (Question::Roster(command), Said::Roster(answer, _)) => {
                let what = format!("{command:?}");
                let what = what.split([' ', '{', '(']).next().unwrap_or_default().to_lowercase();
                let state = answer.membership.as_ref().map_or("blank".into(), |membership| {
                    let votes = if membership.is_voting() { "may vote" } else { "does not vote" };
                    format!("generation {}, {votes}", membership.generation())
                });
                let done = if answer.accepted { "" } else { "refused, " };
                self.trace.add(now, &node, || format!("gets {client}'s {what}{late}: {done}{state}"));
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
