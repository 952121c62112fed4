//! Records all leases of a run, and checks the guarantees about leases and fences.

mod store;

use std::collections::{BTreeMap, BTreeSet};

use quorlock::peek::Peek;
use quorlock::{Fence, LeaseId};
use quorlock_core::request::{Request, Ticket};

use crate::world::Trace;
pub(crate) use store::Store;

/// A violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two valid leases exclude each other.
    TwoHolders,
    /// A fence is not higher than all earlier fences.
    FenceOrder,
    /// A lost lease is valid again.
    LostLeaseRevived,
    /// A store that checks fences accepted writes with the same fence from two holders.
    StoreCorrupted,
    /// An owner acquired the name after a majority had acknowledged the owner's retirement, or holds the name for more
    /// than a ttl after this acknowledgement.
    RetiredOwnerHolds,
    /// A node refused an owner as retired, although the owner was not retired from this name.
    WronglyRetired,
    /// Closed clients left votes or queue positions behind.
    LeftBehind(Vec<String>),
    /// A waiter is never served, although all faults are over.
    WaiterStarved(String),
    /// A client sends requests without end.
    EndlessRequests,
    /// The code panicked.
    Panicked(String),
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TwoHolders => f.write_str("two holders"),
            Self::FenceOrder => f.write_str("fence out of order"),
            Self::LostLeaseRevived => f.write_str("a lost lease is valid again"),
            Self::StoreCorrupted => f.write_str("a store that checks fences is corrupted"),
            Self::RetiredOwnerHolds => f.write_str("a retired owner holds"),
            Self::WronglyRetired => f.write_str("refused as retired without a retirement"),
            Self::LeftBehind(what) => write!(f, "left behind: {}", what.join(", ")),
            Self::WaiterStarved(who) => write!(f, "never served: {who}"),
            Self::EndlessRequests => f.write_str("sends requests without end"),
            Self::Panicked(why) => write!(f, "panicked: {why}"),
        }
    }
}

/// The kind of a lease, which decides which other leases it excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseKind {
    /// A lease of an exclusive, plain or write lock.
    Alone,
    Reader,
    /// A lease of a reentrant lock, with bits that identify the owner.
    Owner(u64),
    Slot(u32),
}

impl LeaseKind {
    /// Whether two leases of these kinds may not be valid at the same time.
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Reader, Self::Reader) => false,
            (Self::Owner(one), Self::Owner(other)) => one != other,
            (Self::Slot(one), Self::Slot(other)) => one == other,
            _ => true,
        }
    }
}

/// What happened in a run, or in several runs, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acquired leases.
    pub leases: u64,
    /// Pairs of leases that exclude each other and were valid at the same time.
    pub overlaps: u64,
    /// Writes that a store with fence checks accepted.
    pub accepted_writes: u64,
    /// Late writes that the store refused.
    pub refused_writes: u64,
    /// Runs that ended early, because a majority of the nodes had forgotten the cluster, and only an operator can
    /// initialize the cluster again.
    pub ended_early: u64,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.leases += other.leases;
        self.overlaps += other.overlaps;
        self.accepted_writes += other.accepted_writes;
        self.refused_writes += other.refused_writes;
        self.ended_early += other.ended_early;
    }
}

/// All leases of a run.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Whether a fault of the run breaks an assumption.
    is_beyond_assumptions: bool,
    leases: Vec<LeaseRecord>,
    /// The leases that are valid or may become valid.
    watched_leases: Vec<usize>,
    /// The pairs of leases that overlapped, so that each pair is counted once.
    overlaps: BTreeSet<(usize, usize)>,
    /// The client of each attempt.
    attempts: BTreeMap<LeaseId, usize>,
    /// Attempts whose votes may be left on nodes.
    excused_attempts: BTreeSet<LeaseId>,
    /// Tickets whose queue positions may be left on nodes.
    excused_tickets: BTreeSet<Ticket>,
    killed_clients: BTreeSet<usize>,
    /// The stores that the leases protect, by name and, for a semaphore, by slot.
    stores: BTreeMap<(String, Option<u32>), Store>,
    retirement: Option<Retirement>,
    pub(crate) violation: Option<Violation>,
    pub(crate) counts: Counts,
}

/// The retirement of an owner from a name. Times are virtual times in nanoseconds.
struct Retirement {
    name: String,
    owner: LeaseKind,
    /// When a majority had acknowledged the retirement, and when the owner's current leases must have ended.
    acknowledged: Option<(u64, u64)>,
    /// The time until which all nodes that acknowledged the retirement refuse the owner.
    refused_until: u64,
}

struct LeaseRecord {
    name: String,
    kind: LeaseKind,
    client: usize,
    validity: ValiditySource,
    /// When the client requested the lease.
    requested_at: u64,
    fence: Option<Fence>,
    /// When the ledger found that the lease was over.
    over_since: Option<u64>,
}

