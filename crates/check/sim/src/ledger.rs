//! Who held what, and whether that can have been.

mod store;

use std::collections::{BTreeMap, BTreeSet};

use quorlock::peek::Peek;
use quorlock::{Fence, LeaseId};
use quorlock_core::ticket::Ticket;
use quorlock_core::vote::Request;

use crate::world::Story;
pub(crate) use store::Store;

/// What must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Two leases are valid that exclude each other.
    TwoHolders,
    /// A fence is not above all that were handed out before.
    FenceOrder,
    /// A lease that was over is valid again.
    Revived,
    /// What checks fences has taken the writes of two holders for those of one.
    Corrupted,
    /// An owner holds a name that it was retired from: it asked after a majority had acknowledged that, or goes on for more
    /// than a ttl.
    Unretired,
    /// Somebody was refused as retired who was not, or not from this name.
    Misretired,
    /// Votes or places are left of clients that have given back everything.
    Leaked(Vec<String>),
    /// Somebody is never served, though nothing goes wrong any more.
    Starved(String),
    /// Somebody asks without end.
    Restless,
    /// The code itself has given up.
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

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Leases that were won.
    pub leases: u64,
    /// Pairs of leases that were valid at the same time and exclude each other.
    pub overlaps: u64,
    /// Writes that a store which checks fences has taken.
    pub writes: u64,
    /// Writes that it has refused: they came too late.
    pub refused: u64,
    /// Runs that ended early: so many nodes had forgotten their cluster that nobody may use them before an operator has
    /// spoken.
    pub forgotten: u64,
}

impl Counts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.leases += other.leases;
        self.overlaps += other.overlaps;
        self.writes += other.writes;
        self.refused += other.refused;
        self.forgotten += other.forgotten;
    }
}

/// Everything that is known of leases.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Whether clocks go wrong beyond what is assumed.
    is_beyond: bool,
    leases: Vec<Leased>,
    /// Those that may be valid, or become so.
    watched: Vec<usize>,
    overlaps: BTreeSet<(usize, usize)>,
    /// Whose attempts there have been.
    attempts: BTreeMap<LeaseId, usize>,
    /// Those that nobody has to take back.
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
    /// When a majority had acknowledged it, and when everything that it had by then has ended.
    acknowledged: Option<(u64, u64)>,
    /// Until when the nodes refuse the owner at least.
    until: u64,
}

struct Leased {
    name: String,
    hold: Hold,
    client: usize,
    seen: Seen,
    /// When it was asked for.
    asked: u64,
    fence: Option<Fence>,
    /// When it was found to be over.
    over: Option<u64>,
}

/// By whose word it is valid.
enum Seen {
    Guard(Peek),
    /// It was detached, and is valid until then by this client's clocks.
    Detached {
        client: usize,
        until: (u64, u64),
    },
}

/// What is to be known of a lease that was won.
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

    /// Whether a vote of this attempt should have been taken back.
    pub(crate) fn is_leaked(&self, attempt: LeaseId) -> bool {
        let is_killed = |client: &usize| self.killed.contains(client);
        self.attempts.get(&attempt).is_some_and(|client| !is_killed(client)) && !self.excused.contains(&attempt)
    }

    /// Nobody has to take back what comes of this request.
    pub(crate) fn excuse(&mut self, request: &Request) {
        self.excused.insert(request.attempt());
        if let Request::Acquire { waiter: Some(waiter), .. } = request {
            self.excused_places.insert(waiter.ticket);
        }
    }

    /// Whether nobody has to take back this place in the queue.
    pub(crate) fn is_excused(&self, ticket: Ticket) -> bool {
        self.excused_places.contains(&ticket)
    }

    pub(crate) fn kill(&mut self, client: usize) {
        self.killed.insert(client);
    }

    /// Somebody begins to retire an owner, or tries once more.
    pub(crate) fn retire(&mut self, name: String, hold: Hold, until: u64) {
        self.retirement = Some(Retirement { name, hold, acknowledged: None, until });
    }

    /// A majority has acknowledged it. What the owner has had until now has ended at this time.
    pub(crate) fn retired(&mut self, now: u64, ends: u64) {
        if let Some(retirement) = &mut self.retirement {
            retirement.acknowledged = Some((now, ends));
        }
    }

    /// Whether this owner is retired from this name, or somebody has begun to: it may hold for another ttl, and others need
    /// not wait for that.
    pub(crate) fn is_retired(&self, name: &str, hold: Hold) -> bool {
        self.retirement.as_ref().is_some_and(|retirement| retirement.name == name && retirement.hold == hold)
    }

    /// A lease was won, and is valid.
    pub(crate) fn grant(&mut self, grant: Grant, now: u64) -> usize {
        let Grant { name, hold, client, asked, fence, peek } = grant;
        self.counts.leases += 1;
        let is_retired = self.is_retired(&name, hold);
        let retired = self.retirement.as_ref().filter(|retirement| is_retired && now < retirement.until);
        let acknowledged = retired.and_then(|retirement| retirement.acknowledged);
        if !self.is_beyond && acknowledged.is_some_and(|(since, _)| asked >= since) {
            self.breach.get_or_insert(Breach::Unretired);
        }
        // All entries of an owner are one lease to others, with one fence: it began with the first of them.
        let is_of_owner =
            |other: &&Leased| matches!(hold, Hold::Owner(_)) && other.hold == hold && other.over.is_none();
        let entered = self.leases.iter().filter(is_of_owner).map(|other| other.asked);
        let asked = entered.fold(asked, u64::min);
        let rivals = || self.leases.iter().filter(|other| other.name == name && other.hold.excludes(hold));
        let is_wrong = |other: &Leased| {
            let (Some(earlier), Some(fence)) = (other.fence, fence) else { return false };
            // Where leases may overlap, only those have an order of which one was over before the other was asked for.
            let is_earlier = !self.is_beyond || other.over.is_some_and(|over| over <= asked);
            fence == earlier || (is_earlier && fence < earlier)
        };
        if !is_retired && rivals().any(is_wrong) {
            self.breach.get_or_insert(Breach::FenceOrder);
        }
        let id = self.leases.len();
        self.leases.push(Leased { name, hold, client, seen: Seen::Guard(peek), asked, fence, over: None });
        self.watched.push(id);
        id
    }

    /// A lease was detached, or extended since: it is valid until then by this client's clocks.
    pub(crate) fn hand(&mut self, lease: usize, attempt: LeaseId, client: usize, until: (u64, u64)) {
        self.excused.insert(attempt);
        let leased = &mut self.leases[lease];
        (leased.seen, leased.over) = (Seen::Detached { client, until }, None);
        if !self.watched.contains(&lease) {
            self.watched.push(lease);
        }
    }

    /// Looks for what must not be. `clocks` tells what each client's suspend-proof clock and wall clock say.
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
                // Nobody acts upon it any more.
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
        valid.retain(|id| !self.is_retired(&self.leases[*id].name, self.leases[*id].hold));
        for (at, one) in valid.iter().enumerate() {
            for other in &valid[..at] {
                let (one_of, other_of) = (&self.leases[*one], &self.leases[*other]);
                if one_of.name != other_of.name || !one_of.hold.excludes(other_of.hold) {
                    continue;
                }
                if self.overlaps.insert((*other, *one)) {
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

    /// A write reaches a store that checks fences. Whether it is taken.
    pub(crate) fn write(&mut self, lease: usize, fence: Fence) -> bool {
        let leased = &self.leases[lease];
        // What is done in one slot has nothing to do with another.
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
