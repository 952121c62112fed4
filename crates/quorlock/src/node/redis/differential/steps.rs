//! What can happen to a node, drawn at random.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use quorlock_core::request::BreakMode;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Pass(Jump),
    Send {
        life: Known,
        batch: Vec<Intent>,
    },
    Visit(Visit),
    /// Something else deletes the epoch.
    WipeEpoch,
    /// Something else deletes everything.
    WipeAll,
    /// The last fence of a name was this far from the largest that there is.
    NearTheLastFence {
        name: usize,
        below: u64,
    },
    /// Something else deletes the vote, but not what goes with it.
    Vanish {
        name: usize,
    },
}

/// How time passes.
#[derive(Clone, Debug)]
pub(super) enum Jump {
    /// By this many microseconds, perhaps back.
    By(i64),
    /// To this many microseconds from the millisecond in which something lapses.
    ToTheEndOf { what: Index, offset: i64 },
}

/// Which life of the node the client believes in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known {
    Current,
    Earlier,
    None,
}

/// A request about one of the names, by one of the story's cast.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) name: usize,
    pub(super) who: Index,
    /// Where a semaphore's looking begins.
    pub(super) slot: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Acquire { fence: Bid, ttl: u64, holder: &'static str, waiter: Option<usize> },
    Renew { fence: Bid, ttl: u64, holder: &'static str, repair: bool },
    Release { tombstone: Option<u64>, parting: Option<Away> },
    Retire { owner: usize, tombstone: u64 },
    Inspect,
    Check,
    Break { mode: BreakMode, aim: Aim },
    PlainAcquire { ttl: u64 },
    PlainExtend { ttl: u64 },
    PlainRelease,
}

/// What becomes of a waiter's place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Away {
    Leave(usize),
    Yield(usize),
}

/// How an attempt wants to hold: it is the same in all its requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Alone,
    Writer { owner: u128 },
    Reentrant { owner: u128 },
    Reader { owner: u128, reenters: bool },
    Slot { permits: u32 },
}

/// The owners that there are: no attempt has the same bits.
pub(super) const OWNERS: [u128; 3] = [0x101, 0x102, 0x103];

/// The attempts that there are.
pub(super) const ROLES: [Role; 16] = [
    Role::Alone,
    Role::Alone,
    Role::Alone,
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

/// Which of them a story is about: with all of them at once hardly anybody would get a vote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cast(pub(super) &'static [usize]);

const CASTS: [Cast; 5] = [
    Cast(&[0, 1, 2]),
    Cast(&[3, 4, 8, 9, 10, 15]),
    Cast(&[0, 5, 6, 7]),
    Cast(&[11, 12, 13, 14]),
    Cast(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
];

/// The waiters' tickets: how far from the start, which id, and whether it shares.
pub(super) const TICKETS: [(u64, u64, bool); 6] = [
    (0, 0x8000_0000_0000_0001, true),
    (0, 0x8000_0000_0000_0000, false),
    (0, 0xf, true),
    (1, 0, false),
    (2, 0xffff_ffff_ffff_ffff, true),
    (9_999_999, 0xa, false),
];

/// What is to be broken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    /// What has a fence this far from the stored one.
    Stored(i64),
    /// What stands, by its digest.
    Standing,
    /// Somebody's, by the digest.
    Digest(Index),
}

/// The fence that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bid {
    /// This far from the node's clock.
    Clock(i64),
    /// This far from the cluster's max clock skew ahead of it.
    Limit(i64),
    /// This far from what the node has stored.
    Stored(i64),
}

/// a node command, but for what depends on what came before.
#[derive(Clone, Debug)]
pub(super) enum Visit {
    Look,
    Hello { identity: usize, constants: usize, founders: &'static str, trust: Option<i64> },
    Claim { life: Known, span: Span },
    Init { identity: usize, constants: usize },
    Reconfigure { identity: usize, constants: usize, trust: Option<i64>, suspend: bool },
}

/// How much of a quarantine is claimed to have passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    Micros(u64),
    /// This much more than the highest claim.
    Known(i64),
    /// This much more than the quarantine.
    Whole(i64),
}

/// Who takes part, a node's first node command, and what happens then.
pub(super) fn stories() -> impl Strategy<Value = (Cast, Visit, Vec<Step>)> {
    let blank = Visit::Hello { identity: 0, constants: 0, founders: "r1,r2", trust: None };
    // Most of a node's life it can vote; the rest is short and eventful.
    prop_oneof![
        4 => (select(CASTS.to_vec()), Just(Visit::Init { identity: 0, constants: 0 }), steps(80, 5)),
        1 => (select(CASTS.to_vec()), Just(blank), steps(5, 60)),
    ]
}

fn steps(votes: u32, visits: u32) -> impl Strategy<Value = Vec<Step>> {
    let near = (0..NAMES, 0..3_u64).prop_map(|(name, below)| Step::NearTheLastFence { name, below });
    let step = prop_oneof![
        30 => jump().prop_map(Step::Pass),
        votes => (known(), vec(intent(), 1..6)).prop_map(|(life, batch)| Step::Send { life, batch }),
        votes => (known(), crowd()).prop_map(|(life, batch)| Step::Send { life, batch }),
        visits => visit().prop_map(Step::Visit),
        2 => (0..NAMES).prop_map(|name| Step::Vanish { name }),
        1 => Just(Step::WipeEpoch),
        1 => Just(Step::WipeAll),
        1 => near,
    ];
    vec(step, 1..60)
}

/// How many names, channels and sets of constants there are.
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

fn known() -> impl Strategy<Value = Known> {
    prop_oneof![18 => Just(Known::Current), 1 => Just(Known::Earlier), 1 => Just(Known::None)]
}

