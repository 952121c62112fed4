//! The roster on a node: what a node stores about its cluster and about itself, and the commands that change it.
//!
//! A node never decides who may vote. It promises, accepts and installs what clients propose; the client side is
//! [`roster`](crate::roster). Accepting a successor changes nothing for locks; installing it starts a new epoch.

mod list;

use alloc::string::String;
use alloc::sync::Arc;

use crate::fence::Fence;
use crate::name::Channel;
use crate::node::answer::Answer;
use crate::node::apply::apply;
use crate::node::record::Record;
use crate::node::restart::{Constants, Epoch, Identity, Incarnation};
use crate::node::time::NodeTime;
use crate::quorum::{Elector, MemberId};
use crate::request::Request;
use crate::vote::Refusal;

pub use list::{Change, ChangeError, ClusterId, Member, Roster, Settings};

/// Identifies one life of a node's memory: random. It stays the same when only the generation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life(pub u64);

/// The number of a roster proposal. Rounds order ballots; random bits make them unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// One above the highest round that the proposer has seen.
    pub round: u64,
    /// 64 random bits.
    pub bits: u64,
}

/// The highest ballot that a node has promised, in the decision about this generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Promise {
    /// The generation to be decided.
    pub generation: u64,
    /// The ballot.
    pub ballot: Ballot,
}

/// A roster that was proposed with a ballot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The ballot.
    pub ballot: Ballot,
    /// The roster of the generation to be decided.
    pub roster: Arc<Roster>,
}

impl Proposal {
    /// Returns the promise that a node must have given to accept this proposal.
    pub fn promise(&self) -> Promise {
        Promise { generation: self.roster.generation, ballot: self.ballot }
    }
}

/// Who decides about a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Electorate {
    /// A majority of the members of the generation before.
    Members,
    /// Every server at the addresses of the roster, with or without memory.
    Seats,
}

/// A quarantine under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quarantine {
    /// The generation that ordered it: [`Member::since`]. Claims name it, because one life may be quarantined twice.
    pub since: u64,
    /// Its length.
    pub micros: u64,
    /// How much of it has certainly passed: the highest number that a client has claimed.
    pub elapsed_micros: u64,
}

/// What a node stores about its cluster and about itself. A blank server stores nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    /// The identity that the server reported for this memory.
    pub identity: Identity,
    /// Which member this node is, or may become. `None` after it left: the id is used up.
    pub member: Option<MemberId>,
    /// The id with which it left, for clients that count the members that have moved to a new generation.
    pub former: Option<MemberId>,
    /// The life of its memory.
    pub life: Life,
    /// The newest roster that it has installed.
    pub roster: Option<Arc<Roster>>,
    /// Whether a client has seen that the installed roster is settled.
    pub is_settled: bool,
    /// The highest promise.
    pub promised: Option<Promise>,
    /// The last proposal that it accepted.
    pub accepted: Option<Proposal>,
    /// The number at or below which it grants no fence; `None` if it must not vote.
    pub floor: Option<Fence>,
    /// The quarantine under way.
    pub quarantine: Option<Quarantine>,
}

/// A command about the roster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RosterCommand {
    /// Returns what the node stores.
    Read,
    /// Gives an id to a node that has none, or that lost its memory. The first command wins, so clients that notice
    /// together read the same id.
    Identify {
        /// The server's identity, as the client read it.
        identity: Identity,
        /// A fresh id.
        member: MemberId,
        /// A fresh life.
        life: Life,
        /// If restarts are trusted: the floor after a restart minus the node's clock, in microseconds.
        floor_offset: i64,
    },
    /// Asks for a promise to accept no lower ballot.
    Promise {
        /// The generation and the ballot.
        promise: Promise,
        /// Who decides.
        electorate: Electorate,
    },
    /// Asks to accept a proposal that the node has promised to consider.
    Accept(Proposal),
    /// Installs a roster that was decided.
    Install(Arc<Roster>),
    /// Records that a client has seen that this generation is settled.
    Settle {
        /// The generation.
        generation: u64,
    },
    /// Claims that this much of a quarantine has passed. Every claim is true by itself, so the node keeps the highest.
    Claim {
        /// The life of the quarantined memory.
        life: Life,
        /// The generation that ordered the quarantine.
        since: u64,
        /// The least time that has passed since that generation was settled.
        elapsed_micros: u64,
    },
}

