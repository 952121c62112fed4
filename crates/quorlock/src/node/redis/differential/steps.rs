//! Random histories of a node.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use quorlock_core::request::BreakMode;

use crate::node::roster_history::{RosterStep, roster_step};

/// One step of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Pass(Jump),
    Send {
        life: KnownLife,
        batch: Vec<Intent>,
    },
    Command(Command),
    /// The node gets its first roster, and votes.
    Found {
        /// The number of other members.
        others: usize,
        trusts_restarts: bool,
    },
    Roster(RosterStep),
    /// The epoch and the membership are copied.
    Copy,
    /// A server with this identity loads the last copy.
    Restore {
        identity: usize,
    },
    /// Another program deletes the epoch.
    WipeEpoch,
    /// Another program deletes everything.
    WipeAll,
    /// The last fence of a name becomes this much lower than the largest possible fence.
    NearTheLastFence {
        name: usize,
        below: u64,
    },
    /// Another program deletes the vote, but not its entries, fence and queue.
    Vanish {
        name: usize,
    },
}

/// How time passes.
#[derive(Clone, Debug)]
pub(super) enum Jump {
    /// By this many microseconds; a negative number sets the clock back.
    By(i64),
    /// To the expiry of a random record, plus this many microseconds.
    ToTheEndOf { what: Index, offset: i64 },
}

/// Which life of the node the client believes in.
#[derive(Clone, Copy, Debug)]
pub(super) enum KnownLife {
    Current,
    Earlier,
    None,
}

/// A request about one of the names, by one of the roles.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) name: usize,
    pub(super) role: Index,
    /// The slot of a semaphore that the node tries first.
    pub(super) slot: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Acquire { fence: Proposal, ttl: u64, holder: &'static str, waiter: Option<usize> },
    Renew { fence: Proposal, ttl: u64, holder: &'static str, repair: bool },
    Release { tombstone: Option<u64>, parting: Option<Departure> },
    Retire { owner: usize, tombstone: u64 },
    Inspect,
    Check,
    Break { mode: BreakMode, target: BreakTarget },
    PlainAcquire { ttl: u64 },
    PlainExtend { ttl: u64 },
    PlainRelease,
}

/// What happens to the queue position of the waiter with this ticket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Departure {
    Leave(usize),
    Yield(usize),
}

/// How an attempt holds the lock, in all its requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Exclusive,
    Writer { owner: u128 },
    Reentrant { owner: u128 },
    Reader { owner: u128, reenters: bool },
    Slot { permits: u32 },
}

/// All owners. No attempt has the same bits.
pub(super) const OWNERS: [u128; 3] = [0x101, 0x102, 0x103];

/// The roles of the attempts.
pub(super) const ROLES: [Role; 16] = [
    Role::Exclusive,
    Role::Exclusive,
    Role::Exclusive,
    Role::Writer { owner: OWNERS[0] },
    Role::Writer { owner: OWNERS[1] },
    Role::Reentrant { owner: OWNERS[0] },
    Role::Reentrant { owner: OWNERS[0] },
    Role::Reentrant { owner: OWNERS[1] },
    Role::Reader { owner: OWNERS[0], reenters: false },
    Role::Reader { owner: OWNERS[1], reenters: false },
    Role::Reader { owner: OWNERS[2], reenters: false },
    Role::Slot { permits: 3 },
    Role::Slot { permits: 3 },
    Role::Slot { permits: 3 },
    Role::Slot { permits: 2 },
    Role::Reader { owner: OWNERS[0], reenters: true },
];

/// The roles in a history. If every history had all roles, few requests would be granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoleSet(pub(super) &'static [usize]);

pub(super) const ROLE_SETS: [RoleSet; 5] = [
    RoleSet(&[0, 1, 2]),
    RoleSet(&[3, 4, 8, 9, 10, 15]),
    RoleSet(&[0, 5, 6, 7]),
    RoleSet(&[11, 12, 13, 14]),
    RoleSet(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
];

/// The waiters' tickets: the microseconds since the start, the id, and whether the waiter wants a shared lock.
pub(super) const TICKETS: [(u64, u64, bool); 6] = [
    (0, 0x8000_0000_0000_0001, true),
    (0, 0x8000_0000_0000_0000, false),
    (0, 0xf, true),
    (1, 0, false),
    (2, 0xffff_ffff_ffff_ffff, true),
    (9_999_999, 0xa, false),
];

/// The lease to break.
#[derive(Clone, Copy, Debug)]
pub(super) enum BreakTarget {
    /// The lease with the stored fence plus this number.
    Stored(i64),
    /// The lease of the current vote, by its digest.
    CurrentVote,
    /// The lease of a role, by its digest.
    Digest(Index),
}

/// The fence that a request proposes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proposal {
    /// The node's clock plus this number.
    Clock(i64),
    /// The highest fence that the max clock skew allows, plus this number.
    Limit(i64),
    /// The stored fence plus this number.
    Stored(i64),
}

/// A node command, without the values that depend on earlier steps.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Look,
    Hello { identity: usize, constants: usize, founders: &'static str, trust: Option<i64> },
    Claim { life: KnownLife, span: Span },
    Init { identity: usize, constants: usize },
    Reconfigure { identity: usize, constants: usize, trust: Option<i64>, suspend: bool },
}

