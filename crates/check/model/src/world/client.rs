//! One client: the core's state machines, and its links.

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::acquire::Acquire;
use quorlock_core::backoff::Retry;
use quorlock_core::fence::Fence;
use quorlock_core::hold::Hold;
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::quorum::{Electors, Quorum};
use quorlock_core::request::Parting;
use quorlock_core::rng::Rng;
use quorlock_core::terms::{Mode, Renewals, Terms};
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::validity;

use super::link::Link;
use crate::setup::{ClientSpec, Flaw, Setup, TTL};

/// A generator of unique small numbers, which are the same in every search. A random delay that is computed from such a
/// number has its shortest length.
#[derive(Clone, Debug, Hash)]
pub(super) struct FixedRng {
    client: u64,
    next: u64,
    /// Whether the generator repeats one number.
    is_constant: bool,
}

impl Rng for FixedRng {
    fn bits(&mut self) -> u64 {
        self.next += u64::from(!self.is_constant);
        self.client << 32 | self.next
    }
}

/// A detached lease, as its winner and its receiver know it.
#[derive(Clone, Debug, Hash)]
pub(super) struct DetachedLease {
    pub(super) attempt: LeaseId,
    pub(super) fence: Fence,
    pub(super) valid_until: Moment,
    /// The winner's state machine, until the winner has repaired the lease on the other nodes.
    pub(super) winner: Option<Hold>,
    /// For each node, when the extension that the node has granted was sent.
    pub(super) extensions_sent: Vec<Option<Moment>>,
    pub(super) extensions_left: u8,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Client {
    /// The state machine of the acquire, until the acquire ends.
    pub(super) machine: Option<Acquire>,
    pub(super) hold: Option<Hold>,
    pub(super) detached_lease: Option<DetachedLease>,
    pub(super) mode: Mode,
    /// What happens to the queue position when the lease is released.
    pub(super) parting: Option<Parting>,
    pub(super) rng: FixedRng,
    pub(super) acquires_left: u8,
    /// All attempts of the client, in order.
    pub(super) attempts: Vec<LeaseId>,
    /// Whether the search has seen the lease expire.
    pub(super) was_seen_expired: bool,
    /// When the latest renewal was sent.
    pub(super) last_renewal: Option<Moment>,
    pub(super) links: Vec<Link>,
}

impl Client {
    pub(super) fn new(setup: &Setup, index: usize) -> Self {
        let spec = &setup.clients[index];
        let client = if setup.has_flaw(Flaw::AttemptShared) { 0 } else { index as u64 };
        let is_constant = setup.has_flaw(Flaw::AttemptReused) || setup.has_flaw(Flaw::AttemptShared);
        Self {
            machine: None,
            hold: None,
            detached_lease: None,
            mode: spec.mode,
            parting: None,
            rng: FixedRng { client: client + 1, next: 0, is_constant },
            acquires_left: spec.acquires,
            attempts: Vec::new(),
            was_seen_expired: false,
            last_renewal: None,
            links: vec![Link::new(setup.rules(), spec.has_send_queue); spec.servers.len()],
        }
    }

    /// The terms of the client's acquires.
    pub(super) fn terms(setup: &Setup, index: usize) -> Terms {
        let spec = &setup.clients[index];
        let renewals = spec.renewal_millis.map_or(Renewals::Off, |every| Renewals::Watchdog {
            every: Some(Duration::from_millis(every)),
            lifetime: Duration::from_secs(60),
        });
        Terms {
            electors: Arc::new(Electors::all(quorum(setup, spec))),
            ttl: ttl(),
            drift: setup.drift().of(ttl()),
            min_validity: Duration::from_millis(1),
            node_deadline: Duration::from_millis(setup.node_deadline_millis),
            retry: Retry::ONCE,
            give_up: None,
            channel: spec.is_waiter.then_some(Channel(index as u128)),
            plain: spec.uses_plain_locks,
            mode: spec.mode,
            holder: "".into(),
            renewals,
            trusting: setup.servers == 1,
            rules: setup.rules(),
        }
    }

    /// Holds the lease that the client has won, or detaches it.
    pub(super) fn start_hold(&mut self, spec: &ClientSpec, mut hold: Hold, now: Moment) {
        (self.mode, self.was_seen_expired) = (hold.terms().mode, false);
        if let (Some(extensions), Some(fence)) = (spec.detached_extensions, hold.fence()) {
            let (attempt, valid_until) = (hold.attempt(), hold.valid_until());
            let extensions_sent = vec![None; spec.servers.len()];
            let winner = (hold.detach(now) && spec.repair_receiver.is_some()).then_some(hold);
            let extensions_left = extensions;
            self.detached_lease =
                Some(DetachedLease { attempt, fence, valid_until, winner, extensions_sent, extensions_left });
        } else {
            self.hold = Some(hold);
        }
    }

    /// Whether the client's lease is valid, by the client's own clock.
    pub(super) fn is_valid(&self, now: Moment) -> bool {
        let is_hold_valid = self.hold.as_ref().is_some_and(|hold| !hold.validity(now).is_zero());
        is_hold_valid || self.detached_lease.as_ref().is_some_and(|detached| now < detached.valid_until)
    }

    /// Whether the client has a lease, valid or expired, that it has not released.
    pub(super) fn has_lease(&self) -> bool {
        self.hold.is_some() || self.detached_lease.is_some()
    }

    /// Whether the client stores data that no longer affects the future.
    pub(super) fn has_stale_data(&self) -> bool {
        let is_over = self.machine.is_none() && !self.has_lease();
        let needed_attempts = |link: &Link| link.delivery.owed() + usize::from(!is_over);
        let has_stale_attempts = self.links.iter().any(|link| link.attempt_count() > needed_attempts(link));
        has_stale_attempts
            || is_over && (self.was_seen_expired || self.links.iter().any(|link| link.last_sent.is_some()))
    }

    /// Removes data that no longer affects the future.
    pub(super) fn remove_stale_data(&mut self) {
        let is_over = self.machine.is_none() && !self.has_lease();
        let current = self.attempts.last().copied().filter(|_| !is_over);
        self.links.iter_mut().for_each(|link| link.remove_stale_data(current));
        if is_over {
            (self.was_seen_expired, self.last_renewal) = (false, None);
            self.links.iter_mut().for_each(|link| link.last_sent = None);
        }
    }

    /// When the client's next timer fires.
    pub(super) fn next_tick(&self) -> Option<Moment> {
        let acquire = self.machine.as_ref().and_then(Acquire::next_tick);
        acquire.into_iter().chain(self.hold.as_ref().and_then(Hold::next_tick)).min()
    }

    /// When the client's detached lease ends.
    pub(super) fn detached_end(&self) -> Option<Moment> {
        self.detached_lease.as_ref().map(|detached| detached.valid_until)
    }
}

impl DetachedLease {
    /// Records that a node has granted an extension that was sent at `sent`.
    pub(super) fn record_extension(&mut self, setup: &Setup, spec: &ClientSpec, node: usize, sent: Moment) {
        self.extensions_sent[node] = self.extensions_sent[node].max(Some(sent));
        let sends = self.extensions_sent.iter().flatten().copied();
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
    let nodes = if setup.has_flaw(Flaw::ReachableMajority) { spec.reachable.len() } else { spec.servers.len() };
    Quorum::new(nodes).expect("a number of nodes that can decide")
}