/// A node's answer to a roster command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RosterAnswer {
    /// Whether the node did what the command says.
    pub accepted: bool,
    /// What the node stores now; `None` if it is blank.
    pub membership: Option<Membership>,
    /// The node's wall clock.
    pub at_micros: u64,
}

/// Applies a roster command atomically.
pub fn apply_roster(stored: &mut Option<Membership>, command: &RosterCommand, now: NodeTime) -> RosterAnswer {
    let accepted = match (command, stored.as_mut()) {
        (RosterCommand::Read, _) => true,
        (RosterCommand::Identify { identity, member, life, floor_offset }, known) => {
            match known {
                Some(membership) => membership.identify(identity, *member, *life, *floor_offset, now),
                None => *stored = Some(Membership::new(identity.clone(), *member, *life)),
            }
            true
        }
        (_, None) => false,
        (RosterCommand::Promise { promise, electorate }, Some(membership)) => membership.promise(*promise, *electorate),
        (RosterCommand::Accept(proposal), Some(membership)) => membership.accept(proposal),
        (RosterCommand::Install(roster), Some(membership)) => membership.install(roster),
        (RosterCommand::Settle { generation }, Some(membership)) => {
            let is_current = membership.generation() == *generation;
            membership.is_settled |= is_current;
            is_current
        }
        (RosterCommand::Claim { life, since, elapsed_micros }, Some(membership)) => {
            membership.claim(*life, *since, *elapsed_micros, now)
        }
    };
    RosterAnswer { accepted, membership: stored.clone(), at_micros: now.wall_micros }
}

/// Applies a request about a name as [`apply`] does. Refuses it with a reason of its own if the node has only installed
/// another roster since: nothing was granted and nothing was lost.
pub fn vote(
    membership: &Membership,
    record: &mut Record,
    request: &Request,
    epoch: Epoch,
    now: NodeTime,
    can_hear: impl FnOnce(Channel) -> bool,
) -> Answer {
    let is_superseded = epoch != membership.epoch() && epoch.life() == membership.life;
    if is_superseded && request.needs_epoch() {
        return Refusal::NewRoster.into();
    }
    apply(&membership.incarnation(), record, request, epoch, now, can_hear)
}

impl Epoch {
    /// Returns the epoch of a node with this life in this generation.
    pub fn of(life: Life, generation: u64) -> Self {
        Self(u128::from(life.0) << 64 | u128::from(generation))
    }

    /// Returns the life of an epoch that [`of`](Self::of) made.
    pub fn life(self) -> Life {
        Life((self.0 >> 64) as u64)
    }

    /// Returns the generation of an epoch that [`of`](Self::of) made.
    pub fn generation(self) -> u64 {
        self.0 as u64
    }
}

impl Membership {
    /// Creates the membership of a blank server.
    pub fn new(identity: Identity, member: MemberId, life: Life) -> Self {
        Self {
            identity,
            member: Some(member),
            former: None,
            life,
            roster: None,
            is_settled: false,
            promised: None,
            accepted: None,
            floor: None,
            quarantine: None,
        }
    }

    /// Returns the installed generation; 0 if there is none.
    pub fn generation(&self) -> u64 {
        self.roster.as_ref().map_or(0, |roster| roster.generation)
    }

    /// Returns this node's entry in the installed roster; `None` if it is no member.
    pub fn seat(&self) -> Option<&Member> {
        self.roster.as_ref()?.member(self.member?)
    }

    /// Returns the current epoch: requests under another one are refused.
    pub fn epoch(&self) -> Epoch {
        Epoch::of(self.life, self.generation())
    }

    /// Returns whether the node may vote.
    pub fn is_voting(&self) -> bool {
        self.floor.is_some() && self.seat().is_some()
    }

    /// Returns who gives this node's votes; `None` if it must not vote.
    pub fn elector(&self) -> Option<Elector> {
        let member = self.member.filter(|_| self.is_voting())?;
        Some(Elector { member, generation: self.generation() })
    }

