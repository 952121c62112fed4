//! The kinds of faults: target, duration, and whether each breaks an assumption.

use std::fmt;

use serde::Serialize;

/// An act that causes a fault. The harness undoes it at the end of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// SIGKILL; the server restarts from its files.
    Kill,
    /// SIGKILL; the server restarts empty.
    Wipe,
    /// SIGSTOP, later SIGCONT.
    Freeze,
    /// FLUSHALL.
    Flush,
    /// SCRIPT FLUSH.
    ForgetScripts,
    /// Out of memory: the server refuses every write.
    FillUp,
    /// CONFIG SET of an eviction policy, with enough memory.
    AllowEviction,
    /// Every sync of the append-only file takes `amount` milliseconds.
    SlowDisk,
    /// The wall clock steps back by `amount` milliseconds, and is not corrected.
    StepBack,
    /// The wall clock steps ahead by `amount` milliseconds, within the allowed drift.
    Nudge,
    /// All connections are reset.
    Cut,
    /// All connections are reset after `amount` more requests have reached the server.
    CutAfterRequests,
    /// Clients see the end of the stream. Requests that they sent before they noticed still reach the server.
    HalfClose,
    /// Every message takes `amount` milliseconds longer.
    Delay,
    /// Some messages are lost. Most are sent again and arrive late; after the others the connection is reset.
    Lose,
    /// Requests are lost; then the connection is reset.
    DropRequests,
    /// Replies are lost; then the connection is reset.
    DropReplies,
    /// The network stops delivering, then delivers everything at once.
    Hold,
    /// New connections are closed at once, and existing ones are reset.
    Refuse,
    /// The client's end is closed, and requests in flight reach the server only later.
    Strand,
    /// `redis-cli --rdb`: a backup over the network.
    Backup,
    /// A replica attaches, and detaches when the time is over.
    Replica,
    /// SIGKILL of a client; a new one takes its place.
    KillClient,
    /// SIGSTOP of a client, also for longer than its lease is valid. Breaks A2.
    FreezeClient,
    /// The wall clocks of a majority jump ahead by `amount` milliseconds, and back. Breaks A1.
    JumpAhead,
    /// SIGSTOP of the `quorlock run` that holds the lock, later SIGCONT.
    StopWrapper,
    /// SIGKILL of the `quorlock run` that holds the lock.
    KillWrapper,
    /// SIGSTOP of the guard of that `quorlock run`, later SIGCONT.
    StopGuard,
    /// SIGKILL of the guard.
    KillGuard,
    /// SIGKILL of the guard and, `amount` milliseconds later, of `quorlock run` (the wrapper).
    KillGuardThenWrapper,
    /// SIGSTOP of the wrapper and the guard, later SIGCONT: no process is left that could stop the command. Breaks A2.
    StopBoth,
    /// The sentinel that clients listen to restarts.
    RestartSentinel,
    /// The sentinel that clients listen to stays connected and sends nothing.
    SilenceSentinel,
    /// `SENTINEL FAILOVER`: a replica becomes the master while the old master is alive.
    FailOver,
}

impl Act {
    /// Whether the node loses its memory, or counts as having lost it.
    pub fn costs_memory(self) -> bool {
        matches!(self, Self::Kill | Self::Wipe | Self::Flush)
    }

    /// Whether the node cannot vote during the fault.
    pub fn stops_node(self) -> bool {
        self.costs_memory() || matches!(self, Self::Freeze | Self::FillUp | Self::AllowEviction)
    }

    /// Whether the fault changes a wall clock.
    pub fn moves_clock(self) -> bool {
        matches!(self, Self::StepBack | Self::Nudge | Self::JumpAhead)
    }
}

/// `step-back`.
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Whether the assumptions of the guarantees hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Every assumption holds.
    Within,
    /// A1 or A2 is broken: leases may overlap, and fences must still be in order.
    Beyond,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The target of a kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "words of the plan's targets")]
pub enum On {
    Node,
    Network,
    Client,
    Majority,
    /// One node, or a majority at once.
    OneOrMajority,
}

/// A kind of fault, with the ranges of its duration and its amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "words of the plan's entries")]
pub struct Kind {
    pub act: Act,
    pub on: On,
    pub bound: Bound,
    pub lasts_ms: (u64, u64),
    pub amount: (u64, u64),
}

const fn kind(act: Act, on: On, lasts_ms: (u64, u64), amount: (u64, u64)) -> Kind {
    let bound = match act {
        Act::FreezeClient | Act::JumpAhead => Bound::Beyond,
        _ => Bound::Within,
    };
    Kind { act, on, bound, lasts_ms, amount }
}

const ALL: [Kind; 25] = [
    kind(Act::Kill, On::Node, (1, 800), (0, 0)),
    kind(Act::Wipe, On::Node, (1, 800), (0, 0)),
    kind(Act::Freeze, On::Node, (50, 2_500), (0, 0)),
    kind(Act::Flush, On::Node, (0, 0), (0, 0)),
    kind(Act::ForgetScripts, On::Node, (0, 0), (0, 0)),
    kind(Act::FillUp, On::Node, (200, 1_500), (0, 0)),
    kind(Act::AllowEviction, On::Node, (200, 1_500), (0, 0)),
    kind(Act::SlowDisk, On::Node, (500, 3_000), (5, 300)),
    kind(Act::StepBack, On::Node, (0, 0), (20, 400)),
    kind(Act::Nudge, On::Node, (0, 0), (5, 50)),
    kind(Act::Cut, On::Network, (0, 0), (0, 0)),
    kind(Act::CutAfterRequests, On::Network, (0, 0), (1, 20)),
    kind(Act::HalfClose, On::Network, (0, 0), (0, 0)),
    kind(Act::Delay, On::Network, (300, 2_500), (1, 120)),
    kind(Act::Lose, On::Network, (300, 2_500), (4, 20)),
    kind(Act::DropRequests, On::Network, (100, 2_000), (0, 0)),
    kind(Act::DropReplies, On::Network, (100, 2_000), (0, 0)),
    kind(Act::Hold, On::Network, (50, 2_500), (0, 0)),
    kind(Act::Refuse, On::Network, (100, 2_000), (0, 0)),
    kind(Act::Strand, On::Network, (50, 2_500), (0, 0)),
    kind(Act::Backup, On::OneOrMajority, (0, 0), (0, 0)),
    kind(Act::Replica, On::OneOrMajority, (200, 1_500), (0, 0)),
    kind(Act::KillClient, On::Client, (50, 800), (0, 0)),
    kind(Act::FreezeClient, On::Client, (100, 3_000), (0, 0)),
    // Within max_clock_skew and max_clock_step_back, so that fences must stay in order. Longer than the remaining time of
    // a vote that was just renewed.
    kind(Act::JumpAhead, On::Majority, (300, 1_500), (700, 950)),
];

/// The kinds that keep the assumptions, or those that break one.
pub fn kinds(bound: Bound) -> impl Iterator<Item = Kind> {
    ALL.into_iter().filter(move |kind| kind.bound == bound)
}
