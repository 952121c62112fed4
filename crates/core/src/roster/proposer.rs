//! One proposal: a ballot, from the first promise to the last installation.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::node::roster::{
    Ballot, ClusterId, Electorate, Membership, Promise, Proposal, Roster, RosterAnswer, RosterCommand, Settings,
};
use crate::quorum::MemberId;

/// The state machine that decides about one generation.
///
/// It may stop at any point: a later proposer finds what was accepted and finishes it. Its driver sends
/// [`command`](Self::command) to each address, in any order, and passes the answers to [`take`](Self::take).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposer {
    promise: Promise,
    goal: Goal,
    /// The progress at each address of the client's list.
    seats: Vec<Seat>,
    /// The accepted proposal with the highest ballot that a promise reported.
    found: Option<Proposal>,
    stage: Stage,
}

/// What a proposer wants, and who decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Goal {
    /// A majority of the members decides. Without a value, the proposer only finishes what it finds.
    Members { base: Arc<Roster>, value: Option<Arc<Roster>> },
    /// Every seat decides.
    Seats { addresses: Vec<Arc<str>>, cluster: ClusterId, settings: Settings, former: Option<Arc<Roster>> },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Seat {
    /// Who promised, or who accepted.
    member: Option<MemberId>,
    is_done: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Promising,
    Accepting(Arc<Roster>),
    Installing(Arc<Roster>),
    Over(End),
}

/// How a proposal ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The roster was decided and installed wherever the driver reached a node.
    Installed(Arc<Roster>),
    /// It was not decided.
    Stopped(Stop),
}

/// Why a proposer stopped before a decision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// A node has installed this generation or a later one: learn it.
    Superseded,
    /// A node has promised a higher ballot: wait, look again, and start with a higher round.
    Outbid {
        /// Its round.
        round: u64,
    },
    /// There was nothing to finish.
    Idle,
    /// Other clients are founding another cluster with some of these nodes.
    OtherFounding(Arc<Roster>),
    /// The seats do not make a valid roster.
    Invalid,
}

impl Proposer {
    /// Creates a proposer among the members of `base`, the settled generation. Without a `value` it only finishes what
    /// it finds. `addresses` is the number of nodes in the client's list.
    pub fn among_members(base: Arc<Roster>, value: Option<Arc<Roster>>, ballot: Ballot, addresses: usize) -> Self {
        let promise = Promise { generation: base.generation + 1, ballot };
        Self::new(promise, Goal::Members { base, value }, addresses)
    }

    /// Creates a proposer that needs every seat; `reports` has one report for each address, in order. Returns `None`
    /// if the addresses are not exactly those of the newest roster that a seat has installed.
    ///
    /// Without a roster it founds the cluster with this id and these settings. Otherwise those of the roster go on.
    pub fn among_seats(
        addresses: Vec<Arc<str>>,
        reports: &[&Membership],
        (cluster, settings): (ClusterId, Settings),
        ballot: Ballot,
    ) -> Option<Self> {
        let former = reports.iter().filter_map(|report| report.roster.as_ref());
        let former = former.max_by_key(|roster| roster.generation).cloned();
        if former.as_ref().is_some_and(|roster| !roster.has_addresses(&addresses)) {
            return None;
        }
        let (cluster, settings) = match &former {
            Some(roster) => (roster.cluster, roster.settings.clone()),
            None => (cluster, settings),
        };
        let promised = reports.iter().filter_map(|report| report.promised).map(|promise| promise.generation);
        let installed = former.as_ref().map_or(0, |roster| roster.generation);
        let generation = promised.chain([installed + 1]).max()?;
        let count = addresses.len();
        let goal = Goal::Seats { addresses, cluster, settings, former };
        Some(Self::new(Promise { generation, ballot }, goal, count))
    }

    fn new(promise: Promise, goal: Goal, addresses: usize) -> Self {
        let seats = alloc::vec![Seat::default(); addresses];
        Self { promise, goal, seats, found: None, stage: Stage::Promising }
    }

    /// Returns the generation to be decided.
    pub fn generation(&self) -> u64 {
        self.promise.generation
    }

    /// Returns whether the proposal needs every seat.
    pub fn needs_every_seat(&self) -> bool {
        matches!(self.goal, Goal::Seats { .. })
    }

    /// Returns the roster that was decided.
    pub fn decided(&self) -> Option<&Arc<Roster>> {
        match &self.stage {
            Stage::Installing(roster) | Stage::Over(End::Installed(roster)) => Some(roster),
            _ => None,
        }
    }

    /// Returns how the proposal ended; `None` while it goes on.
    pub fn end(&self) -> Option<&End> {
        if let Stage::Over(end) = &self.stage { Some(end) } else { None }
    }

