//! Records every lease, and checks the guarantees.

mod store;

use std::collections::{BTreeMap, BTreeSet};

use quorlock::peek::Peek;
use quorlock::{Fence, LeaseId};
use quorlock_core::request::{Request, Ticket};

use crate::world::Story;
pub(crate) use store::Store;

/// A violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Two valid leases exclude each other.
    TwoHolders,
    /// A fence is not higher than all earlier ones.
    FenceOrder,
    /// A lost lease is valid again.
    Revived,
    /// A store that checks fences accepted the writes of two holders as those of one.
    Corrupted,
    /// An owner holds a name that it was retired from: it asked after a majority had acknowledged the retirement, or
    /// holds for more than a ttl longer.
    Unretired,
    /// A client was refused as retired, but was not retired from this name.
    Misretired,
    /// Clients that have closed left votes or queue positions behind.
    Leaked(Vec<String>),
    /// A waiter is never served, although there are no faults any more.
    Starved(String),
    /// A client sends requests without end.
    Restless,
    /// The code panicked.
    Panicked(String),
}

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TwoHolders => f.write_str("two holders"),
            Self::FenceOrder => f.write_str("fence out of order"),
            Self::Revived => f.write_str("a lost lease is valid again"),
            Self::Corrupted => f.write_str("a store that checks fences is corrupted"),
            Self::Unretired => f.write_str("a retired owner holds"),
            Self::Misretired => f.write_str("refused as retired without being so"),
            Self::Leaked(what) => write!(f, "left behind: {}", what.join(", ")),
            Self::Starved(who) => write!(f, "never served: {who}"),
            Self::Restless => f.write_str("asks without end"),
            Self::Panicked(why) => write!(f, "panicked: {why}"),
        }
    }
}

/// How a lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Alone,
    Reader,
    Owner(u64),
    Slot(u32),
}

impl Hold {
    /// Whether two may not hold at the same time.
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Reader, Self::Reader) => false,
            (Self::Owner(one), Self::Owner(other)) => one != other,
            (Self::Slot(one), Self::Slot(other)) => one == other,
            _ => true,
        }
    }
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acquired leases.
    pub leases: u64,
    /// Pairs of leases that exclude each other and were valid at the same time.
    pub overlaps: u64,
    /// Writes that a store with fence checks accepted.
    pub writes: u64,
    /// Writes that it refused, because they came too late.
    pub refused: u64,
    /// Runs that ended early, because a majority of the nodes had forgotten their cluster and only an operator can
    /// initialize it.
    pub forgotten: u64,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.leases += other.leases;
        self.overlaps += other.overlaps;
        self.writes += other.writes;
        self.refused += other.refused;
        self.forgotten += other.forgotten;
    }
}

/// All leases of a run.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Whether a fault breaks an assumption.
    is_beyond: bool,
    leases: Vec<Leased>,
    /// The leases that are, or may become, valid.
    watched: Vec<usize>,
    overlaps: BTreeSet<(usize, usize)>,
    /// The client of each attempt.
    attempts: BTreeMap<LeaseId, usize>,
    /// Attempts that no client has to release.
    excused: BTreeSet<LeaseId>,
    excused_places: BTreeSet<Ticket>,
    killed: BTreeSet<usize>,
    stores: BTreeMap<(String, Option<u32>), Store>,
    retirement: Option<Retirement>,
    pub(crate) breach: Option<Breach>,
    pub(crate) counts: Counts,
}

/// The retirement of an owner from a name. Times are real, in nanoseconds.
struct Retirement {
    name: String,
    hold: Hold,
    /// When a majority had acknowledged it, and the latest end of the owner's leases at that time.
    acknowledged: Option<(u64, u64)>,
    /// The nodes refuse the owner at least until this time.
    until: u64,
}

struct Leased {
    name: String,
    hold: Hold,
    client: usize,
    seen: Seen,
    /// When it was requested.
    asked: u64,
    fence: Option<Fence>,
    /// When it was found to be over.
    over: Option<u64>,
}

/// The source of a lease's validity.
enum Seen {
    Guard(Peek),
    /// It is detached, and valid until these readings of this client's clocks.
    Detached {
        client: usize,
        until: (u64, u64),
    },
}

