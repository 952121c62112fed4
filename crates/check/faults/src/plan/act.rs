//! The kinds of faults: target, duration, and whether each breaks an assumption.

use std::fmt;

use serde::Serialize;

/// A fault, undone when its time is over.
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
    /// The wall clock steps back by `amount` milliseconds, and stays so.
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
    /// Messages are lost, and arrive late or end in a reset.
    Lose,
    /// Requests are lost; then the connection is reset.
    DropRequests,
    /// Replies are lost; then the connection is reset.
    DropReplies,
    /// The network stops delivering, then delivers everything at once.
    Hold,
    /// New connections are closed at once, existing ones reset.
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
    /// SIGSTOP of its guard, later SIGCONT.
    StopGuard,
    /// SIGKILL of its guard.
    KillGuard,
    /// SIGKILL of its guard and, `amount` milliseconds later, of the wrapper.
    KillGuardThenWrapper,
    /// SIGSTOP of wrapper and guard, later SIGCONT: no process is left that could stop the command. Breaks A2.
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

    /// Whether the node cannot vote during this.
    pub fn stops_node(self) -> bool {
        self.costs_memory() || matches!(self, Self::Freeze | Self::FillUp | Self::AllowEviction)
    }

    /// Whether it changes a wall clock.
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
    Link,
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
    kind(Act::Cut, On::Link, (0, 0), (0, 0)),
    kind(Act::CutAfterRequests, On::Link, (0, 0), (1, 20)),
    kind(Act::HalfClose, On::Link, (0, 0), (0, 0)),
    kind(Act::Delay, On::Link, (300, 2_500), (1, 120)),
    kind(Act::Lose, On::Link, (300, 2_500), (4, 20)),
    kind(Act::DropRequests, On::Link, (100, 2_000), (0, 0)),
    kind(Act::DropReplies, On::Link, (100, 2_000), (0, 0)),
    kind(Act::Hold, On::Link, (50, 2_500), (0, 0)),
    kind(Act::Refuse, On::Link, (100, 2_000), (0, 0)),
    kind(Act::Strand, On::Link, (50, 2_500), (0, 0)),
    kind(Act::Backup, On::OneOrMajority, (0, 0), (0, 0)),
    kind(Act::Replica, On::OneOrMajority, (200, 1_500), (0, 0)),
    kind(Act::KillClient, On::Client, (50, 800), (0, 0)),
    kind(Act::FreezeClient, On::Client, (100, 3_000), (0, 0)),
    // Ahead and back within max_clock_skew and max_clock_step_back, so that fences must stay in order; and by more than
    // the remaining time of a vote that was just renewed.
    kind(Act::JumpAhead, On::Majority, (300, 1_500), (700, 950)),
];

/// The kinds that keep the assumptions, or those that break one.
pub fn kinds(bound: Bound) -> impl Iterator<Item = Kind> {
    ALL.into_iter().filter(move |kind| kind.bound == bound)
}
