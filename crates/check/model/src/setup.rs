//! What a search begins with: who there is, what may go wrong and how often, and which rule is missing.

use std::time::Duration;

use quorlock_core::mode::{Mode, OwnerId};
use quorlock_core::node::{Constants, Trust};
use quorlock_core::rules::{Rule, Rules};
use quorlock_core::time::Drift;
use quorlock_core::vote::BreakMode;

/// The ttl of every lease, and the longest that the cluster allows.
pub const TTL: Duration = Duration::from_secs(1);
/// How far the nodes' wall clocks may be apart. With a `max_clock_step_back` of half of it, `max_ttl >= 2 * max_clock_skew + max_clock_step_back`.
pub const MAX_SKEW_MICROS: u64 = 400_000;

/// A rule of the protocol that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// One that the core's machines for clients keep.
    Core(Rule),
    /// A client signs all of its attempts alike.
    AttemptReused,
    /// All clients sign alike.
    AttemptShared,
    /// An answer is taken for one to the latest request.
    RepliesUnmatched,
    /// A node votes as soon as it is back.
    NoQuarantine,
    /// Four milliseconds are missing from the quarantine. Three would not show: the 2 ms that the drift takes off a lease
    /// besides a tenth make up for 2.44 by clocks at their limit (2 / 0.9 x 1.1), and a restart takes one.
    QuarantineShort,
    /// A node's age is told from its own wall clock.
    Uptime,
    /// Connections outlive a restart, and nobody checks the epoch.
    HandshakeUntied,
    /// A server that was emptied carries out what was meant for its former life. Connections end with a restart.
    EpochUnchecked,
    /// Nobody notices that a running server took over an old copy of its data.
    RollbackUnnoticed,
    /// A node that lost its memory begins its fences anew.
    FloorLost,
    /// A restored fence is believed.
    FenceRestored,
    /// A single node that is trusted after a restart takes no floor.
    TrustWithoutFloor,
    /// A raise is counted on nodes that did not vote for it.
    RaiseAnyVote,
    /// Grants of an earlier renewal count for the latest one.
    RoundsAdded,
    /// A lease that was detached is extended as if its hold were known.
    ExtensionRepairs,
    /// The majority is one of the nodes that can be reached.
    ReachableMajority,
    /// One server is counted under two addresses.
    ServerTwice,
    /// Votes of the page's commands count whatever the epoch.
    PlainUnchecked,
    /// A release ends the period, whoever else is in it.
    ReleaseVoids,
    /// A reader's fence is remembered for longer than its entries stand.
    StaleShare,
    /// Nothing is taken off the ttl.
    NoDrift,
    /// A lease that is broken is free at once.
    BreakFrees,
    /// A lease that is broken leaves no tombstone.
    BreakForgets,
    /// A break ends whatever stands.
    BreakAny,
    /// Who hears of a break while it renews does not ask once more.
    DoubtOnce,
    /// A retirement leaves no tombstone: the owner's next request is carried out.
    RetireForgets,
    /// A retirement acts on every name of the owner.
    RetireEverywhere,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// Which server is behind each of its addresses.
    pub servers: Vec<usize>,
    /// Which of them it can reach.
    pub reaches: Vec<usize>,
    /// By how much its clock is fast, in parts per million.
    pub ppm: i64,
    /// How far its idea of the nodes' clocks is ahead, in microseconds.
    pub ahead: i64,
    /// How it wants to hold.
    pub mode: Mode,
    /// With the page's commands.
    pub plain: bool,
    /// How many times it wants the lock.
    pub starts: u8,
    /// How long after a renewal the next one is sent, in milliseconds.
    pub renews: Option<u64>,
    /// Whether it lines up when it is refused. It does not ask again by itself.
    pub waits: bool,
    /// Whether its requests wait in its queues, to leave at any later time.
    pub queues: bool,
    /// Whether it hands the lease over as soon as it has it; whoever gets it may extend it this often.
    pub hands_over: Option<u8>,
    /// Whether it breaks a lease, once, and how.
    pub ends: Option<BreakMode>,
    /// Whether it retires an owner, once.
    pub retires: Option<Retirement>,
    /// Whether it then gives the lease to the nodes that have not granted it, once, and who got the detached lease.
    pub mends_for: Option<Heir>,
}

/// The retirement of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retirement {
    /// The owner that is retired.
    pub owner: OwnerId,
    /// Whether it is retired from another name than the one that is searched.
    pub elsewhere: bool,
}

/// Who was given a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heir {
    /// One who stops at its end, for good.
    Obedient,
    /// One who goes on when an extension succeeds after that.
    Careless,
}

impl ClientSpec {
    /// Someone who wants the lock once, for itself alone, and does not renew.
    pub fn once() -> Self {
        Self {
            servers: vec![0, 1, 2],
            reaches: vec![0, 1, 2],
            ppm: 0,
            ahead: 0,
            mode: Mode::EXCLUSIVE,
            plain: false,
            starts: 1,
            renews: None,
            waits: false,
            queues: false,
            hands_over: None,
            ends: None,
            retires: None,
            mends_for: None,
        }
    }

    /// An operator, who wants no lock and breaks one.
    pub fn breaking(mode: BreakMode) -> Self {
        Self { starts: 0, ends: Some(mode), ..Self::once() }
    }

