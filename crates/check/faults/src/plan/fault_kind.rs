//! The kinds of faults: the target and the duration of each kind, and whether the kind breaks an assumption.

use std::fmt;

use serde::Serialize;

/// A kind of fault. The harness undoes the fault when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
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
    FillMemory,
    /// CONFIG SET of an eviction policy. Nothing is evicted, because the server has no memory limit.
    AllowEviction,
    /// Every sync of the append-only file takes `amount` milliseconds.
    SlowDisk,
    /// The wall clock steps back by `amount` milliseconds, and is not corrected.
    StepBack,
    /// The wall clock steps ahead by `amount` milliseconds, within the allowed drift, and is not corrected.
    StepAhead,
    /// All connections are reset.
    ResetConnections,
    /// All connections are reset after `amount` more requests have reached the server.
    ResetAfterRequests,
    /// Clients see the end of the stream. Requests that they sent before they noticed still reach the server.
    HalfClose,
    /// Every message takes `amount` milliseconds longer.
    Delay,
    /// Some messages are lost. Most lost messages are sent again, and arrive late. If one is not, its connection is reset.
    LoseMessages,
    /// Requests are lost; then the connection is reset.
    DropRequests,
    /// Replies are lost; then the connection is reset.
    DropReplies,
    /// The network holds all messages back, then delivers them at once.
    HoldMessages,
    /// New connections are closed at once, and existing connections are reset.
    RefuseConnections,
    /// The client's end of the connection is closed. Requests in flight reach the server later.
    DeliverLate,
    /// `redis-cli --rdb`: a backup over the network.
    Backup,
    /// A replica attaches, and detaches at the end of the fault.
    Replica,
    /// SIGKILL of a client. At the end of the fault a new client replaces it.
    KillClient,
    /// SIGSTOP of a client, possibly for longer than its lease is valid. Breaks A2.
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

impl FaultKind {
    /// Whether the node loses its memory, or is treated as a node that lost its memory.
    pub fn counts_as_memory_loss(self) -> bool {
        matches!(self, Self::Kill | Self::Wipe | Self::Flush)
    }

    /// Whether the node cannot vote during the fault.
    pub fn prevents_votes(self) -> bool {
        self.counts_as_memory_loss() || matches!(self, Self::Freeze | Self::FillMemory | Self::AllowEviction)
    }

    /// Whether the fault changes a wall clock.
    pub fn changes_clock(self) -> bool {
        matches!(self, Self::StepBack | Self::StepAhead | Self::JumpAhead)
    }
}

/// `step-back`.
impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Whether the assumptions of the guarantees hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumptions {
    /// Every assumption holds.
    Kept,
    /// A1 or A2 is broken: leases may overlap, but fences must be in order.
    Broken,
}

impl fmt::Display for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The targets that a kind of fault may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `Target`")]
pub enum TargetChoice {
    Node,
    Network,
    Client,
    Majority,
    /// One node, or a majority at once.
    OneOrMajority,
}

/// A kind of fault, the choice of its target, and the ranges of its length and its amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `Fault`")]
pub struct FaultTemplate {
    pub kind: FaultKind,
    pub target: TargetChoice,
    pub assumptions: Assumptions,
    pub length_ms: (u64, u64),
    pub amount: (u64, u64),
}

const fn template(kind: FaultKind, target: TargetChoice, length_ms: (u64, u64), amount: (u64, u64)) -> FaultTemplate {
    let assumptions = match kind {
        FaultKind::FreezeClient | FaultKind::JumpAhead => Assumptions::Broken,
        _ => Assumptions::Kept,
    };
    FaultTemplate { kind, target, assumptions, length_ms, amount }
}

const TEMPLATES: [FaultTemplate; 25] = [
    template(FaultKind::Kill, TargetChoice::Node, (1, 800), (0, 0)),
    template(FaultKind::Wipe, TargetChoice::Node, (1, 800), (0, 0)),
    template(FaultKind::Freeze, TargetChoice::Node, (50, 2_500), (0, 0)),
    template(FaultKind::Flush, TargetChoice::Node, (0, 0), (0, 0)),
    template(FaultKind::ForgetScripts, TargetChoice::Node, (0, 0), (0, 0)),
    template(FaultKind::FillMemory, TargetChoice::Node, (200, 1_500), (0, 0)),
    template(FaultKind::AllowEviction, TargetChoice::Node, (200, 1_500), (0, 0)),
    template(FaultKind::SlowDisk, TargetChoice::Node, (500, 3_000), (5, 300)),
    template(FaultKind::StepBack, TargetChoice::Node, (0, 0), (20, 400)),
    template(FaultKind::StepAhead, TargetChoice::Node, (0, 0), (5, 50)),
    template(FaultKind::ResetConnections, TargetChoice::Network, (0, 0), (0, 0)),
    template(FaultKind::ResetAfterRequests, TargetChoice::Network, (0, 0), (1, 20)),
    template(FaultKind::HalfClose, TargetChoice::Network, (0, 0), (0, 0)),
    template(FaultKind::Delay, TargetChoice::Network, (300, 2_500), (1, 120)),
    template(FaultKind::LoseMessages, TargetChoice::Network, (300, 2_500), (4, 20)),
    template(FaultKind::DropRequests, TargetChoice::Network, (100, 2_000), (0, 0)),
    template(FaultKind::DropReplies, TargetChoice::Network, (100, 2_000), (0, 0)),
    template(FaultKind::HoldMessages, TargetChoice::Network, (50, 2_500), (0, 0)),
    template(FaultKind::RefuseConnections, TargetChoice::Network, (100, 2_000), (0, 0)),
    template(FaultKind::DeliverLate, TargetChoice::Network, (50, 2_500), (0, 0)),
    template(FaultKind::Backup, TargetChoice::OneOrMajority, (0, 0), (0, 0)),
    template(FaultKind::Replica, TargetChoice::OneOrMajority, (200, 1_500), (0, 0)),
    template(FaultKind::KillClient, TargetChoice::Client, (50, 800), (0, 0)),
    template(FaultKind::FreezeClient, TargetChoice::Client, (100, 3_000), (0, 0)),
    // Fences must stay in order, so the jump is shorter than max_clock_skew and max_clock_step_back. It is longer than
    // two thirds of a ttl, so that many votes expire.
    template(FaultKind::JumpAhead, TargetChoice::Majority, (300, 1_500), (700, 950)),
];

/// The faults that keep all assumptions, or the faults that break an assumption.
pub fn templates(assumptions: Assumptions) -> impl Iterator<Item = FaultTemplate> {
    TEMPLATES.into_iter().filter(move |template| template.assumptions == assumptions)
}