fn intent() -> impl Strategy<Value = Intent> {
    let ttl = || prop_oneof![Just(100_u64), 100..3_000_u64];
    // A label may hold anything that can be printed; a holder that nobody of ours wrote says nothing.
    let holder = || select(vec!["7 host ", "7 host a label with % and \\ in it", "1 h\u{e4}st \u{9501}", "nobody"]);
    let away = || {
        let waiter = 0..TICKETS.len();
        (any::<bool>(), waiter).prop_map(|(leave, who)| if leave { Away::Leave(who) } else { Away::Yield(who) })
    };
    let kind = prop_oneof![
        10 => (bid(), ttl(), holder(), option::weighted(0.6, 0..TICKETS.len()))
            .prop_map(|(fence, ttl, holder, waiter)| Kind::Acquire { fence, ttl, holder, waiter }),
        4 => (bid(), ttl(), holder(), any::<bool>())
            .prop_map(|(fence, ttl, holder, repair)| Kind::Renew { fence, ttl, holder, repair }),
        8 => (option::weighted(0.2, 1..3_000_u64), option::weighted(0.6, away()))
            .prop_map(|(tombstone, parting)| Kind::Release { tombstone, parting }),
        1 => (0..OWNERS.len(), 1..3_000_u64).prop_map(|(owner, tombstone)| Kind::Retire { owner, tombstone }),
        2 => Just(Kind::Inspect),
        3 => Just(Kind::Check),
        3 => (any::<bool>(), aim())
            .prop_map(|(now, aim)| Kind::Break { mode: if now { BreakMode::Now } else { BreakMode::Drain }, aim }),
        2 => ttl().prop_map(|ttl| Kind::PlainAcquire { ttl }),
        1 => ttl().prop_map(|ttl| Kind::PlainExtend { ttl }),
        1 => Just(Kind::PlainRelease),
    ];
    (0..NAMES, any::<Index>(), 0..4_u32, kind).prop_map(|(name, who, slot, kind)| Intent { name, who, slot, kind })
}

/// Letters that are alike: some of them go together.
fn crowd() -> impl Strategy<Value = Vec<Intent>> {
    // Those with another ttl go by themselves.
    let ttl = || prop_oneof![9 => Just(2_000_u64), 1 => Just(100)];
    let waiter = || option::weighted(0.3, 0..TICKETS.len());
    let renew =
        || {
            (bid(), ttl(), prop_oneof![4 => Just(true), 1 => Just(false)])
                .prop_map(|(fence, ttl, repair)| Kind::Renew { fence, ttl, holder: "7 host ", repair })
        };
    let acquire = || {
        (bid(), ttl(), waiter()).prop_map(|(fence, ttl, waiter)| Kind::Acquire {
            fence,
            ttl,
            holder: "7 host ",
            waiter,
        })
    };
    let scripted = prop_oneof![
        8 => acquire(),
        8 => Just(Kind::Release { tombstone: None, parting: None }),
        1 => (0..TICKETS.len()).prop_map(|who| Kind::Release { tombstone: None, parting: Some(Away::Yield(who)) }),
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
        (0..NAMES, any::<Index>(), 0..4_u32, kind).prop_map(|(name, who, slot, kind)| Intent { name, who, slot, kind })
    };
    prop_oneof![
        3 => vec(intent(scripted.boxed()), 2..8),
        3 => vec(intent(acquired.boxed()), 2..8),
        5 => vec(intent(renewed.boxed()), 2..8),
        1 => vec(intent(plain.boxed()), 2..8),
    ]
}

fn aim() -> impl Strategy<Value = Aim> {
    prop_oneof![
        6 => Just(Aim::Stored(0)),
        1 => select(vec![-1, 1]).prop_map(Aim::Stored),
        2 => Just(Aim::Standing),
        1 => any::<Index>().prop_map(Aim::Digest),
    ]
}

fn bid() -> impl Strategy<Value = Bid> {
    prop_oneof![
        6 => (-5..5_i64).prop_map(Bid::Clock),
        1 => (-20_000_000..20_000_000_i64).prop_map(Bid::Clock),
        2 => (-1..2_i64).prop_map(Bid::Limit),
        3 => (-2..3_i64).prop_map(Bid::Stored),
    ]
}

fn visit() -> impl Strategy<Value = Visit> {
    let trust = || prop_oneof![2 => Just(None), 1 => select(vec![-1_000_000, 0, 2_000_000]).prop_map(Some)];
    let identity = || prop_oneof![5 => Just(0), 2 => 1..IDENTITIES.len()];
    let constants = || prop_oneof![5 => Just(0), 1 => 1..CONSTANTS];
    let span = prop_oneof![
        2 => (0..1_000_000_u64).prop_map(Span::Micros),
        2 => (-1_000_000..1_000_000_i64).prop_map(Span::Known),
        1 => (-1..2_i64).prop_map(Span::Known),
        2 => (-1..2_i64).prop_map(Span::Whole),
    ];
    prop_oneof![
        1 => Just(Visit::Look),
        3 => (identity(), constants(), select(vec!["", "r1,r2"]), trust())
            .prop_map(|(identity, constants, founders, trust)| Visit::Hello { identity, constants, founders, trust }),
        12 => (known(), span).prop_map(|(life, span)| Visit::Claim { life, span }),
        1 => (identity(), constants()).prop_map(|(identity, constants)| Visit::Init { identity, constants }),
        3 => (identity(), 0..CONSTANTS, trust(), any::<bool>()).prop_map(|(identity, constants, trust, suspend)| {
            Visit::Reconfigure { identity, constants, trust, suspend }
        }),
    ]
}
