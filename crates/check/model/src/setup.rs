//! The setup of a search: servers, clients, fault budgets, and the rule that is missing.

use std::time::Duration;

use quorlock_core::name::OwnerId;
use quorlock_core::node::{Constants, Trust};
use quorlock_core::request::BreakMode;
use quorlock_core::rules::{Rule, Rules};
use quorlock_core::terms::Mode;
use quorlock_core::time::Drift;

/// The ttl of every lease, and the cluster's maximum ttl.
pub const TTL: Duration = Duration::from_secs(1);
/// The maximum skew of the nodes' wall clocks. With half of it as `max_clock_step_back`,
/// `max_ttl >= 2 * max_clock_skew + max_clock_step_back`.
pub const MAX_SKEW_MICROS: u64 = 400_000;

/// A rule of the protocol that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A rule of the core's client state machines.
    Core(Rule),
    /// A client uses one id for all of its attempts.
    AttemptReused,
    /// All clients use the same id.
    AttemptShared,
    /// A reply counts for the client's latest request.
    RepliesUnmatched,
    /// A node votes as soon as it has restarted.
    NoQuarantine,
    /// The quarantine is 4 ms too short. With 3 ms there is no violation: for drift, a client subtracts 2 ms from a
    /// lease in addition to 10 % of the ttl. With clock rates at their limit these 2 ms make up for 2.44 ms of quarantine
    /// (2 / 0.9 x 1.1), and the restart takes 1 ms.
    QuarantineShort,
    /// A node computes its age from its own wall clock.
    Uptime,
    /// Connections survive a restart, and no epoch is checked.
    HandshakeUntied,
    /// An emptied server executes requests that name its former epoch. Connections still end with a restart.
    EpochUnchecked,
    /// No client notices that a running server loaded an old copy of its data.
    RollbackUnnoticed,
    /// A node that lost its memory starts its fences from zero.
    FloorLost,
    /// A node uses a fence that it has restored from its files, and has no floor.
    FenceRestored,
    /// A single node that is trusted after a restart has no floor.
    TrustWithoutFloor,
    /// A client also raises the fence on nodes that did not vote for its attempt.
    RaiseAnyVote,
    /// Grants of an earlier renewal count for the latest one.
    RoundsAdded,
    /// An extension of a detached lease creates an expired vote again.
    ExtensionRepairs,
    /// A quorum is a majority of the reachable nodes.
    ReachableMajority,
    /// A server with two addresses has two votes.
    ServerTwice,
    /// Plain votes count in any epoch.
    PlainUnchecked,
    /// A release also ends the entries of other holders.
    ReleaseVoids,
    /// A reader's fence is stored for longer than its entries.
    StaleShare,
    /// Clients subtract no drift from the ttl.
    NoDrift,
    /// A broken lease frees the name at once.
    BreakFrees,
    /// A broken lease leaves no tombstone.
    BreakForgets,
    /// A break ends any lease of the name.
    BreakAny,
    /// A holder that learns of a break during a renewal does not ask again.
    DoubtOnce,
    /// A retirement leaves no tombstone, so the owner's next request is executed.
    RetireForgets,
    /// A retirement acts on every name of the owner.
    RetireEverywhere,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// The server behind each of its addresses.
    pub servers: Vec<usize>,
    /// The addresses that it can reach.
    pub reaches: Vec<usize>,
    /// The rate of its clock: fast by this many parts per million.
    pub ppm: i64,
    /// How far its estimate of the nodes' clocks is ahead, in microseconds.
    pub ahead: i64,
    /// The mode of its lock.
    pub mode: Mode,
    /// Whether it uses plain locks.
    pub plain: bool,
    /// The number of times that it acquires the lock.
    pub starts: u8,
    /// The time between two renewals, in milliseconds.
    pub renews: Option<u64>,
    /// Whether it queues when it is refused. It does not poll.
    pub waits: bool,
    /// Whether its requests wait in its send queues, and are sent at any later time.
    pub queues: bool,
    /// If it detaches its lease at once: the number of times that the receiver may extend the lease.
    pub hands_over: Option<u8>,
    /// If it breaks a lease, once: the mode of the break.
    pub ends: Option<BreakMode>,
    /// If it retires an owner, once: the retirement.
    pub retires: Option<Retirement>,
    /// If it repairs its detached lease, once, on the nodes that have not granted it: the receiver of the lease.
    pub mends_for: Option<Receiver>,
}

/// The retirement of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retirement {
    /// The owner.
    pub owner: OwnerId,
    /// Whether the owner is retired from another name than the one that clients lock.
    pub elsewhere: bool,
}

/// The receiver of a detached lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// It stops at the end of the lease, and never continues.
    Obedient,
    /// It continues if an extension succeeds after the end of the lease.
    Careless,
}

impl ClientSpec {
    /// A client that acquires the exclusive lock once and does not renew.
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