    /// Returns the next command for an address; `None` if there is none now. The driver first identifies a node that
    /// has no id.
    pub fn command(&self, address: usize) -> Option<RosterCommand> {
        let seat = self.seats.get(address)?;
        match &self.stage {
            _ if seat.is_done => None,
            Stage::Promising => {
                let electorate = match self.goal {
                    Goal::Members { .. } => Electorate::Members,
                    Goal::Seats { .. } => Electorate::Seats,
                };
                Some(RosterCommand::Promise { promise: self.promise, electorate })
            }
            Stage::Accepting(roster) => {
                let proposal = Proposal { ballot: self.promise.ballot, roster: roster.clone() };
                seat.member.map(|_| RosterCommand::Accept(proposal))
            }
            Stage::Installing(roster) => Some(RosterCommand::Install(roster.clone())),
            Stage::Over(_) => None,
        }
    }

    /// Takes an address's answer to its command.
    pub fn take(&mut self, address: usize, answer: &RosterAnswer) {
        let Some(membership) = &answer.membership else { return };
        if address >= self.seats.len() || self.end().is_some() {
            return;
        }
        if let Stage::Installing(roster) = &self.stage {
            self.seats[address].is_done = true;
            if self.seats.iter().all(|seat| seat.is_done) {
                self.stage = Stage::Over(End::Installed(roster.clone()));
            }
            return;
        }
        if membership.generation() >= self.promise.generation {
            return self.stop(Stop::Superseded);
        }
        if !answer.accepted {
            if let Some(promised) = membership.promised.filter(|promised| *promised > self.promise) {
                self.stop(Stop::Outbid { round: promised.ballot.round });
            }
            return;
        }
        self.seats[address] = Seat { member: membership.member, is_done: true };
        if self.stage == Stage::Promising {
            self.find(membership.accepted.as_ref());
        }
        if self.is_complete() {
            self.go_on();
        }
    }

    /// Stops before the decision, because the driver cannot reach enough nodes, or installs no further.
    pub fn give_up(&mut self) {
        self.stage = match &self.stage {
            Stage::Installing(roster) => Stage::Over(End::Installed(roster.clone())),
            Stage::Over(end) => Stage::Over(end.clone()),
            Stage::Promising | Stage::Accepting(_) => Stage::Over(End::Stopped(Stop::Idle)),
        };
    }

    fn stop(&mut self, stop: Stop) {
        self.stage = Stage::Over(End::Stopped(stop));
    }

    /// Keeps the accepted proposal with the highest ballot.
    fn find(&mut self, accepted: Option<&Proposal>) {
        let this = accepted.filter(|proposal| proposal.roster.generation == self.promise.generation);
        if let Some(proposal) = this.filter(|this| self.found.as_ref().is_none_or(|found| found.ballot < this.ballot)) {
            self.found = Some(proposal.clone());
        }
    }

    /// Returns whether the electorate has done what the stage asks of it.
    fn is_complete(&self) -> bool {
        match &self.goal {
            Goal::Members { base, .. } => {
                let done = self.seats.iter().filter(|seat| seat.is_done).filter_map(|seat| seat.member);
                let mut ids: Vec<MemberId> = done.filter(|id| base.member(*id).is_some()).collect();
                ids.sort_unstable();
                ids.dedup();
                ids.len() >= base.majority()
            }
            Goal::Seats { .. } => self.seats.iter().all(|seat| seat.is_done),
        }
    }

    fn go_on(&mut self) {
        self.stage = match &self.stage {
            Stage::Promising => match self.value() {
                Ok(roster) => Stage::Accepting(roster),
                Err(stop) => Stage::Over(End::Stopped(stop)),
            },
            Stage::Accepting(roster) => {
                self.seats.iter_mut().for_each(|seat| seat.member = None);
                Stage::Installing(roster.clone())
            }
            stage => stage.clone(),
        };
        self.seats.iter_mut().for_each(|seat| seat.is_done = false);
    }

    /// The value to propose: what was found, because it may have been decided, or what the proposer wants.
    fn value(&self) -> Result<Arc<Roster>, Stop> {
        let found = self.found.as_ref().map(|found| found.roster.clone());
        match &self.goal {
            Goal::Members { value, .. } => found.or_else(|| value.clone()).ok_or(Stop::Idle),
            Goal::Seats { addresses, cluster, settings, former } => {
                if let Some(found) = found {
                    let is_ours = former.is_some() || found.has_addresses(addresses);
                    return if is_ours { Ok(found) } else { Err(Stop::OtherFounding(found)) };
                }
                let ids = self.seats.iter().filter_map(|seat| seat.member);
                let seats = ids.zip(addresses.iter().cloned()).collect();
                let (generation, former) = (self.promise.generation, former.as_deref());
                let roster = Roster::of_every_seat(*cluster, generation, seats, settings.clone(), former);
                roster.map(Arc::new).map_err(|_| Stop::Invalid)
            }
        }
    }
}