/// The facts about a new lease.
pub(crate) struct Grant {
    pub(crate) name: String,
    pub(crate) hold: Hold,
    pub(crate) client: usize,
    pub(crate) asked: u64,
    pub(crate) fence: Option<Fence>,
    pub(crate) peek: Peek,
}

impl Ledger {
    pub(crate) fn new(is_beyond: bool) -> Self {
        Self { is_beyond, ..Self::default() }
    }

    pub(crate) fn note_attempt(&mut self, client: usize, attempt: LeaseId) {
        self.attempts.entry(attempt).or_insert(client);
    }

    /// Whether a vote of this attempt should have been released.
    pub(crate) fn is_leaked(&self, attempt: LeaseId) -> bool {
        let is_killed = |client: &usize| self.killed.contains(client);
        self.attempts.get(&attempt).is_some_and(|client| !is_killed(client)) && !self.excused.contains(&attempt)
    }

    /// Records that no client has to release the result of this request.
    pub(crate) fn excuse(&mut self, request: &Request) {
        self.excused.insert(request.attempt());
        if let Request::Acquire { waiter: Some(waiter), .. } = request {
            self.excused_places.insert(waiter.ticket);
        }
    }

    /// Whether no client has to release this queue position.
    pub(crate) fn is_excused(&self, ticket: Ticket) -> bool {
        self.excused_places.contains(&ticket)
    }

    pub(crate) fn kill(&mut self, client: usize) {
        self.killed.insert(client);
    }

    /// Records the start of a retirement, or another attempt at it.
    pub(crate) fn retire(&mut self, name: String, hold: Hold, until: u64) {
        self.retirement = Some(Retirement { name, hold, acknowledged: None, until });
    }

    /// Records that a majority has acknowledged it. The owner's leases of that time end by `ends`.
    pub(crate) fn retired(&mut self, now: u64, ends: u64) {
        if let Some(retirement) = &mut self.retirement {
            retirement.acknowledged = Some((now, ends));
        }
    }

    /// Whether this owner was retired from this name, or is being retired.
    pub(crate) fn is_retired(&self, name: &str, hold: Hold) -> bool {
        self.retirement.as_ref().is_some_and(|retirement| retirement.name == name && retirement.hold == hold)
    }

    /// Whether a lease may overlap with others because its owner was retired: such a lease may be valid for another ttl,
    /// and the nodes already serve other clients. A lease that was requested after the nodes let the owner in again is
    /// an ordinary one.
    fn may_overlap(&self, name: &str, hold: Hold, asked: u64) -> bool {
        self.is_retired(name, hold) && self.retirement.as_ref().is_some_and(|retirement| asked < retirement.until)
    }

    /// Records a new valid lease.
    pub(crate) fn grant(&mut self, grant: Grant, now: u64) -> usize {
        let Grant { name, hold, client, asked, fence, peek } = grant;
        self.counts.leases += 1;
        let is_retired = self.is_retired(&name, hold);
        let retired = self.retirement.as_ref().filter(|retirement| is_retired && now < retirement.until);
        let acknowledged = retired.and_then(|retirement| retirement.acknowledged);
        if !self.is_beyond && acknowledged.is_some_and(|(since, _)| asked >= since) {
            self.breach.get_or_insert(Breach::Unretired);
        }
        // Other clients see all entries of an owner as one lease with one fence, which began with the first entry.
        let is_of_owner = |other: &&Leased| {
            matches!(hold, Hold::Owner(_)) && other.name == name && other.hold == hold && other.over.is_none()
        };
        let entered = self.leases.iter().filter(is_of_owner).map(|other| other.asked);
        let asked = entered.fold(asked, u64::min);
        let may_overlap = self.may_overlap(&name, hold, asked);
        let rivals = || self.leases.iter().filter(|other| other.name == name && other.hold.excludes(hold));
        let is_wrong = |other: &Leased| {
            let (Some(earlier), Some(fence)) = (other.fence, fence) else { return false };
            // If leases may overlap, two are ordered only if one was over before the other was requested.
            let is_earlier = !self.is_beyond || other.over.is_some_and(|over| over <= asked);
            fence == earlier || (is_earlier && fence < earlier)
        };
        if !may_overlap && rivals().any(is_wrong) {
            self.breach.get_or_insert(Breach::FenceOrder);
        }
        let id = self.leases.len();
        self.leases.push(Leased { name, hold, client, seen: Seen::Guard(peek), asked, fence, over: None });
        self.watched.push(id);
        id
    }

