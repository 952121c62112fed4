//! What can happen to a node, drawn at random.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Pass(Jump),
    Send {
        life: Known,
        batch: Vec<Letter>,
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
}

/// How time passes.
#[derive(Clone, Debug)]
pub(super) enum Jump {
    /// By this many microseconds, perhaps back.
    By(i64),
    /// To this many microseconds from the millisecond in which something lapses, or a witness has to give way.
    ToTheEndOf { what: Index, offset: i64 },
}

/// Which life of the node the client believes in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known {
    Current,
    Earlier,
    None,
}

/// A request about one of the names, by one of the attempts.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) name: usize,
    pub(super) who: u128,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Acquire { fence: Bid, ttl: u64, holder: &'static str },
    Renew { fence: Bid, ttl: u64, holder: &'static str, repair: bool },
    Release { tombstone: Option<u64> },
    PlainAcquire { ttl: u64 },
    PlainExtend { ttl: u64 },
    PlainRelease,
}

/// The fence that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bid {
    /// This far from the node's clock.
    Clock(i64),
    /// This far from the cluster's sigma ahead of it.
    Limit(i64),
    /// This far from what the node has stored.
    Stored(i64),
}

/// An errand, but for what depends on what came before.
#[derive(Clone, Debug)]
pub(super) enum Visit {
    Look,
    Hello { run: usize, constants: usize, founders: &'static str, trust: Option<i64> },
    Witness { life: Known, who: u128 },
    Add { life: Known, who: u128, micros: Span },
    Ripen { life: Known },
    Init { run: usize, constants: usize },
}

/// How long an epoch has stood.
#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    Micros(u64),
    /// This much more than what is left of the quarantine.
    Rest(i64),
}

/// A node's first errand, and what happens then.
pub(super) fn stories() -> impl Strategy<Value = (Visit, Vec<Step>)> {
    let blank = Visit::Hello { run: 0, constants: 0, founders: "r1,r2", trust: None };
    // Most of a node's life is spent ripe; the rest is short and eventful.
    prop_oneof![
        3 => (Just(Visit::Init { run: 0, constants: 0 }), steps(60, 15)),
        2 => (Just(blank), steps(5, 60)),
    ]
}

fn steps(votes: u32, visits: u32) -> impl Strategy<Value = Vec<Step>> {
    let near = (0..NAMES, 0..3_u64).prop_map(|(name, below)| Step::NearTheLastFence { name, below });
    let step = prop_oneof![
        30 => jump().prop_map(Step::Pass),
        votes => (known(), vec(letter(), 1..4)).prop_map(|(life, batch)| Step::Send { life, batch }),
        visits => visit().prop_map(Step::Visit),
        2 => Just(Step::WipeEpoch),
        1 => Just(Step::WipeAll),
        1 => near,
    ];
    vec(step, 1..60)
}

/// How many names, attempts, runs and sets of constants there are.
pub(super) const NAMES: usize = 2;
pub(super) const ATTEMPTS: u128 = 4;
pub(super) const RUNS: usize = 2;
pub(super) const CONSTANTS: usize = 5;

fn jump() -> impl Strategy<Value = Jump> {
    let edge = select(vec![-1, 0, 1, 999, 1_000, 1_001]);
    prop_oneof![
        2 => (0..3_i64).prop_map(Jump::By),
        3 => (0..3_001_000_i64).prop_map(Jump::By),
        1 => (-3_000_000..0_i64).prop_map(Jump::By),
        3 => (any::<Index>(), edge).prop_map(|(what, offset)| Jump::ToTheEndOf { what, offset }),
    ]
}

fn known() -> impl Strategy<Value = Known> {
    prop_oneof![18 => Just(Known::Current), 1 => Just(Known::Earlier), 1 => Just(Known::None)]
}

fn letter() -> impl Strategy<Value = Letter> {
    let ttl = || prop_oneof![Just(100_u64), 100..3_000_u64];
    // A label may hold anything that can be printed; a holder that nobody of ours wrote says nothing.
    let holder = || select(vec!["7 host ", "7 host a label with % and \\ in it", "1 h\u{e4}st \u{9501}", "nobody"]);
    let kind = prop_oneof![
        5 => (bid(), ttl(), holder()).prop_map(|(fence, ttl, holder)| Kind::Acquire { fence, ttl, holder }),
        4 => (bid(), ttl(), holder(), any::<bool>())
            .prop_map(|(fence, ttl, holder, repair)| Kind::Renew { fence, ttl, holder, repair }),
        3 => option::weighted(0.3, 1..3_000_u64).prop_map(|tombstone| Kind::Release { tombstone }),
        2 => ttl().prop_map(|ttl| Kind::PlainAcquire { ttl }),
        1 => ttl().prop_map(|ttl| Kind::PlainExtend { ttl }),
        1 => Just(Kind::PlainRelease),
    ];
    (0..NAMES, 0..ATTEMPTS, kind).prop_map(|(name, who, kind)| Letter { name, who, kind })
}

fn bid() -> impl Strategy<Value = Bid> {
    prop_oneof![
        3 => (-5..5_i64).prop_map(Bid::Clock),
        1 => (-20_000_000..20_000_000_i64).prop_map(Bid::Clock),
        2 => (-1..2_i64).prop_map(Bid::Limit),
        3 => (-2..3_i64).prop_map(Bid::Stored),
    ]
}

fn visit() -> impl Strategy<Value = Visit> {
    let trust = prop_oneof![2 => Just(None), 1 => select(vec![-1_000_000, 0, 2_000_000]).prop_map(Some)];
    let run = || prop_oneof![5 => Just(0), 1 => 1..RUNS];
    let constants = || prop_oneof![5 => Just(0), 1 => 1..CONSTANTS];
    let who = || 1..3_u128;
    let span = prop_oneof![(0..1_000_000_u64).prop_map(Span::Micros), (-1..2_i64).prop_map(Span::Rest)];
    prop_oneof![
        1 => Just(Visit::Look),
        3 => (run(), constants(), select(vec!["", "r1,r2"]), trust)
            .prop_map(|(run, constants, founders, trust)| Visit::Hello { run, constants, founders, trust }),
        6 => (known(), who()).prop_map(|(life, who)| Visit::Witness { life, who }),
        6 => (known(), who(), span).prop_map(|(life, who, micros)| Visit::Add { life, who, micros }),
        4 => known().prop_map(|life| Visit::Ripen { life }),
        1 => (run(), constants()).prop_map(|(run, constants)| Visit::Init { run, constants }),
    ]
}
