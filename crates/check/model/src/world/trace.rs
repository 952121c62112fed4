//! Describes the events of a search as text.

use std::fmt;

use quorlock_core::name::LeaseId;
use quorlock_core::request::Request;
use quorlock_core::vote::Vote;

use super::World;
use super::link::RequestInFlight;
use crate::description;

/// One line of a trace: when an event happened, to which client or node, and the event.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// Milliseconds of real time.
    pub at: f64,
    /// A client or a node.
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
        asker: usize,
        in_flight: &RequestInFlight,
        vote: &Vote,
        is_stray: bool,
    ) {
        if self.trace.is_none() {
            return;
        }
        let whose = match &in_flight.request {
            Request::Break { .. } | Request::Retire { .. } => client_name(asker),
            request => self.attempt_name(request.attempt()),
        };
        let (what, vote) = (
            description::of_request(&in_flight.request, in_flight.is_repeated),
            description::of_vote(&in_flight.request, vote),
        );
        let late = if is_stray { ", from a broken connection" } else { "" };
        self.trace_server(server, || format!("gets {whose}'s {what}{late}: {vote}"));
    }

    pub(super) fn attempt_name(&self, attempt: LeaseId) -> String {
        let named = self.clients.iter().enumerate().find_map(|(index, client)| {
            let serial = client.attempts.iter().position(|other| *other == attempt)?;
            Some(format!("{}{}", client_name(index), serial + 1))
        });
        named.unwrap_or_else(|| "nobody".into())
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