/// How much of a quarantine is claimed to have passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    Micros(u64),
    /// This much more than the highest claim.
    HighestClaim(i64),
    /// This much more than the quarantine.
    Whole(i64),
}

/// Returns the roles of a history, and its steps.
pub(super) fn histories() -> impl Strategy<Value = (RoleSet, Vec<Step>)> {
    let blank = Command::Hello { identity: 0, constants: 0, founders: "r1,r2", trust: None };
    let voting = Command::Init { identity: 0, constants: 0 };
    let command = || command().prop_map(Step::Command).boxed();
    let found = || {
        (select(vec![0, 2]), any::<bool>())
            .prop_map(|(others, trusts_restarts)| Step::Found { others, trusts_restarts })
    };
    let steps = prop_oneof![
        // In most histories the node can vote from the start. The others are short, and have many commands.
        4 => steps(Just(Step::Command(voting)), 80, 5, command()),
        1 => steps(Just(Step::Command(blank)), 5, 60, command()),
        2 => steps(found(), 80, 20, roster_command()),
        3 => steps(found(), 5, 160, roster_command()),
    ];
    (select(ROLE_SETS.to_vec()), steps)
}

/// Returns steps about the roster.
fn roster_command() -> BoxedStrategy<Step> {
    let step = prop_oneof![
        20 => roster_step(IDENTITIES.len()).prop_map(Step::Roster),
        1 => Just(Step::Copy),
        1 => (0..IDENTITIES.len()).prop_map(|identity| Step::Restore { identity }),
    ];
    step.boxed()
}

/// Returns steps that start with `first`.
fn steps(
    first: impl Strategy<Value = Step>,
    votes: u32,
    commands: u32,
    command: BoxedStrategy<Step>,
) -> impl Strategy<Value = Vec<Step>> {
    let near = (0..NAMES, 0..3_u64).prop_map(|(name, below)| Step::NearTheLastFence { name, below });
    let step = prop_oneof![
        30 => jump().prop_map(Step::Pass),
        votes => (known_life(), vec(intent(), 1..6)).prop_map(|(life, batch)| Step::Send { life, batch }),
        votes => (known_life(), similar_intents()).prop_map(|(life, batch)| Step::Send { life, batch }),
        commands => command,
        2 => (0..NAMES).prop_map(|name| Step::Vanish { name }),
        1 => Just(Step::WipeEpoch),
        1 => Just(Step::WipeAll),
        1 => near,
    ];
    (first, vec(step, 1..60)).prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect())
}

/// The numbers of names, channels and sets of constants.
pub(super) const NAMES: usize = 3;
pub(super) const CHANNELS: usize = 2;
pub(super) const CONSTANTS: usize = 5;
/// The runs and promotions of servers.
pub(super) const IDENTITIES: [(&str, &str); 6] =
    [("first", ""), ("second", ""), ("first", "a:1"), ("first", "a:12"), ("first", "b:7+a:1"), ("second", "b:7")];

fn jump() -> impl Strategy<Value = Jump> {
    let edge = select(vec![-1, 0, 1, 999, 1_000, 1_001]);
    prop_oneof![
        2 => (0..3_i64).prop_map(Jump::By),
        3 => (0..300_000_i64).prop_map(Jump::By),
        2 => (0..3_001_000_i64).prop_map(Jump::By),
        1 => (-3_000_000..0_i64).prop_map(Jump::By),
        3 => (any::<Index>(), edge).prop_map(|(what, offset)| Jump::ToTheEndOf { what, offset }),
    ]
}

fn known_life() -> impl Strategy<Value = KnownLife> {
    prop_oneof![18 => Just(KnownLife::Current), 1 => Just(KnownLife::Earlier), 1 => Just(KnownLife::None)]
}

fn intent() -> impl Strategy<Value = Intent> {
    let ttl = || prop_oneof![Just(100_u64), 100..3_000_u64];
    // A label may contain any printable text. The last text is not a holder that a client of ours would write.
    let holder = || select(vec!["7 host ", "7 host a label with % and \\ in it", "1 h\u{e4}st \u{9501}", "nobody"]);
    let departure = || {
        let ticket = 0..TICKETS.len();
        let leave_or_yield = |(leave, ticket)| if leave { Departure::Leave(ticket) } else { Departure::Yield(ticket) };
        (any::<bool>(), ticket).prop_map(leave_or_yield)
    };
    let kind = prop_oneof![
        10 => (proposal(), ttl(), holder(), option::weighted(0.6, 0..TICKETS.len()))
            .prop_map(|(fence, ttl, holder, waiter)| Kind::Acquire { fence, ttl, holder, waiter }),
        4 => (proposal(), ttl(), holder(), any::<bool>())
            .prop_map(|(fence, ttl, holder, repair)| Kind::Renew { fence, ttl, holder, repair }),
        8 => (option::weighted(0.2, 1..3_000_u64), option::weighted(0.6, departure()))
            .prop_map(|(tombstone, parting)| Kind::Release { tombstone, parting }),
        1 => (0..OWNERS.len(), 1..3_000_u64).prop_map(|(owner, tombstone)| Kind::Retire { owner, tombstone }),
        2 => Just(Kind::Inspect),
        3 => Just(Kind::Check),
        3 => (any::<bool>(), target())
            .prop_map(|(now, target)| {
                Kind::Break { mode: if now { BreakMode::Now } else { BreakMode::Drain }, target }
            }),
        2 => ttl().prop_map(|ttl| Kind::PlainAcquire { ttl }),
        1 => ttl().prop_map(|ttl| Kind::PlainExtend { ttl }),
        1 => Just(Kind::PlainRelease),
    ];
    (0..NAMES, any::<Index>(), 0..4_u32, kind).prop_map(|(name, role, slot, kind)| Intent { name, role, slot, kind })
}