    /// Records that a lease was detached or extended: it is valid until these readings of this client's clocks.
    pub(crate) fn hand(&mut self, lease: usize, attempt: LeaseId, client: usize, until: (u64, u64)) {
        self.excused.insert(attempt);
        let leased = &mut self.leases[lease];
        (leased.seen, leased.over) = (Seen::Detached { client, until }, None);
        if !self.watched.contains(&lease) {
            self.watched.push(lease);
        }
    }

    /// Checks the guarantees. `clocks` returns each client's boot-time clock and wall clock.
    pub(crate) fn judge(&mut self, now: u64, clocks: impl Fn(usize) -> (u64, u64), story: &mut Story) {
        let mut valid: Vec<usize> = Vec::new();
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|id| {
            let leased = &mut self.leases[*id];
            let is_killed = self.killed.contains(&leased.client);
            let is_over = |client: usize, until: (u64, u64)| {
                let (says, wall) = clocks(client);
                says >= until.0 || wall >= until.1
            };
            let (is_valid, is_gone) = match &leased.seen {
                // Its process is dead and no longer acts on it.
                Seen::Guard(_) if is_killed => (false, true),
                Seen::Guard(peek) => {
                    let (says, wall) = clocks(leased.client);
                    (!peek.validity(says, wall).is_zero(), peek.is_gone())
                }
                Seen::Detached { client, until } => (!is_over(*client, *until), is_over(*client, *until)),
            };
            if is_valid && leased.over.is_some() {
                self.breach.get_or_insert(Breach::Revived);
            }
            if is_valid {
                valid.push(*id);
            } else {
                leased.over.get_or_insert(now);
            }
            !is_gone
        });
        self.watched = watched;
        if let Some(Retirement { acknowledged: Some((_, ends)), until, .. }) = &self.retirement
            && (*ends..*until).contains(&now)
            && !self.is_beyond
            && valid.iter().any(|id| self.is_retired(&self.leases[*id].name, self.leases[*id].hold))
        {
            self.breach.get_or_insert(Breach::Unretired);
        }
        valid.retain(|id| {
            let leased = &self.leases[*id];
            !self.may_overlap(&leased.name, leased.hold, leased.asked)
        });
        for (at, one) in valid.iter().enumerate() {
            for other in &valid[..at] {
                let (one_of, other_of) = (&self.leases[*one], &self.leases[*other]);
                if one_of.name != other_of.name || !one_of.hold.excludes(other_of.hold) {
                    continue;
                }
                if self.overlaps.insert((*one.min(other), *one.max(other))) {
                    self.counts.overlaps += 1;
                    let (first, second) = (other_of.client, one_of.client);
                    let name = one_of.name.clone();
                    story.say_of_client(now, second, || {
                        format!("and {} both hold {name}", crate::world::client_name(first))
                    });
                    if !self.is_beyond {
                        self.breach.get_or_insert(Breach::TwoHolders);
                    }
                }
            }
        }
    }

    /// Writes to a store that checks fences. Returns whether it accepts the write.
    pub(crate) fn write(&mut self, lease: usize, fence: Fence) -> bool {
        let leased = &self.leases[lease];
        // Each slot has a store of its own.
        let slot = if let Hold::Slot(slot) = leased.hold { Some(slot) } else { None };
        let store = self.stores.entry((leased.name.clone(), slot)).or_default();
        let (is_taken, is_corrupted) = store.write(leased.hold, lease, fence);
        if is_corrupted {
            self.breach.get_or_insert(Breach::Corrupted);
        }
        *(if is_taken { &mut self.counts.writes } else { &mut self.counts.refused }) += 1;
        is_taken
    }
}
