//! Describes the events of a search as text.

use std::fmt;

use quorlock_core::name::LeaseId;
use quorlock_core::request::Request;
use quorlock_core::vote::Vote;

use super::World;
use super::link::RequestInFlight;
use crate::description;

/// One line of a trace: when an event happened, at which client or node, and the event.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// The time of the event, in milliseconds of the model's true time, not by the clock of a client or a node.
    pub at: f64,
    /// The name of the client or node, for example `A` or `n1`.
    pub who: String,
    /// The event.
    pub what: String,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.1} ms  {:<2} {}", self.at, self.who, self.what)
    }
}

impl World {
    pub(super) fn trace_client(&mut self, index: usize, what: impl FnOnce() -> String) {
        if self.trace.is_some() {
            self.add_to_trace(client_name(index), what());
        }
    }

    pub(super) fn trace_server(&mut self, server: usize, what: impl FnOnce() -> String) {
        if self.trace.is_some() {
            self.add_to_trace(server_name(server), what());
        }
    }

    fn add_to_trace(&mut self, who: String, what: String) {
        let at = self.now as f64 / 1_000.0;
        if let Some(trace) = &mut self.trace {
            trace.push(TraceLine { at, who, what });
        }
    }

    /// Adds a node's vote on a request to the trace.
    pub(super) fn trace_vote(
        &mut self,
        server: usize,
        client: usize,
        in_flight: &RequestInFlight,
        vote: &Vote,
        is_stray: bool,
    ) {
        if self.trace.is_none() {
            return;
        }
        let sender = match &in_flight.request {
            Request::Break { .. } | Request::Retire { .. } => client_name(client),
            request => self.attempt_name(request.attempt()),
        };
        let (request, vote) = (
            description::describe_request(&in_flight.request, in_flight.is_repeated),
            description::describe_vote(&in_flight.request, vote),
        );
        let connection = if is_stray { ", from a broken connection" } else { "" };
        self.trace_server(server, || format!("gets {sender}'s {request}{connection}: {vote}"));
    }

    /// The name of an attempt: its client and its number, for example `A2` for the second attempt of `A`.
    pub(super) fn attempt_name(&self, attempt: LeaseId) -> String {
        let name = self.clients.iter().enumerate().find_map(|(index, client)| {
            let serial = client.attempts.iter().position(|other| *other == attempt)?;
            Some(format!("{}{}", client_name(index), serial + 1))
        });
        name.unwrap_or_else(|| "nobody".into())
    }
}

pub(super) fn client_name(index: usize) -> String {
    char::from(b'A' + index as u8).to_string()
}

pub(super) fn server_name(server: usize) -> String {
    format!("n{}", server + 1)
}

pub(super) fn server_names(servers: impl IntoIterator<Item = usize>) -> String {
    servers.into_iter().map(server_name).collect::<Vec<_>>().join(", ")
}