    /// An operator, who wants no lock and retires an owner.
    pub fn retiring(retirement: Retirement) -> Self {
        Self { starts: 0, retires: Some(retirement), ..Self::once() }
    }

    /// Someone who wants the lock once, within reach of these addresses only.
    pub fn reaching(nodes: &[usize]) -> Self {
        Self { reaches: nodes.to_vec(), ..Self::once() }
    }
}

/// How often each thing may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Answers that are held back, to arrive at any later time.
    pub slow: u8,
    /// Connections that break.
    pub breaks: u8,
    /// Requests of broken connections that never arrive.
    pub losses: u8,
    /// Servers that restart empty.
    pub crashes: u8,
    /// Snapshots that are taken.
    pub saves: u8,
    /// Servers that restart with their snapshot.
    pub restores: u8,
    /// Servers that are emptied while they run.
    pub flushes: u8,
    /// Servers that take over a copy from before the first vote while they run.
    pub rollbacks: u8,
    /// Clocks that jump.
    pub jumps: u8,
    /// Callers who lose interest.
    pub cancels: u8,
    /// Holders that let go.
    pub frees: u8,
}

/// By which clock votes lapse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// One that never jumps.
    Steady,
    /// The wall clock, as on Redis: when it jumps ahead, votes vanish. Leases may overlap then, and what is judged is that fences
    /// differ and are ordered like the votes.
    Wall,
}

/// A search's beginning.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How many servers there are.
    pub servers: usize,
    /// By how much each server's clock is fast, in parts per million.
    pub ppm: i64,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// What may go wrong.
    pub budget: Budget,
    /// The last moment that is looked at, in milliseconds.
    pub horizon: u64,
    /// Time passes to multiples of this many milliseconds, besides the moments at which something is due.
    pub grid: u64,
    /// How long a client waits for a node, in milliseconds.
    pub node_deadline: u64,
    /// What servers have stored of earlier leases, in microseconds ahead of their clocks at the beginning.
    pub fences: Vec<(usize, i64)>,
    /// Which servers restart, are emptied, or have their clocks set.
    pub fragile: Vec<usize>,
    /// How far ahead a jump takes a server's wall clock, in microseconds.
    pub jump: i64,
    /// Whether only fences are promised: a single node that is trusted after a restart may have two holders.
    pub only_fences: bool,
    /// By which clock votes lapse.
    pub expiry: Expiry,
    /// Whether clients claim at every moment, and not only when the quarantine is over.
    pub claims_often: bool,
    /// Whether the servers are alike, so that only one order of their first appearances has to be tried.
    pub alike: bool,
    /// Which rule is missing.
    pub flaw: Option<Flaw>,
}

impl Setup {
    /// Three servers and these clients, with nothing that may go wrong but delay.
    pub fn new(clients: Vec<ClientSpec>) -> Self {
        let (budget, flaw) = (Budget::default(), None);
        let alike = clients.iter().all(|spec| spec.servers == [0, 1, 2] && spec.reaches == [0, 1, 2]);
        Self {
            servers: 3,
            ppm: 0,
            clients,
            budget,
            horizon: 1_100,
            grid: 500,
            node_deadline: 600,
            fences: Vec::new(),
            fragile: vec![0],
            jump: 700_000,
            only_fences: false,
            expiry: Expiry::Steady,
            claims_often: false,
            alike,
            flaw,
        }
    }

    /// Whether everybody who holds is told of every lease that is broken: no connection ends.
    pub fn tells_breaks(&self) -> bool {
        let Budget { breaks, crashes, restores, flushes, rollbacks, .. } = self.budget;
        [breaks, crashes, restores, flushes, rollbacks] == [0; 5]
    }

    /// Whether votes lapse by the wall clock.
    pub fn expires_by_wall(&self) -> bool {
        self.expiry == Expiry::Wall
    }

    /// Whether this rule is missing.
    pub fn lacks(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// The rules that the core's machines keep.
    pub fn rules(&self) -> Rules {
        match self.flaw {
            Some(Flaw::Core(rule)) => Rules::without(rule),
            Some(Flaw::RaiseAnyVote) => Rules::without(Rule::RaiseOwnVotes),
            _ => Rules::default(),
        }
    }

    /// What is taken off the ttl.
    pub fn drift(&self) -> Drift {
        if self.lacks(Flaw::NoDrift) { Drift { ppm: 0, fixed: Duration::ZERO } } else { Drift::default() }
    }

    /// What a node that comes back may do at once.
    pub fn trust(&self) -> Trust {
        let max_clock_skew = MAX_SKEW_MICROS.cast_signed();
        match self.flaw {
            Some(Flaw::NoQuarantine) => Trust::Vote { floor_offset: -max_clock_skew },
            Some(Flaw::TrustWithoutFloor) => Trust::Vote { floor_offset: -1_000_000_000_000 },
            _ if self.servers == 1 => Trust::Vote { floor_offset: 2 * max_clock_skew },
            _ => Trust::Quarantine,
        }
    }

    /// What everyone agrees on.
    pub fn constants(&self) -> Constants {
        Constants {
            cluster: "c".into(),
            nodes: self.servers,
            max_ttl_millis: TTL.as_millis() as u64,
            max_skew_micros: MAX_SKEW_MICROS,
        }
    }
}
