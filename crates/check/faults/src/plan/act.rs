//! The kinds of faults, with the target and the duration of each kind, and whether it breaks an assumption.

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
    /// The wall clock steps ahead by `amount` milliseconds, within the allowed drift, and is not corrected.
    Nudge,
    /// All connections are reset.
    Cut,
    /// All connections are reset after `amount` more requests have reached the server.
    CutAfterRequests,
    /// Clients see the end of the stream. Requests that they sent before they noticed still reach the server.
    HalfClose,
    /// Every message takes `amount` milliseconds longer.
    Delay,
    /// Some messages are lost. Most lost messages are sent again and arrive late. For the others, the connection is
    /// reset.
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
    /// A replica attaches, and detaches at the end of the fault.
    Replica,
    /// SIGKILL of a client. At the end of the fault a new client replaces it.
    KillClient,
    /// SIGSTOP of a client, also for longer than its lease is valid. Breaks A2.
    FreezeClient,
    /// The wall clocks of a majority jump ahead by `amount` milliseconds, and back. Breaks A1.
    JumpAhead,
    /// SIGSTOP of the `quorlock run` that holds the lock, later SIGCONT.
    StopWrapper,
    /// SIGKILL of the `quorlock run` that holds the lock.
    KillWrapper,
    /// SIGSTOP of the guard of the `quorlock run` that holds the lock, later SIGCONT.
    StopGuard,
    /// SIGKILL of the guard of the `quorlock run` that holds the lock.
    KillGuard,
    /// SIGKILL of the guard and, `amount` milliseconds later, of `quorlock run` (the wrapper).
    KillGuardThenWrapper,
    /// SIGSTOP of the wrapper and the guard, later SIGCONT. No process is left that could stop the command. Breaks A2.
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

/// The kind of target that a kind of fault has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "words of the plan's targets")]
pub enum TargetKind {
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
    pub target: TargetKind,
    pub bound: Bound,
    pub lasts_ms: (u64, u64),
    pub amount: (u64, u64),
}

const fn kind(act: Act, target: TargetKind, lasts_ms: (u64, u64), amount: (u64, u64)) -> Kind {
    let bound = match act {
        Act::FreezeClient | Act::JumpAhead => Bound::Beyond,
        _ => Bound::Within,
    };
    Kind { act, target, bound, lasts_ms, amount }
}

const ALL: [Kind; 25] = [
    kind(Act::Kill, TargetKind::Node, (1, 800), (0, 0)),
    kind(Act::Wipe, TargetKind::Node, (1, 800), (0, 0)),
    kind(Act::Freeze, TargetKind::Node, (50, 2_500), (0, 0)),
    kind(Act::Flush, TargetKind::Node, (0, 0), (0, 0)),
    kind(Act::ForgetScripts, TargetKind::Node, (0, 0), (0, 0)),
    kind(Act::FillUp, TargetKind::Node, (200, 1_500), (0, 0)),
    kind(Act::AllowEviction, TargetKind::Node, (200, 1_500), (0, 0)),
    kind(Act::SlowDisk, TargetKind::Node, (500, 3_000), (5, 300)),
    kind(Act::StepBack, TargetKind::Node, (0, 0), (20, 400)),
    kind(Act::Nudge, TargetKind::Node, (0, 0), (5, 50)),
    kind(Act::Cut, TargetKind::Network, (0, 0), (0, 0)),
    kind(Act::CutAfterRequests, TargetKind::Network, (0, 0), (1, 20)),
    kind(Act::HalfClose, TargetKind::Network, (0, 0), (0, 0)),
    kind(Act::Delay, TargetKind::Network, (300, 2_500), (1, 120)),
    kind(Act::Lose, TargetKind::Network, (300, 2_500), (4, 20)),
    kind(Act::DropRequests, TargetKind::Network, (100, 2_000), (0, 0)),
    kind(Act::DropReplies, TargetKind::Network, (100, 2_000), (0, 0)),
    kind(Act::Hold, TargetKind::Network, (50, 2_500), (0, 0)),
    kind(Act::Refuse, TargetKind::Network, (100, 2_000), (0, 0)),
    kind(Act::Strand, TargetKind::Network, (50, 2_500), (0, 0)),
    kind(Act::Backup, TargetKind::OneOrMajority, (0, 0), (0, 0)),
    kind(Act::Replica, TargetKind::OneOrMajority, (200, 1_500), (0, 0)),
    kind(Act::KillClient, TargetKind::Client, (50, 800), (0, 0)),
    kind(Act::FreezeClient, TargetKind::Client, (100, 3_000), (0, 0)),
    // The jump is within max_clock_skew and max_clock_step_back, so fences must stay in order. It is longer than the
    // remaining time of a vote that was just renewed.
    kind(Act::JumpAhead, TargetKind::Majority, (300, 1_500), (700, 950)),
];

/// The kinds of faults that keep all assumptions, or the kinds that break an assumption.
pub fn kinds(bound: Bound) -> impl Iterator<Item = Kind> {
    ALL.into_iter().filter(move |kind| kind.bound == bound)
}
