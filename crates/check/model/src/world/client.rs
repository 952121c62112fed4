//! One client: the core's state machines, and its links.

use std::time::Duration;

use quorlock_core::acquire::Acquire;
use quorlock_core::backoff::Retry;
use quorlock_core::fence::Fence;
use quorlock_core::hold::{Hold, Won};
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::request::Parting;
use quorlock_core::rng::Rng;
use quorlock_core::terms::{Mode, Quorum, Renewals, Terms};
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::validity;

use super::link::Link;
use crate::setup::{ClientSpec, Flaw, Setup, TTL};

/// Unique numbers, the same in every run. Every delay is the shortest.
#[derive(Clone, Debug, Hash)]
pub(super) struct Thrown {
    who: u64,
    next: u64,
    is_stuck: bool,
}

impl Rng for Thrown {
    fn bits(&mut self) -> u64 {
        self.next += u64::from(!self.is_stuck);
        self.who << 32 | self.next
    }
}

/// A detached lease, and what is known of it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Detached {
    pub(super) attempt: LeaseId,
    pub(super) fence: Fence,
    pub(super) valid_until: Moment,
    /// The winner's state, until it has asked the nodes that had not granted it.
    pub(super) winner: Option<Hold>,
    /// For each node, the send time of the extension that it granted.
    pub(super) acks: Vec<Option<Moment>>,
    pub(super) extensions: u8,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Client {
    pub(super) machine: Option<Acquire>,
    pub(super) hold: Option<Hold>,
    pub(super) detached: Option<Detached>,
    pub(super) mode: Mode,
    pub(super) parting: Option<Parting>,
    pub(super) rng: Thrown,
    pub(super) starts: u8,
    /// All its attempts, in order.
    pub(super) attempts: Vec<LeaseId>,
    /// Whether its lease was seen to be over.
    pub(super) was_over: bool,
    /// When the latest renewal was sent.
    pub(super) renewed: Option<Moment>,
    pub(super) links: Vec<Link>,
}

impl Client {
    pub(super) fn new(setup: &Setup, index: usize) -> Self {
        let spec = &setup.clients[index];
        let who = if setup.lacks(Flaw::AttemptShared) { 0 } else { index as u64 };
        let is_stuck = setup.lacks(Flaw::AttemptReused) || setup.lacks(Flaw::AttemptShared);
        Self {
            machine: None,
            hold: None,
            detached: None,
            mode: spec.mode,
            parting: None,
            rng: Thrown { who: who + 1, next: 0, is_stuck },
            starts: spec.starts,
            attempts: Vec::new(),
            was_over: false,
            renewed: None,
            links: vec![Link::new(setup.rules(), spec.queues); spec.servers.len()],
        }
    }

    /// The terms of its acquires.
    pub(super) fn terms(setup: &Setup, index: usize) -> Terms {
        let spec = &setup.clients[index];
        let renewals = spec.renews.map_or(Renewals::Off, |every| Renewals::Watchdog {
            every: Some(Duration::from_millis(every)),
            lifetime: Duration::from_secs(60),
        });
        Terms {
            quorum: quorum(setup, spec),
            ttl: ttl(),
            drift: setup.drift().of(ttl()),
            min_validity: Duration::from_millis(1),
            node_deadline: Duration::from_millis(setup.node_deadline),
            retry: Retry::ONCE,
            give_up: None,
            channel: spec.waits.then_some(Channel(index as u128)),
            plain: spec.plain,
            mode: spec.mode,
            holder: "".into(),
            renewals,
            trusting: setup.servers == 1,
            rules: setup.rules(),
        }
    }

    /// Holds the lease that was won.
    pub(super) fn keep(&mut self, spec: &ClientSpec, terms: Terms, won: Won, now: Moment) {
        (self.mode, self.was_over) = (won.mode, false);
        self.parting = won.waiter.map(Parting::Leave);
        if let (Some(extensions), Some(fence)) = (spec.hands_over, won.fence) {
            let (attempt, valid_until) = (won.attempt, won.valid_until);
            let acks = vec![None; spec.servers.len()];
            let mut winner = Hold::new(terms, won, now);
            let winner = (winner.detach(now) && spec.mends_for.is_some()).then_some(winner);
            self.detached = Some(Detached { attempt, fence, valid_until, winner, acks, extensions });
        } else {
            self.hold = Some(Hold::new(terms, won, now));
        }
    }

    /// Whether its lease is valid, by its own clock.
    pub(super) fn is_valid(&self, now: Moment) -> bool {
        let held = self.hold.as_ref().is_some_and(|hold| !hold.validity(now).is_zero());
        held || self.detached.as_ref().is_some_and(|detached| now < detached.valid_until)
    }

    /// Whether it has, or has had, a lease that has not been released.
    pub(super) fn has_lease(&self) -> bool {
        self.hold.is_some() || self.detached.is_some()
    }

    /// Whether there is anything to forget.
    pub(super) fn is_forgetful(&self) -> bool {
        let is_over = self.machine.is_none() && !self.has_lease();
        let owed = |link: &Link| link.delivery.owed() + usize::from(!is_over);
        let is_over_full = self.links.iter().any(|link| link.known() > owed(link));
        is_over_full || is_over && (self.was_over || self.links.iter().any(|link| link.last_sent.is_some()))
    }

    /// Forgets everything that makes no difference any more.
    pub(super) fn forget(&mut self) {
        let is_over = self.machine.is_none() && !self.has_lease();
        let current = self.attempts.last().copied().filter(|_| !is_over);
        self.links.iter_mut().for_each(|link| link.forget(current));
        if is_over {
            (self.was_over, self.renewed) = (false, None);
            self.links.iter_mut().for_each(|link| link.last_sent = None);
        }
    }

    /// When its next timer fires.
    pub(super) fn next_tick(&self) -> Option<Moment> {
        let acquire = self.machine.as_ref().and_then(Acquire::next_tick);
        acquire.into_iter().chain(self.hold.as_ref().and_then(Hold::next_tick)).min()
    }

    /// When its lease ends.
    pub(super) fn end(&self) -> Option<Moment> {
        self.detached.as_ref().map(|detached| detached.valid_until)
    }
}

impl Detached {
    /// Records that a node has extended the vote.
    pub(super) fn take(&mut self, setup: &Setup, spec: &ClientSpec, node: usize, sent: Moment) {
        self.acks[node] = self.acks[node].max(Some(sent));
        let sends = self.acks.iter().flatten().copied();
        if let Some(until) =
            validity::valid_until(sends, quorum(setup, spec).majority(), ttl(), setup.drift().of(ttl()))
        {
            self.valid_until = self.valid_until.max(until);
        }
    }
}

pub(super) fn ttl() -> Ttl {
    Ttl::new(TTL, TTL).expect("within its bounds")
}

fn quorum(setup: &Setup, spec: &ClientSpec) -> Quorum {
    let nodes = if setup.lacks(Flaw::ReachableMajority) { spec.reaches.len() } else { spec.servers.len() };
    Quorum::new(nodes).expect("a number of nodes that can decide")
}
