//! The link between one client and one node: core's delivery, and a network that the search controls.

use std::collections::VecDeque;
use std::sync::Arc;

use quorlock_core::delivery::{Completion, Delivery, Release};
use quorlock_core::name::LeaseId;
use quorlock_core::node::Epoch;
use quorlock_core::request::{Parting, Request};
use quorlock_core::rules::Rules;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Handoff, Vote};

use super::client::ttl;

/// A request in flight.
#[derive(Clone, Debug, Hash)]
pub(super) struct RequestInFlight {
    pub(super) request: Request,
    pub(super) epoch: Epoch,
    pub(super) sent: Moment,
    /// Whether the request repeats an earlier request of its attempt.
    pub(super) is_repeated: bool,
}

/// A message in flight from the node.
#[derive(Clone, Debug, Hash)]
pub(super) enum Message {
    Reply(Box<Reply>),
    /// To a waiter: a hint that the lock may be free, or the handoff of the node's vote.
    Hint(Option<Handoff>),
    /// To all clients: a lease was broken.
    LeaseBroken,
    /// To all clients: the server has loaded other data.
    DataChanged,
}

/// A reply in flight.
#[derive(Clone, Debug, Hash)]
pub(super) struct Reply {
    pub(super) request: RequestInFlight,
    pub(super) vote: Vote,
    /// The node's epoch after it executed the request.
    pub(super) epoch: Option<Epoch>,
}

/// A connection after its handshake.
#[derive(Clone, Debug, Hash)]
pub(super) struct Connection {
    pub(super) epoch: Epoch,
    /// Whether the node may vote, as far as the client knows.
    pub(super) is_voting: bool,
    /// While the node is quarantined: the report from which the client computes how long the quarantine has lasted.
    pub(super) report: Option<ElapsedReport>,
    /// When the client last told the node the elapsed time of the quarantine, if the setup has frequent claims.
    pub(super) last_claim: Option<Moment>,
    /// Whether the server has restarted, which the client has not noticed yet. Messages that the server sent before may
    /// still arrive.
    pub(super) is_dead: bool,
}

/// A node's report of the elapsed time of its quarantine, and when the client received the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ElapsedReport {
    pub(super) elapsed_micros: u64,
    pub(super) at: Moment,
}

impl ElapsedReport {
    /// How long the quarantine has lasted at the moment `now`, according to this report, in microseconds.
    pub(super) fn elapsed_at(self, now: Moment) -> u64 {
        self.elapsed_micros + now.since(self.at).as_micros() as u64
    }

    /// The report according to which the quarantine has lasted longer.
    pub(super) fn longer_of(self, other: Self, now: Moment) -> Self {
        if other.elapsed_at(now) > self.elapsed_at(now) { other } else { self }
    }
}

/// One client's link to one of its addresses.
#[derive(Clone, Debug, Hash)]
pub(super) struct Link {
    pub(super) connection: Option<Connection>,
    /// Core's queue of requests to the node. The `bool` of a request says whether the request repeats an earlier request
    /// of its attempt.
    pub(super) delivery: Delivery<bool>,
    /// Whether requests wait in `delivery` until the search sends them.
    has_send_queue: bool,
    /// Requests in flight to the node.
    pub(super) to_node: VecDeque<RequestInFlight>,
    /// Messages in flight to the client.
    pub(super) to_client: VecDeque<Message>,
    /// Requests of broken connections, which may still arrive.
    pub(super) strays: VecDeque<RequestInFlight>,
    /// Attempts that have sent requests on this link.
    attempts: Vec<LeaseId>,
    /// When the latest request for a vote was queued.
    pub(super) last_sent: Option<Moment>,
    /// The epoch and the report of a quarantined node, which the client's host keeps across connections.
    pub(super) quarantine_record: Option<(Epoch, ElapsedReport)>,
}

impl Link {
    pub(super) fn new(rules: Rules, has_send_queue: bool) -> Self {
        Self {
            connection: None,
            delivery: Delivery::new(rules),
            has_send_queue,
            to_node: VecDeque::new(),
            to_client: VecDeque::new(),
            strays: VecDeque::new(),
            attempts: Vec::new(),
            last_sent: None,
            quarantine_record: None,
        }
    }

    /// Queues a request for a vote. Returns false, and queues nothing, if the client has no connection to a voting node.
    pub(super) fn ask(&mut self, request: &Request, round: u32, now: Moment) -> bool {
        if !self.connection.as_ref().is_some_and(|connection| connection.is_voting) {
            return false;
        }
        let is_repeated = self.attempts.contains(&request.attempt());
        if !is_repeated {
            self.attempts.push(request.attempt());
        }
        self.last_sent = Some(now);
        self.delivery.ask(Arc::new(request.clone()), round, is_repeated);
        self.flush(now);
        true
    }

    /// If the attempt has sent requests on this link, sends a release and owes it until the node acknowledges it.
    pub(super) fn release(&mut self, attempt: LeaseId, parting: Option<Parting>, is_plain: bool, now: Moment) {
        if self.attempts.contains(&attempt) {
            self.delivery
                .release(Release { attempt, ttl: ttl(), is_plain, parting, is_foreign: false, context: false }, now);
            self.flush(now);
        }
    }

    /// Begins a connection after its handshake, and sends all owed releases again.
    pub(super) fn connected(&mut self, connection: Connection, now: Moment) {
        self.delivery.connected(connection.is_voting);
        self.connection = Some(connection);
        self.flush(now);
    }

    fn flush(&mut self, now: Moment) {
        while !self.has_send_queue && self.send(now) {}
    }

    /// Sends the next queued request. Returns whether there was a request.
    pub(super) fn send(&mut self, now: Moment) -> bool {
        let Some(Connection { epoch, .. }) = self.connection else { return false };
        let mut sent = None;
        self.delivery.drain(1, |request, is_repeated| sent = Some(((*request).clone(), *is_repeated)));
        let Some((request, is_repeated)) = sent else { return false };
        self.to_node.push_back(RequestInFlight { request, epoch, sent: now, is_repeated });
        true
    }

    /// Ends the connection. Returns the attempts and rounds that will get no reply. If `requests_may_arrive`, requests
    /// in flight may still arrive.
    pub(super) fn disconnect(&mut self, requests_may_arrive: bool) -> Vec<Completion<bool>> {
        self.connection = None;
        self.to_client.clear();
        let requests = std::mem::take(&mut self.to_node);
        if requests_may_arrive {
            self.strays.extend(requests);
        }
        self.delivery.lost()
    }

    /// Whether a request of the same attempt may still arrive from a broken connection.
    pub(super) fn has_stray_of(&self, in_flight: &RequestInFlight) -> bool {
        self.strays.iter().any(|stray| stray.request.attempt() == in_flight.request.attempt())
    }

    /// The number of attempts that the link remembers.
    pub(super) fn attempt_count(&self) -> usize {
        self.attempts.len()
    }

    /// Forgets all attempts except `current` and those whose release is owed.
    pub(super) fn remove_stale_data(&mut self, current: Option<LeaseId>) {
        let delivery = &self.delivery;
        self.attempts.retain(|attempt| Some(*attempt) == current || delivery.owes(*attempt));
    }

    /// Whether nothing is in flight and no release is owed.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle = self.to_node.is_empty() && self.to_client.is_empty() && self.strays.is_empty();
        is_idle && self.delivery.owed() == 0 && self.delivery.queued() == 0
    }
}