    /// Returns what the rules for one name need to know about this node.
    pub fn incarnation(&self) -> Incarnation {
        let settings = self.roster.as_ref().map(|roster| &roster.settings);
        Incarnation {
            identity: self.identity.clone(),
            epoch: Some(self.epoch()),
            floor: self.floor.filter(|_| self.seat().is_some()),
            quarantine_micros: self.quarantine.map_or(0, |quarantine| quarantine.micros),
            suspended: false,
            elapsed_micros: self.quarantine.map_or(0, |quarantine| quarantine.elapsed_micros),
            constants: Constants {
                cluster: String::new(),
                nodes: self.roster.as_ref().map_or(0, |roster| roster.members.len()),
                // Tombstones must outlast the leases of earlier settings.
                max_ttl_millis: self.roster.as_ref().map_or(0, |roster| roster.longest_ttl_millis),
                max_skew_micros: settings.map_or(0, |settings| settings.max_skew_micros),
            },
            founders: String::new(),
            restarts: 0,
        }
    }

    /// Takes the fresh id if the id that it has is used up or belongs to a memory that is lost.
    fn identify(&mut self, identity: &Identity, member: MemberId, life: Life, floor_offset: i64, now: NodeTime) {
        if self.identity.is_replaced_by(identity) {
            if self.roster.as_ref().is_some_and(|roster| roster.settings.trusts_restarts) {
                let floor = Fence::new(now.wall_micros.saturating_add_signed(floor_offset));
                self.floor = self.floor.map(|before| before.max(floor));
                (self.identity, self.life) = (identity.clone(), life);
                // The memory may be older than the last promise.
                self.promised = None;
            } else {
                // The roster is only a sign that the server belonged to a cluster.
                let roster = self.roster.take();
                *self = Self { roster, ..Self::new(identity.clone(), member, life) };
            }
        } else if self.member.is_none() {
            (self.member, self.life) = (Some(member), life);
        }
    }

    fn promise(&mut self, promise: Promise, electorate: Electorate) -> bool {
        let may_promise = match electorate {
            Electorate::Members => self.seat().is_some() && promise.generation == self.generation() + 1,
            Electorate::Seats => self.member.is_some() && promise.generation > self.generation(),
        };
        // A repeated request gets the same answer.
        if !may_promise || self.promised.is_some_and(|promised| promised > promise) {
            return false;
        }
        self.promised = Some(promise);
        true
    }

    fn accept(&mut self, proposal: &Proposal) -> bool {
        // A memory that did not give the promise does not know what it had accepted before.
        let is_promised = self.promised == Some(proposal.promise());
        if is_promised {
            self.accepted = Some(proposal.clone());
        }
        is_promised
    }

    fn install(&mut self, roster: &Arc<Roster>) -> bool {
        let known = self.roster.take();
        if let Some(known) = known.as_ref().filter(|known| {
            let is_foreign = known.cluster != roster.cluster && !roster.before.is_empty();
            is_foreign || known.generation >= roster.generation
        }) {
            let is_same = known == roster;
            self.roster = Some(known.clone());
            return is_same;
        }
        let was_member = self.member.filter(|id| known.as_ref().is_some_and(|known| known.member(*id).is_some()));
        let generation = known.filter(|_| was_member.is_some()).map_or(0, |known| known.generation);
        self.promised.take_if(|promised| promised.generation <= roster.generation);
        self.accepted.take_if(|accepted| accepted.roster.generation <= roster.generation);
        self.is_settled = false;
        match self.member.and_then(|id| roster.member(id)) {
            Some(member) if generation < member.since => {
                self.floor = None;
                let (since, micros) = (member.since, roster.quarantine_micros());
                self.quarantine = Some(Quarantine { since, micros, elapsed_micros: 0 });
            }
            Some(_) => {}
            None => {
                if was_member.is_some() {
                    (self.former, self.member) = (was_member, None);
                }
                (self.floor, self.quarantine) = (None, None);
            }
        }
        self.roster = Some(roster.clone());
        true
    }

    fn claim(&mut self, life: Life, since: u64, elapsed_micros: u64, now: NodeTime) -> bool {
        let skew = self.roster.as_ref().map_or(0, |roster| roster.settings.max_skew_micros);
        let Some(quarantine) = self.quarantine.as_mut().filter(|quarantine| quarantine.since == since) else {
            return false;
        };
        if self.life != life {
            return false;
        }
        // The highest claim, not the sum: two clients may have measured the same minute.
        quarantine.elapsed_micros = quarantine.elapsed_micros.max(elapsed_micros);
        if quarantine.elapsed_micros >= quarantine.micros {
            self.quarantine = None;
            self.floor = Some(Fence::new(now.wall_micros.saturating_sub(skew)));
        }
        true
    }
}

#[cfg(test)]
mod tests;
