//! The setup of a search: servers, clients, how often each fault may happen, and which rule is switched off.
//!
//! *True time* is the model's own time. Every clock of a client or a server follows it, and none of them reads it.

use std::time::Duration;

use quorlock_core::name::OwnerId;
use quorlock_core::node::{Constants, Trust};
use quorlock_core::request::BreakMode;
use quorlock_core::rules::{Rule, Rules};
use quorlock_core::terms::Mode;
use quorlock_core::time::Drift;

/// The ttl of every lease, and the cluster's maximum ttl.
pub const TTL: Duration = Duration::from_secs(1);
/// The maximum skew of the nodes' wall clocks, as large as quorlock allows: `max_ttl` must be at least
/// `2 * max_clock_skew + max_clock_step_back`, and 1 s = 2 * 0.4 s + 0.2 s.
pub const MAX_SKEW_MICROS: u64 = 400_000;

/// A deliberate flaw: one rule of the protocol is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A rule of the core's client state machines.
    Core(Rule),
    /// A client uses one id for all of its attempts.
    AttemptReused,
    /// All clients use the same attempt id.
    AttemptShared,
    /// A reply counts for the client's latest request.
    RepliesUnmatched,
    /// A node votes as soon as it has restarted.
    NoQuarantine,
    /// The quarantine is 4 ms too short. If it is 3 ms too short, there is no violation, because the margin is 3.44 ms:
    /// for drift, a client subtracts 2 ms from a lease in addition to 10 % of the ttl. With clock rates at their limit
    /// these 2 ms make up for 2.44 ms of quarantine (2 / 0.9 x 1.1), and the restart takes 1 ms.
    QuarantineShort,
    /// A node measures its quarantine by its own wall clock.
    QuarantineByWallClock,
    /// Connections survive a restart without a new handshake, and nodes do not check epochs.
    HandshakeSkipped,
    /// An emptied server executes requests that name its former epoch. A restart still ends connections.
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
    /// Grants of an earlier renewal count for the latest renewal.
    RenewalsMixed,
    /// An extension of a detached lease creates an expired vote again.
    ExtensionRepairs,
    /// A quorum is a majority of the reachable nodes.
    ReachableMajority,
    /// A server with two addresses has two votes.
    ServerCountedTwice,
    /// Plain votes count in any epoch.
    PlainEpochUnchecked,
    /// A release also ends the entries of all other holders.
    ReleaseEndsAllEntries,
    /// A node keeps a reader's fence after the reader's last entry has ended.
    ReaderFenceKept,
    /// Clients subtract no drift from the ttl.
    NoDrift,
    /// A broken lease frees the name at once.
    BreakFreesAtOnce,
    /// A broken lease leaves no tombstone.
    BreakWithoutTombstone,
    /// A break ends any lease of the name.
    BreakOfAnyLease,
    /// A holder that learns of a break during a renewal does not renew again.
    NoRenewalAfterBreak,
    /// A retirement leaves no tombstone, so the owner's next request is executed.
    RetirementWithoutTombstone,
    /// A retirement acts on every name of the owner.
    RetirementFromAllNames,
}

/// One client, or one operator.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// For each address that the client knows, the index of the server behind the address.
    pub servers: Vec<usize>,
    /// The indexes of the addresses that the client can reach.
    pub reachable: Vec<usize>,
    /// How much faster the client's clock runs than true time, in parts per million.
    pub clock_rate_ppm: i64,
    /// How far the client's estimate of the nodes' wall clocks is ahead of these clocks, in microseconds.
    pub clock_estimate_ahead_micros: i64,
    /// The mode of the client's lock.
    pub mode: Mode,
    /// Whether the client uses plain locks.
    pub uses_plain_locks: bool,
    /// How many times the client acquires the lock.
    pub acquires: u8,
    /// If the client renews: the time between two renewals, in milliseconds.
    pub renewal_millis: Option<u64>,
    /// Whether the client waits in the queue if its request is refused. The client does not poll.
    pub is_waiter: bool,
    /// Whether the client's requests wait in a send queue until the search sends them. Otherwise they are sent at once.
    pub has_send_queue: bool,
    /// If the client detaches its lease: how many times the receiver of the lease may extend it.
    pub detached_extensions: Option<u8>,
    /// If this is an operator that breaks one lease: the mode of the break.
    pub break_mode: Option<BreakMode>,
    /// If this is an operator that retires one owner: the retirement.
    pub retirement: Option<Retirement>,
    /// If the client repairs its detached lease, once, on the nodes that have not granted it: how the receiver of the
    /// lease behaves.
    pub repair_receiver: Option<Receiver>,
}

/// The retirement of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retirement {
    /// The retired owner.
    pub owner: OwnerId,
    /// Whether the owner is retired from a name that no client locks.
    pub is_other_name: bool,
}

/// How the receiver of a detached lease behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The receiver stops at the end of the lease, and never continues.
    Obedient,
    /// The receiver continues if an extension succeeds after the end of the lease.
    Careless,
}

impl ClientSpec {
    /// A client that acquires the exclusive lock once and does not renew.
    pub fn once() -> Self {
        Self {
            servers: vec![0, 1, 2],
            reachable: vec![0, 1, 2],
            clock_rate_ppm: 0,
            clock_estimate_ahead_micros: 0,
            mode: Mode::EXCLUSIVE,
            uses_plain_locks: false,
            acquires: 1,
            renewal_millis: None,
            is_waiter: false,
            has_send_queue: false,
            detached_extensions: None,
            break_mode: None,
            retirement: None,
            repair_receiver: None,
        }
    }