/// The source of a lease's validity.
enum ValiditySource {
    /// The client has the lease's guard.
    Guard(Peek),
    /// The lease is detached. It ends when the boot-time clock or the wall clock of the client shows its reading of
    /// `until`.
    Detached { client: usize, until: (u64, u64) },
}

/// The facts about a new lease.
pub(crate) struct Grant {
    pub(crate) name: String,
    pub(crate) kind: LeaseKind,
    pub(crate) client: usize,
    pub(crate) requested_at: u64,
    pub(crate) fence: Option<Fence>,
    pub(crate) peek: Peek,
}

impl Ledger {
    pub(crate) fn new(is_beyond_assumptions: bool) -> Self {
        Self { is_beyond_assumptions, ..Self::default() }
    }

    pub(crate) fn record_attempt(&mut self, client: usize, attempt: LeaseId) {
        self.attempts.entry(attempt).or_insert(client);
    }

    /// Whether a client should have released the votes of this attempt.
    pub(crate) fn must_have_been_released(&self, attempt: LeaseId) -> bool {
        let is_killed = |client: &usize| self.killed_clients.contains(client);
        self.attempts.get(&attempt).is_some_and(|client| !is_killed(client))
            && !self.excused_attempts.contains(&attempt)
    }

    /// Records that this request may leave votes and a queue position on nodes.
    pub(crate) fn excuse_from_release(&mut self, request: &Request) {
        self.excused_attempts.insert(request.attempt());
        if let Request::Acquire { waiter: Some(waiter), .. } = request {
            self.excused_tickets.insert(waiter.ticket);
        }
    }

    /// Whether the queue position of this ticket, with the last request of this attempt, may be left on nodes. A late
    /// request of a detached lease may leave one: the process that releases the lease does not know the ticket.
    pub(crate) fn is_excused(&self, ticket: Ticket, attempt: Option<LeaseId>) -> bool {
        self.excused_tickets.contains(&ticket)
            || attempt.is_some_and(|attempt| self.excused_attempts.contains(&attempt))
    }

    pub(crate) fn kill(&mut self, client: usize) {
        self.killed_clients.insert(client);
    }

    /// Records that a client starts or repeats a retirement.
    pub(crate) fn retire(&mut self, name: String, owner: LeaseKind, refused_until: u64) {
        self.retirement = Some(Retirement { name, owner, acknowledged: None, refused_until });
    }

    /// Records that a majority has acknowledged the retirement. The owner's current leases must end before
    /// `leases_end_by`.
    pub(crate) fn acknowledge_retirement(&mut self, now: u64, leases_end_by: u64) {
        if let Some(retirement) = &mut self.retirement {
            retirement.acknowledged = Some((now, leases_end_by));
        }
    }

    /// Whether the retirement of this owner from this name has started.
    pub(crate) fn is_retired(&self, name: &str, owner: LeaseKind) -> bool {
        self.retirement.as_ref().is_some_and(|retirement| retirement.name == name && retirement.owner == owner)
    }

    /// Whether a lease may overlap with other leases because its owner was retired: the lease may be valid for another
    /// ttl, while the nodes already serve other clients. A lease that was requested when the nodes no longer refused the
    /// owner may not overlap.
    fn may_overlap(&self, name: &str, kind: LeaseKind, requested_at: u64) -> bool {
        self.is_retired(name, kind)
            && self.retirement.as_ref().is_some_and(|retirement| requested_at < retirement.refused_until)
    }

    /// Records a new valid lease.
    pub(crate) fn grant(&mut self, grant: Grant, now: u64) -> usize {
        let Grant { name, kind, client, requested_at, fence, peek } = grant;
        self.counts.leases += 1;
        let is_retired = self.is_retired(&name, kind);
        let active_retirement =
            self.retirement.as_ref().filter(|retirement| is_retired && now < retirement.refused_until);
        let acknowledged = active_retirement.and_then(|retirement| retirement.acknowledged);
        if !self.is_beyond_assumptions
            && acknowledged.is_some_and(|(acknowledged_at, _)| requested_at >= acknowledged_at)
        {
            self.violation.get_or_insert(Violation::RetiredOwnerHolds);
        }
        // All entries that an owner holds at the same time have one fence, and count as requested with the first entry.
        let is_entry_of_same_owner = |other: &&LeaseRecord| {
            matches!(kind, LeaseKind::Owner(_))
                && other.name == name
                && other.kind == kind
                && other.over_since.is_none()
        };
        let entry_times = self.leases.iter().filter(is_entry_of_same_owner).map(|other| other.requested_at);
        let requested_at = entry_times.fold(requested_at, u64::min);
        let may_overlap = self.may_overlap(&name, kind, requested_at);
        let conflicting_leases = || self.leases.iter().filter(|other| other.name == name && other.kind.excludes(kind));
        let has_wrong_order = |other: &LeaseRecord| {
            let (Some(earlier), Some(fence)) = (other.fence, fence) else { return false };
            // Beyond the assumptions, leases may overlap. The earlier fence must then be lower only if its lease ended
            // before the new lease was requested.
            let must_be_lower =
                !self.is_beyond_assumptions || other.over_since.is_some_and(|over_since| over_since <= requested_at);
            fence == earlier || (must_be_lower && fence < earlier)
        };
        if !may_overlap && conflicting_leases().any(has_wrong_order) {
            self.violation.get_or_insert(Violation::FenceOrder);
        }
        let id = self.leases.len();
        let validity = ValiditySource::Guard(peek);
        self.leases.push(LeaseRecord { name, kind, client, validity, requested_at, fence, over_since: None });
        self.watched_leases.push(id);
        id
    }