/// Returns similar requests, some of which are bundled.
fn similar_intents() -> impl Strategy<Value = Vec<Intent>> {
    // Requests with different ttls are not bundled together.
    let ttl = || prop_oneof![9 => Just(2_000_u64), 1 => Just(100)];
    let waiter = || option::weighted(0.3, 0..TICKETS.len());
    let renew = || {
        (proposal(), ttl(), prop_oneof![4 => Just(true), 1 => Just(false)])
            .prop_map(|(fence, ttl, repair)| Kind::Renew { fence, ttl, holder: "7 host ", repair })
    };
    let acquire = || {
        (proposal(), ttl(), waiter()).prop_map(|(fence, ttl, waiter)| Kind::Acquire {
            fence,
            ttl,
            holder: "7 host ",
            waiter,
        })
    };
    let scripted = prop_oneof![
        8 => acquire(),
        8 => Just(Kind::Release { tombstone: None, parting: None }),
        1 => (0..TICKETS.len())
            .prop_map(|ticket| Kind::Release { tombstone: None, parting: Some(Departure::Yield(ticket)) }),
        1 => renew(),
        1 => Just(Kind::Check),
    ];
    let acquired = prop_oneof![12 => acquire(), 1 => Just(Kind::Release { tombstone: None, parting: None })];
    let renewed = prop_oneof![12 => renew(), 1 => Just(Kind::Release { tombstone: None, parting: None })];
    let plain = prop_oneof![
        2 => ttl().prop_map(|ttl| Kind::PlainAcquire { ttl }),
        2 => ttl().prop_map(|ttl| Kind::PlainExtend { ttl }),
        3 => Just(Kind::PlainRelease),
    ];
    let intent = |kind| {
        (0..NAMES, any::<Index>(), 0..4_u32, kind).prop_map(|(name, role, slot, kind)| Intent {
            name,
            role,
            slot,
            kind,
        })
    };
    prop_oneof![
        3 => vec(intent(scripted.boxed()), 2..8),
        3 => vec(intent(acquired.boxed()), 2..8),
        5 => vec(intent(renewed.boxed()), 2..8),
        1 => vec(intent(plain.boxed()), 2..8),
    ]
}

fn target() -> impl Strategy<Value = BreakTarget> {
    prop_oneof![
        6 => Just(BreakTarget::Stored(0)),
        1 => select(vec![-1, 1]).prop_map(BreakTarget::Stored),
        2 => Just(BreakTarget::CurrentVote),
        1 => any::<Index>().prop_map(BreakTarget::Digest),
    ]
}

fn proposal() -> impl Strategy<Value = Proposal> {
    prop_oneof![
        6 => (-5..5_i64).prop_map(Proposal::Clock),
        1 => (-20_000_000..20_000_000_i64).prop_map(Proposal::Clock),
        2 => (-1..2_i64).prop_map(Proposal::Limit),
        3 => (-2..3_i64).prop_map(Proposal::Stored),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let trust = || prop_oneof![2 => Just(None), 1 => select(vec![-1_000_000, 0, 2_000_000]).prop_map(Some)];
    let identity = || prop_oneof![5 => Just(0), 2 => 1..IDENTITIES.len()];
    let constants = || prop_oneof![5 => Just(0), 1 => 1..CONSTANTS];
    let span = prop_oneof![
        2 => (0..1_000_000_u64).prop_map(Span::Micros),
        2 => (-1_000_000..1_000_000_i64).prop_map(Span::HighestClaim),
        1 => (-1..2_i64).prop_map(Span::HighestClaim),
        2 => (-1..2_i64).prop_map(Span::Whole),
    ];
    prop_oneof![
        1 => Just(Command::Look),
        3 => (identity(), constants(), select(vec!["", "r1,r2"]), trust())
            .prop_map(|(identity, constants, founders, trust)| Command::Hello { identity, constants, founders, trust }),
        12 => (known_life(), span).prop_map(|(life, span)| Command::Claim { life, span }),
        1 => (identity(), constants()).prop_map(|(identity, constants)| Command::Init { identity, constants }),
        3 => (identity(), 0..CONSTANTS, trust(), any::<bool>()).prop_map(|(identity, constants, trust, suspend)| {
            Command::Reconfigure { identity, constants, trust, suspend }
        }),
    ]
}