    /// An operator that acquires nothing and breaks a lease.
    pub fn breaking(mode: BreakMode) -> Self {
        Self { acquires: 0, break_mode: Some(mode), ..Self::once() }
    }

    /// An operator that acquires nothing and retires an owner.
    pub fn retiring(retirement: Retirement) -> Self {
        Self { acquires: 0, retirement: Some(retirement), ..Self::once() }
    }

    /// A client that acquires the lock once, and reaches only the given addresses.
    pub fn reaching(nodes: &[usize]) -> Self {
        Self { reachable: nodes.to_vec(), ..Self::once() }
    }
}

/// How often each fault, cancellation and release may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Replies that are held back and arrive at any later time.
    pub slow_replies: u8,
    /// Connections that break.
    pub connection_breaks: u8,
    /// Requests of broken connections that never arrive.
    pub lost_requests: u8,
    /// Servers that restart empty.
    pub crashes: u8,
    /// Snapshots that servers take.
    pub snapshots: u8,
    /// Servers that restart with their snapshot.
    pub restored_snapshots: u8,
    /// Servers that are emptied while they run.
    pub flushes: u8,
    /// Running servers that load a copy of their data from before the first vote.
    pub rollbacks: u8,
    /// Jumps of a server's wall clock.
    pub clock_jumps: u8,
    /// Callers that cancel.
    pub cancellations: u8,
    /// Holders that release.
    pub releases: u8,
}

/// The clock by which votes expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// A steady clock, which never jumps.
    Steady,
    /// The wall clock, as on Redis: when the wall clock jumps ahead, votes expire early. Leases may then overlap, and
    /// the search checks that fences differ and are ordered like the votes.
    Wall,
}

/// The setup of a search.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of servers.
    pub servers: usize,
    /// How much faster the servers' clocks run than true time, in parts per million.
    pub clock_rate_ppm: i64,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// How often each fault, cancellation and release may happen.
    pub budget: Budget,
    /// The last true time to which the search lets time pass, in milliseconds.
    pub horizon_millis: u64,
    /// The length of a time step, in milliseconds. The search lets time pass to each multiple of this length, and to
    /// each timer and expiry.
    pub time_step_millis: u64,
    /// The node deadline of clients, in milliseconds.
    pub node_deadline_millis: u64,
    /// The servers that store the fence of an earlier lease, and how far that fence is ahead of the server's clock at
    /// the start, in microseconds.
    pub stored_fences: Vec<(usize, i64)>,
    /// The servers that may restart, be emptied, or get their clocks set.
    pub faulty_servers: Vec<usize>,
    /// How far a jump moves a server's wall clock ahead, in microseconds.
    pub jump_micros: i64,
    /// Whether two clients may hold the lock at the same time, so that the search checks only their fences. For example,
    /// a single node that is trusted after a restart may have two holders.
    pub checks_only_fences: bool,
    /// The clock by which votes expire.
    pub expiry: Expiry,
    /// Whether clients may tell a node at any time how long its quarantine has lasted. Otherwise they only tell the node
    /// that the quarantine is over.
    pub has_frequent_claims: bool,
    /// Whether the servers are interchangeable. If so, the search tries only one order in which they are first used.
    pub are_servers_interchangeable: bool,
    /// The deliberate flaw, if there is one.
    pub flaw: Option<Flaw>,
}

impl Setup {
    /// Three servers and the given clients. No fault occurs, but messages may be delayed.
    pub fn new(clients: Vec<ClientSpec>) -> Self {
        let (budget, flaw) = (Budget::default(), None);
        let are_servers_interchangeable =
            clients.iter().all(|spec| spec.servers == [0, 1, 2] && spec.reachable == [0, 1, 2]);
        Self {
            servers: 3,
            clock_rate_ppm: 0,
            clients,
            budget,
            horizon_millis: 1_100,
            time_step_millis: 500,
            node_deadline_millis: 600,
            stored_fences: Vec::new(),
            faulty_servers: vec![0],
            jump_micros: 700_000,
            checks_only_fences: false,
            expiry: Expiry::Steady,
            has_frequent_claims: false,
            are_servers_interchangeable,
            flaw,
        }
    }

    /// Whether every holder is notified of a break. A notification can be lost only if a connection ends.
    pub fn notifies_of_every_break(&self) -> bool {
        let Budget { connection_breaks, crashes, restored_snapshots, flushes, rollbacks, .. } = self.budget;
        [connection_breaks, crashes, restored_snapshots, flushes, rollbacks] == [0; 5]
    }

    /// Whether votes expire by the wall clock.
    pub fn expires_by_wall_clock(&self) -> bool {
        self.expiry == Expiry::Wall
    }

    /// Whether the setup has this flaw.
    pub fn has_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// The rules that the core's state machines follow.
    pub fn rules(&self) -> Rules {
        match self.flaw {
            Some(Flaw::Core(rule)) => Rules::without(rule),
            Some(Flaw::RaiseAnyVote) => Rules::without(Rule::RaiseOwnVotes),
            _ => Rules::default(),
        }
    }

    /// The drift that is subtracted from the ttl.
    pub fn drift(&self) -> Drift {
        if self.has_flaw(Flaw::NoDrift) { Drift { ppm: 0, fixed: Duration::ZERO } } else { Drift::default() }
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