    /// Records that a lease was detached, or that a detached lease was extended. The lease ends when the boot-time clock
    /// or the wall clock of the client shows its reading of `until`.
    pub(crate) fn record_detached(&mut self, lease: usize, attempt: LeaseId, client: usize, until: (u64, u64)) {
        self.excused_attempts.insert(attempt);
        let record = &mut self.leases[lease];
        (record.validity, record.over_since) = (ValiditySource::Detached { client, until }, None);
        if !self.watched_leases.contains(&lease) {
            self.watched_leases.push(lease);
        }
    }

    /// Checks the guarantees. `clocks` returns the readings of a client's boot-time clock and wall clock.
    pub(crate) fn check_guarantees(&mut self, now: u64, clocks: impl Fn(usize) -> (u64, u64), trace: &mut Trace) {
        let mut valid_leases: Vec<usize> = Vec::new();
        let mut watched_leases = std::mem::take(&mut self.watched_leases);
        watched_leases.retain(|id| {
            let record = &mut self.leases[*id];
            let is_killed = self.killed_clients.contains(&record.client);
            let is_over = |client: usize, until: (u64, u64)| {
                let (reading, wall) = clocks(client);
                reading >= until.0 || wall >= until.1
            };
            let (is_valid, is_gone) = match &record.validity {
                // A killed client no longer acts on its lease.
                ValiditySource::Guard(_) if is_killed => (false, true),
                ValiditySource::Guard(peek) => {
                    let (reading, wall) = clocks(record.client);
                    (!peek.validity(reading, wall).is_zero(), peek.is_gone())
                }
                ValiditySource::Detached { client, until } => (!is_over(*client, *until), is_over(*client, *until)),
            };
            if is_valid && record.over_since.is_some() {
                self.violation.get_or_insert(Violation::LostLeaseRevived);
            }
            if is_valid {
                valid_leases.push(*id);
            } else {
                record.over_since.get_or_insert(now);
            }
            !is_gone
        });
        self.watched_leases = watched_leases;
        if let Some(Retirement { acknowledged: Some((_, leases_end_by)), refused_until, .. }) = &self.retirement
            && (*leases_end_by..*refused_until).contains(&now)
            && !self.is_beyond_assumptions
            && valid_leases.iter().any(|id| self.is_retired(&self.leases[*id].name, self.leases[*id].kind))
        {
            self.violation.get_or_insert(Violation::RetiredOwnerHolds);
        }
        valid_leases.retain(|id| {
            let record = &self.leases[*id];
            !self.may_overlap(&record.name, record.kind, record.requested_at)
        });
        for (at, one) in valid_leases.iter().enumerate() {
            for other in &valid_leases[..at] {
                let (one_lease, other_lease) = (&self.leases[*one], &self.leases[*other]);
                if one_lease.name != other_lease.name || !one_lease.kind.excludes(other_lease.kind) {
                    continue;
                }
                if self.overlaps.insert((*one.min(other), *one.max(other))) {
                    self.counts.overlaps += 1;
                    let (first, second) = (other_lease.client, one_lease.client);
                    let name = one_lease.name.clone();
                    trace.add_of_client(now, second, || {
                        format!("and {} both hold {name}", crate::world::client_name(first))
                    });
                    if !self.is_beyond_assumptions {
                        self.violation.get_or_insert(Violation::TwoHolders);
                    }
                }
            }
        }
    }

    /// Writes to a store that checks fences. Returns whether the store accepts the write.
    pub(crate) fn write(&mut self, lease: usize, fence: Fence) -> bool {
        let record = &self.leases[lease];
        // Each slot has its own store.
        let slot = if let LeaseKind::Slot(slot) = record.kind { Some(slot) } else { None };
        let store = self.stores.entry((record.name.clone(), slot)).or_default();
        let (is_accepted, is_corrupted) = store.write(record.kind, lease, fence);
        if is_corrupted {
            self.violation.get_or_insert(Violation::StoreCorrupted);
        }
        *(if is_accepted { &mut self.counts.accepted_writes } else { &mut self.counts.refused_writes }) += 1;
        is_accepted
    }
}
