//! The link between one client and one node: core's delivery, and the network under it.

use std::collections::VecDeque;
use std::sync::Arc;

use quorlock_core::delivery::{Delivery, Release, Told};
use quorlock_core::name::LeaseId;
use quorlock_core::node::Epoch;
use quorlock_core::request::{Parting, Request};
use quorlock_core::rules::Rules;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Handoff, Vote};

use super::client::ttl;

/// A request in flight.
#[derive(Clone, Debug, Hash)]
pub(super) struct Letter {
    pub(super) request: Request,
    pub(super) epoch: Epoch,
    pub(super) sent: Moment,
    /// Whether it repeats an earlier request.
    pub(super) again: bool,
}

/// A message from the node in flight.
#[derive(Clone, Debug, Hash)]
pub(super) enum Message {
    Reply(Box<Reply>),
    /// To a waiter: the lock may be free, or the node has handed its vote over.
    Hint(Option<Handoff>),
    /// To all clients: a lease was broken.
    Broken,
    /// To all clients: the server's memory may have been replaced.
    Changed,
}

/// A reply in flight.
#[derive(Clone, Debug, Hash)]
pub(super) struct Reply {
    pub(super) letter: Letter,
    pub(super) vote: Vote,
    /// The node's epoch after the batch.
    pub(super) epoch: Option<Epoch>,
}

/// A connection after its handshake.
#[derive(Clone, Debug, Hash)]
pub(super) struct Connection {
    pub(super) epoch: Epoch,
    pub(super) is_voting: bool,
    /// While the node is quarantined: the base of claims.
    pub(super) seen: Option<Seen>,
    /// When the last claim was sent, where that matters.
    pub(super) claimed: Option<Moment>,
    /// Whether the server is gone; replies that it has sent may still arrive.
    pub(super) is_dead: bool,
}

/// The part of a quarantine that had passed, as a node reported it at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) elapsed_micros: u64,
    pub(super) at: Moment,
}

impl Seen {
    /// The time that may be claimed at a later moment.
    pub(super) fn claim(self, now: Moment) -> u64 {
        self.elapsed_micros + now.since(self.at).as_micros() as u64
    }

    /// The one of two that allows the higher claim.
    pub(super) fn better(self, other: Self, now: Moment) -> Self {
        if other.claim(now) > self.claim(now) { other } else { self }
    }
}

/// One client's link to one of its addresses: core's delivery, and a network that the search controls.
#[derive(Clone, Debug, Hash)]
pub(super) struct Link {
    pub(super) connection: Option<Connection>,
    /// For each request, whether it repeats an earlier one.
    pub(super) delivery: Delivery<bool>,
    /// Whether requests wait in the queue until the search sends them.
    queues: bool,
    pub(super) out: VecDeque<Letter>,
    pub(super) back: VecDeque<Message>,
    /// Requests of broken connections, which may still arrive.
    pub(super) strays: VecDeque<Letter>,
    /// Attempts that have sent requests here.
    asked: Vec<LeaseId>,
    pub(super) last_sent: Option<Moment>,
    /// The quarantine record of the client's host, which outlives connections.
    pub(super) record: Option<(Epoch, Seen)>,
}

impl Link {
    pub(super) fn new(rules: Rules, queues: bool) -> Self {
        Self {
            connection: None,
            delivery: Delivery::new(rules),
            queues,
            out: VecDeque::new(),
            back: VecDeque::new(),
            strays: VecDeque::new(),
            asked: Vec::new(),
            last_sent: None,
            record: None,
        }
    }

    /// Queues a request for a vote. Returns whether there is a connection for it.
    pub(super) fn ask(&mut self, request: &Request, round: u32, now: Moment) -> bool {
        if !self.connection.as_ref().is_some_and(|connection| connection.is_voting) {
            return false;
        }
        let again = self.asked.contains(&request.attempt());
        if !again {
            self.asked.push(request.attempt());
        }
        self.last_sent = Some(now);
        self.delivery.ask(Arc::new(request.clone()), round, again);
        self.flush(now);
        true
    }

    /// Owes a release from now on, if there is anything to release.
    pub(super) fn release(&mut self, attempt: LeaseId, parting: Option<Parting>, is_plain: bool, now: Moment) {
        if self.asked.contains(&attempt) {
            self.delivery
                .release(Release { attempt, ttl: ttl(), is_plain, parting, is_foreign: false, context: false }, now);
            self.flush(now);
        }
    }

    /// Sends all owed releases again after a handshake.
    pub(super) fn connected(&mut self, connection: Connection, now: Moment) {
        self.delivery.connected(connection.is_voting);
        self.connection = Some(connection);
        self.flush(now);
    }

    fn flush(&mut self, now: Moment) {
        while !self.queues && self.send(now) {}
    }

    /// Sends the next request of the queue. Returns whether there was one.
    pub(super) fn send(&mut self, now: Moment) -> bool {
        let Some(Connection { epoch, .. }) = self.connection else { return false };
        let mut sent = None;
        self.delivery.drain(1, |request, again| sent = Some(((*request).clone(), *again)));
        let Some((request, again)) = sent else { return false };
        self.out.push_back(Letter { request, epoch, sent: now, again });
        true
    }

    /// Ends the connection. Returns the attempts and rounds that will get no reply; requests in flight may still arrive, unless
    /// the server is gone, too.
    pub(super) fn cut(&mut self, may_arrive: bool) -> Vec<Told<bool>> {
        self.connection = None;
        self.back.clear();
        let letters = std::mem::take(&mut self.out);
        if may_arrive {
            self.strays.extend(letters);
        }
        self.delivery.lost()
    }

    /// Whether a request of its attempt may still arrive from a broken connection.
    pub(super) fn is_stray(&self, letter: &Letter) -> bool {
        self.strays.iter().any(|stray| stray.request.attempt() == letter.request.attempt())
    }

    /// The number of attempts that it remembers.
    pub(super) fn known(&self) -> usize {
        self.asked.len()
    }

    /// Forgets attempts that are over and owe no release.
    pub(super) fn forget(&mut self, current: Option<LeaseId>) {
        let delivery = &self.delivery;
        self.asked.retain(|attempt| Some(*attempt) == current || delivery.owes(*attempt));
    }

    /// Whether nothing is in flight and no release is owed.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle = self.out.is_empty() && self.back.is_empty() && self.strays.is_empty();
        is_idle && self.delivery.owed() == 0 && self.delivery.queued() == 0
    }
}
