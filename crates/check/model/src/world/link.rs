//! What is under way between one client and one node, and what the client still owes there.

use std::collections::VecDeque;

use quorlock_core::name::LeaseId;
use quorlock_core::node::Epoch;
use quorlock_core::ticket::{Handoff, Parting};
use quorlock_core::time::Moment;
use quorlock_core::vote::{Request, Vote};

use crate::setup::{Flaw, Setup, TTL};

/// A request on its way.
#[derive(Clone, Debug, Hash)]
pub(super) struct Letter {
    pub(super) request: Request,
    pub(super) epoch: Epoch,
    pub(super) sent: Moment,
    pub(super) round: u32,
    /// Whether it asks for more of what was asked before.
    pub(super) again: bool,
}

/// What is on its way back.
#[derive(Clone, Debug, Hash)]
pub(super) enum Message {
    Reply(Box<Reply>),
    /// To one who waits: it may be free, or the node has given it its vote.
    Hint(Option<Handoff>),
    /// To everybody: a lease was broken.
    Broken,
    /// To everybody: the server's memory may have been replaced.
    Changed,
}

/// An answer on its way.
#[derive(Clone, Debug, Hash)]
pub(super) struct Reply {
    pub(super) letter: Letter,
    pub(super) vote: Vote,
    /// The node's epoch after the batch.
    pub(super) epoch: Option<Epoch>,
}

/// A connection that has shaken hands.
#[derive(Clone, Debug, Hash)]
pub(super) struct Connection {
    pub(super) epoch: Epoch,
    pub(super) is_voting: bool,
    /// While the node is quarantined: the number to claim from.
    pub(super) seen: Option<Seen>,
    /// When something was claimed last, where that matters.
    pub(super) claimed: Option<Moment>,
    /// The server is gone: answers that had left it may still come.
    pub(super) is_dead: bool,
}

/// How much of a quarantine had passed, as a node reported it at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) elapsed_micros: u64,
    pub(super) at: Moment,
}

impl Seen {
    /// What may be claimed at a later moment.
    pub(super) fn claim(self, now: Moment) -> u64 {
        self.elapsed_micros + now.since(self.at).as_micros() as u64
    }

    /// The one of two that allows the higher claim.
    pub(super) fn better(self, other: Self, now: Moment) -> Self {
        if other.claim(now) > self.claim(now) { other } else { self }
    }
}

/// A release that has not been acknowledged.
#[derive(Clone, Debug, Hash)]
pub(super) struct Owed {
    pub(super) attempt: LeaseId,
    parting: Option<Parting>,
    is_plain: bool,
    tried: bool,
}

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Link {
    pub(super) connection: Option<Connection>,
    pub(super) out: VecDeque<Letter>,
    pub(super) back: VecDeque<Message>,
    /// What broken connections had under way: it may still arrive.
    pub(super) strays: VecDeque<Letter>,
    pub(super) owed: Vec<Owed>,
    /// Attempts of which something was sent here.
    asked: Vec<LeaseId>,
    /// Attempts of which something was under way when a connection broke.
    stray: Vec<LeaseId>,
    pub(super) last_sent: Option<Moment>,
    /// What the client's host has recorded of a quarantine: it outlives connections.
    pub(super) record: Option<(Epoch, Seen)>,
}

impl Link {
    /// Sends a request that wants a vote. Whether there is a connection that can take it.
    pub(super) fn ask(&mut self, request: &Request, round: u32, now: Moment) -> bool {
        let Some(connection) = self.connection.as_ref().filter(|connection| connection.is_voting) else { return false };
        let (epoch, attempt) = (connection.epoch, request.attempt());
        let again = self.asked.contains(&attempt);
        if !again {
            self.asked.push(attempt);
        }
        self.last_sent = Some(now);
        self.out.push_back(Letter { request: request.clone(), epoch, sent: now, round, again });
        true
    }

    /// Owes a release from now on, if there is anything to release.
    pub(super) fn release(
        &mut self,
        setup: &Setup,
        attempt: LeaseId,
        parting: Option<Parting>,
        is_plain: bool,
        now: Moment,
    ) {
        if self.asked.contains(&attempt) {
            self.owed.retain(|owed| owed.attempt != attempt);
            self.owed.push(Owed { attempt, parting, is_plain, tried: false });
            self.send_owed(setup, attempt, now);
        }
    }

    /// Sends everything that is owed once more.
    pub(super) fn owe_again(&mut self, setup: &Setup, now: Moment) {
        let owed: Vec<LeaseId> = self.owed.iter().map(|owed| owed.attempt).collect();
        for attempt in owed {
            self.send_owed(setup, attempt, now);
        }
    }

    fn send_owed(&mut self, setup: &Setup, attempt: LeaseId, now: Moment) {
        let Some(connection) = &self.connection else { return };
        let Some(owed) = self.owed.iter_mut().find(|owed| owed.attempt == attempt) else { return };
        let request = if owed.is_plain {
            Request::PlainRelease { attempt }
        } else {
            let unyielded = owed.tried && matches!(owed.parting, Some(Parting::Yield(_)));
            let is_noted = (self.stray.contains(&attempt) || unyielded) && !setup.lacks(Flaw::NoTombstone);
            let tombstone = is_noted.then_some(2 * TTL.as_millis() as u64);
            let parting = owed.parting.filter(|_| !unyielded);
            Request::Release { attempt, tombstone, parting }
        };
        owed.tried = true;
        self.out.push_back(Letter { request, epoch: connection.epoch, sent: now, round: 0, again: false });
    }

    /// The release was acknowledged.
    pub(super) fn settle(&mut self, attempt: LeaseId) {
        self.owed.retain(|owed| owed.attempt != attempt);
    }

    /// The connection is gone. Returns the requests that will not be answered; those that had not arrived may do so yet,
    /// unless the server is gone, too.
    pub(super) fn cut(&mut self, may_arrive: bool) -> Vec<Letter> {
        self.connection = None;
        let replies = std::mem::take(&mut self.back).into_iter().filter_map(|message| match message {
            Message::Reply(reply) => Some(reply.letter),
            Message::Hint(_) | Message::Broken | Message::Changed => None,
        });
        let letters = std::mem::take(&mut self.out);
        let unanswered: Vec<Letter> =
            replies.chain(letters.iter().cloned()).filter(|letter| letter.request.may_grant()).collect();
        for letter in &unanswered {
            let attempt = letter.request.attempt();
            if !self.stray.contains(&attempt) {
                self.stray.push(attempt);
            }
        }
        if may_arrive {
            self.strays.extend(letters);
        }
        unanswered
    }

    /// Whether something of its attempt may still arrive from a broken connection.
    pub(super) fn is_stray(&self, letter: &Letter) -> bool {
        self.strays.iter().any(|stray| stray.request.attempt() == letter.request.attempt())
    }

    /// How many attempts it remembers.
    pub(super) fn known(&self) -> usize {
        self.asked.len().max(self.stray.len())
    }

    /// Forgets attempts that are over and owe nothing.
    pub(super) fn forget(&mut self, current: Option<LeaseId>) {
        let owed = &self.owed;
        let matters = |attempt: &LeaseId| Some(*attempt) == current || owed.iter().any(|owed| owed.attempt == *attempt);
        self.asked.retain(matters);
        self.stray.retain(matters);
    }

    /// Whether nothing is under way and nothing is owed.
    pub(super) fn is_quiet(&self) -> bool {
        self.out.is_empty() && self.back.is_empty() && self.strays.is_empty() && self.owed.is_empty()
    }
}
