//! A client: its view of the roster, its state machines, and its proposal.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::acquire::Acquire;
use quorlock_core::backoff::Retry;
use quorlock_core::hold::{Hold, Step};
use quorlock_core::name::LeaseId;
use quorlock_core::node::roster::{Life, Roster};
use quorlock_core::quorum::Electors;
use quorlock_core::request::Request;
use quorlock_core::rng::Rng;
use quorlock_core::roster::{Proposer, View};
use quorlock_core::rules::Rules;
use quorlock_core::terms::{Mode, Renewals, Terms};
use quorlock_core::time::{Drift, Moment, Ttl};
use quorlock_core::vote::Outcome;

use super::electors::{electors, electors_with_leavers};
use super::setup::{Flaw, Setup, TTL_MILLIS};

const TTL: Duration = Duration::from_millis(TTL_MILLIS);

/// The elapsed time of a quarantine that a client has read, and when it read the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QuarantineReading {
    pub(super) server: usize,
    pub(super) since: u64,
    pub(super) elapsed_micros: u64,
    pub(super) position: Moment,
}

/// Gives each acquire of each client its own number.
#[derive(Clone, Copy, Debug, Hash)]
struct SerialRng {
    client: u64,
    acquires: u64,
}

impl Rng for SerialRng {
    fn bits(&mut self) -> u64 {
        self.client << 32 | self.acquires
    }
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Client {
    pub(super) view: View,
    /// Who may vote, in the generation of which the state machines know.
    electors: Option<Arc<Electors>>,
    pub(super) known_generation: u64,
    pub(super) machine: Option<Acquire>,
    pub(super) hold: Option<Hold>,
    /// When the acquire or the last renewal started.
    started: Moment,
    /// For each position of the list, the request that the server has not answered, and its round.
    pub(super) asked: Vec<Option<(u32, Request)>>,
    rng: SerialRng,
    pub(super) proposer: Option<Box<Proposer>>,
    /// For flaws that do not need the answers of all seats: how often the proposer has assumed that a seat agrees.
    pub(super) assumed_agreements: u8,
    pub(super) quarantine_readings: Vec<(Life, QuarantineReading)>,
    pub(super) proposals: u8,
    /// The membership changes that the client has not proposed yet, as bits.
    pub(super) membership_changes: u8,
    /// Whether the client has read two rosters of one generation, and therefore uses neither.
    pub(super) has_read_two_rosters: bool,
}

impl Client {
    /// The client with this index, which believes this roster.
    pub(super) fn new(setup: &Setup, index: usize, roster: Option<Arc<Roster>>) -> Self {
        let spec = &setup.clients[index];
        let mut view = View::new();
        if let Some(roster) = roster {
            view.believe(roster);
        }
        Self {
            electors: electors(setup, &view, spec.list.len()),
            known_generation: view.generation(),
            view,
            machine: None,
            hold: None,
            started: Moment::from_nanos(0),
            asked: vec![None; spec.list.len()],
            rng: SerialRng { client: index as u64 + 1, acquires: 0 },
            proposer: None,
            assumed_agreements: 0,
            quarantine_readings: Vec::new(),
            proposals: spec.proposals,
            membership_changes: ((1_u16 << spec.membership_changes.len()) - 1) as u8,
            has_read_two_rosters: false,
        }
    }

    /// Whether the lease is valid.
    pub(super) fn holds(&self, now: Moment) -> bool {
        self.hold.as_ref().is_some_and(|hold| !hold.validity(now).is_zero())
    }

    /// Who may vote, as the current state machine knows it, or the next one.
    pub(super) fn electors(&self) -> Option<&Electors> {
        let terms = self.hold.as_ref().map(Hold::terms).or(self.machine.as_ref().map(Acquire::terms));
        terms.map(|terms| &terms.electors).or(self.electors.as_ref()).map(|electors| &**electors)
    }