    /// An operator that acquires nothing and breaks a lease.
    pub fn breaking(mode: BreakMode) -> Self {
        Self { starts: 0, ends: Some(mode), ..Self::once() }
    }

    /// An operator that acquires nothing and retires an owner.
    pub fn retiring(retirement: Retirement) -> Self {
        Self { starts: 0, retires: Some(retirement), ..Self::once() }
    }

    /// A client that acquires the lock once, and reaches only these addresses.
    pub fn reaching(nodes: &[usize]) -> Self {
        Self { reaches: nodes.to_vec(), ..Self::once() }
    }
}

/// How often each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Replies that are held back and arrive at any later time.
    pub slow: u8,
    /// Connections that break.
    pub breaks: u8,
    /// Requests of broken connections that never arrive.
    pub losses: u8,
    /// Servers that restart empty.
    pub crashes: u8,
    /// Snapshots.
    pub saves: u8,
    /// Servers that restart with their snapshot.
    pub restores: u8,
    /// Servers that are emptied while they run.
    pub flushes: u8,
    /// Servers that load a copy from before the first vote while they run.
    pub rollbacks: u8,
    /// Clocks that jump.
    pub jumps: u8,
    /// Callers that cancel.
    pub cancels: u8,
    /// Holders that release.
    pub frees: u8,
}

/// The clock by which votes expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// A clock that never jumps.
    Steady,
    /// The wall clock, as on Redis: when it jumps ahead, votes vanish. Leases may then overlap, and the search checks
    /// that fences differ and are ordered like the votes.
    Wall,
}

/// The setup of a search.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of servers.
    pub servers: usize,
    /// The rate of the servers' clocks: fast by this many parts per million.
    pub ppm: i64,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// The fault budgets.
    pub budget: Budget,
    /// The end of the search, in milliseconds.
    pub horizon: u64,
    /// Time passes to multiples of this many milliseconds, and to the moments at which something is due.
    pub grid: u64,
    /// The node deadline of clients, in milliseconds.
    pub node_deadline: u64,
    /// Stored fences of earlier leases on servers, in microseconds ahead of their clocks at the start.
    pub fences: Vec<(usize, i64)>,
    /// The servers that may restart, be emptied, or have their clocks set.
    pub fragile: Vec<usize>,
    /// How far a jump moves a server's wall clock ahead, in microseconds.
    pub jump: i64,
    /// Whether only fences are guaranteed: a single node that is trusted after a restart may have two holders.
    pub only_fences: bool,
    /// The clock by which votes expire.
    pub expiry: Expiry,
    /// Whether clients report the elapsed time of a quarantine at every moment, and not only at its end.
    pub claims_often: bool,
    /// Whether the servers are interchangeable: the search then tries only one order of their first use.
    pub alike: bool,
    /// The rule that is missing.
    pub flaw: Option<Flaw>,
}

impl Setup {
    /// Three servers and these clients. No fault occurs, but messages may be delayed.
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

    /// Whether every holder learns of every break, because no connection ends.
    pub fn tells_breaks(&self) -> bool {
        let Budget { breaks, crashes, restores, flushes, rollbacks, .. } = self.budget;
        [breaks, crashes, restores, flushes, rollbacks] == [0; 5]
    }

    /// Whether votes expire by the wall clock.
    pub fn expires_by_wall(&self) -> bool {
        self.expiry == Expiry::Wall
    }

    /// Whether this rule is missing.
    pub fn lacks(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// The rules of the core's state machines.
    pub fn rules(&self) -> Rules {
        match self.flaw {
            Some(Flaw::Core(rule)) => Rules::without(rule),
            Some(Flaw::RaiseAnyVote) => Rules::without(Rule::RaiseOwnVotes),
            _ => Rules::default(),
        }
    }

    /// The drift that is subtracted from the ttl.
    pub fn drift(&self) -> Drift {
        if self.lacks(Flaw::NoDrift) { Drift { ppm: 0, fixed: Duration::ZERO } } else { Drift::default() }
    }

    /// Whether a restarted node may vote at once.
    pub fn trust(&self) -> Trust {
        let max_clock_skew = MAX_SKEW_MICROS.cast_signed();
        match self.flaw {
            Some(Flaw::NoQuarantine) => Trust::Vote { floor_offset: -max_clock_skew },
            Some(Flaw::TrustWithoutFloor) => Trust::Vote { floor_offset: -1_000_000_000_000 },
            _ if self.servers == 1 => Trust::Vote { floor_offset: 2 * max_clock_skew },
            _ => Trust::Quarantine,
        }
    }

    /// The constants of the cluster.
    pub fn constants(&self) -> Constants {
        Constants {
            cluster: "c".into(),
            nodes: self.servers,
            max_ttl_millis: TTL.as_millis() as u64,
            max_skew_micros: MAX_SKEW_MICROS,
        }
    }
}