    /// The attempt that the servers know; `None` before the next acquire.
    pub(super) fn attempt(&self) -> Option<LeaseId> {
        self.hold.as_ref().map(Hold::attempt).or(self.machine.as_ref().map(Acquire::attempt))
    }

    /// Whether the client has a request for this position now, or starts an acquire or a renewal.
    pub(super) fn has_request(&self, setup: &Setup, position: usize, now: Moment) -> bool {
        let is_asked = self.asked[position].is_some();
        match (&self.hold, &self.machine) {
            (Some(_), _) => setup.renews && (is_asked || self.started < now),
            (None, Some(_)) => is_asked,
            (None, None) => true,
        }
    }

    /// Starts an acquire or a renewal, if the client has no request for this position.
    pub(super) fn start(&mut self, position: usize, now: Moment) -> Vec<Step> {
        if self.asked[position].is_some() {
            return Vec::new();
        }
        if let Some(hold) = self.hold.as_mut().filter(|_| self.started < now) {
            self.started = now;
            return hold.extend(now).1;
        }
        let (None, None, Some(electors)) = (&self.hold, &self.machine, &self.electors) else { return Vec::new() };
        self.rng.acquires += 1;
        self.started = now;
        let Some(terms) = terms(electors) else { return Vec::new() };
        let machine = self.machine.insert(Acquire::new(terms, &mut self.rng));
        machine.tick(now, None, &mut self.rng)
    }

    /// Takes the outcome of a request.
    pub(super) fn take(&mut self, position: usize, round: u32, outcome: Outcome, now: Moment) -> Vec<Step> {
        match (&mut self.hold, &mut self.machine) {
            (Some(hold), _) => hold.take(round, position, outcome, now, &mut self.rng),
            (None, Some(machine)) => machine.take(machine.attempt(), position, outcome, now, &mut self.rng),
            (None, None) => Vec::new(),
        }
    }

    /// Makes the believed roster known to the state machine.
    pub(super) fn change_roster(&mut self, setup: &Setup, now: Moment) -> Vec<Step> {
        self.known_generation = self.view.generation();
        self.electors = electors(setup, &self.view, self.asked.len());
        let (Some(electors), Some(roster)) = (&self.electors, self.view.roster()) else { return Vec::new() };
        let flaw = if self.hold.is_some() { Flaw::LeaversCountInHold } else { Flaw::LeaversCountInAttempt };
        let electors = if setup.has_flaw(flaw) { &electors_with_leavers(self.asked.len(), roster) } else { electors };
        match (&mut self.hold, &mut self.machine) {
            (Some(hold), _) => hold.change_roster(electors, now, &mut self.rng),
            (None, Some(machine)) => machine.change_roster(electors, now, &mut self.rng),
            (None, None) => Vec::new(),
        }
    }

    /// Ends an acquire after its ttl, and the last renewal. A caller may give up at any time, and the lease ends anyway.
    pub(super) fn pass_time(&mut self, now: Moment) -> Vec<Step> {
        if let Some(hold) = &mut self.hold {
            return hold.tick(now, &mut self.rng);
        }
        if self.machine.is_some() && now >= self.started + TTL {
            self.machine = None;
            self.asked.fill(None);
        }
        Vec::new()
    }
}

/// The terms of every acquire. Time passes in longer steps than the node deadline, and acquires get no timer calls.
fn terms(electors: &Arc<Electors>) -> Option<Terms> {
    let ttl = Ttl::new(TTL, Duration::MAX).ok()?;
    Some(Terms {
        electors: electors.clone(),
        ttl,
        drift: Drift::SLEWING.of(ttl),
        min_validity: Duration::ZERO,
        node_deadline: TTL / 4,
        retry: Retry::ONCE,
        give_up: None,
        channel: None,
        plain: false,
        mode: Mode::EXCLUSIVE,
        holder: "".into(),
        renewals: Renewals::Off,
        trusting: false,
        rules: Rules::default(),
    })
}
