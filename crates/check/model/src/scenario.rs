//! The scenarios: for each rule, a beginning from which its absence shows.

mod beginnings;

use std::sync::Arc;

use quorlock_core::rules::{Rule, Rules};

use crate::queue::fair::{Fair, Mishaps};
use crate::queue::{self, world::Flaws};
use crate::search::{Finding, exhaust, shortest};
use crate::setup::{Flaw, Setup};
use crate::slots::{self, Slots};
pub use beginnings::{
    a_reader_a_writer_and_a_restart, a_reader_who_reads_again_and_a_writer, an_owner_who_enters_twice_and_a_restart,
    detached_and_repaired, one_trusted_node, two_for_two_slots_and_a_restart, two_owners_and_a_restart,
    two_readers_a_writer_and_a_restart, votes_that_vanish, votes_that_vanish_before_a_waiter, votes_that_vanish_twice,
};
use beginnings::{
    broken_at_once, broken_at_once_for_a_waiter, broken_to_drain, broken_too_late, broken_while_renewing,
    broken_with_mishaps, coming_back, crash, crash_and_jump, crash_between_clocks_at_their_limit,
    crash_with_clients_off_the_clock, cut_off, detached, flushed, handed_on, handed_on_with_mishaps, old_snapshot,
    one_node_ahead, one_node_ahead_and_two_rivals, one_who_turns_away, one_who_turns_away_while_requests_wait,
    one_whose_release_is_lost, plain_and_flushed, plainly_two, rates_at_their_limit, renewals_late,
    renewals_with_slow_answers, restless_holder, retired, retired_elsewhere, retired_for_another, rolled_back,
    second_try_over_a_broken_connection, second_try_with_slow_answers, slow_answers, two_addresses, two_claimants,
    two_everywhere, two_losses, two_readers_and_a_writer, two_who_wait, waiting_through_a_restart,
};

/// A rule, and the search that shows what it is for.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What selects it.
    pub name: &'static str,
    /// The rule that is missing.
    pub rule: &'static str,
    /// What is done instead.
    pub mutant: &'static str,
    /// How it is searched.
    pub hunt: Hunt,
    /// Whether it takes seconds at most.
    pub is_quick: bool,
}

/// Where a search begins, with all rules in force.
pub type Beginning = fn() -> Setup;

/// What is searched for, and how the rule is switched off.
#[derive(Clone, Copy)]
pub enum Hunt {
    /// Leases and fences: the flaw, and where to begin with all rules in force.
    Lease(Flaw, Beginning),
    /// Waiters.
    Queue(fn() -> Flaws),
}

impl Hunt {
    /// Searches with all rules.
    pub fn with(self) -> Finding {
        match self {
            Self::Lease(_, setup) => exhaust(&Arc::new(setup())),
            Self::Queue(_) => queue::search::search(Flaws::default()),
        }
    }

    /// Searches without this one.
    pub fn without(self) -> Finding {
        match self {
            Self::Lease(flaw, setup) => shortest(&Arc::new(Setup { flaw: Some(flaw), ..setup() })),
            Self::Queue(flaws) => queue::search::search(flaws()),
        }
    }
}

const fn scenario(
    name: &'static str,
    rule: &'static str,
    mutant: &'static str,
    flaw: Flaw,
    setup: fn() -> Setup,
) -> Scenario {
    Scenario { name, rule, mutant, hunt: Hunt::Lease(flaw, setup), is_quick: true }
}

const fn waiting(name: &'static str, rule: &'static str, mutant: &'static str, flaws: fn() -> Flaws) -> Scenario {
    Scenario { name, rule, mutant, hunt: Hunt::Queue(flaws), is_quick: true }
}

impl Scenario {
    /// One that takes its time.
    const fn slow(self) -> Self {
        Self { is_quick: false, ..self }
    }
}

/// All of them.
pub const ALL: &[Scenario] = &[
    scenario(
        "count-from-send",
        "validity counts from the send",
        "validity counts from the reply",
        Flaw::Core(Rule::CountFromSend),
        slow_answers,
    ),
    scenario(
        "count-from-the-refused",
        "a vote that is handed on counts from the send of what was refused",
        "it counts from when it is heard of",
        Flaw::Core(Rule::CountFromSend),
        handed_on,
    ),
    scenario(
        "attempt-reused",
        "every attempt has an id of its own",
        "a client uses one id for all of its attempts",
        Flaw::AttemptReused,
        second_try_over_a_broken_connection,
    ),
    scenario(
        "attempt-shared",
        "an attempt id is one client's",
        "two replicas share an attempt id",
        Flaw::AttemptShared,
        plainly_two,
    ),
    scenario(
        "replies-matched",
        "an answer counts for the attempt that asked",
        "answers are taken for those to the latest request",
        Flaw::RepliesUnmatched,
        second_try_with_slow_answers,
    ),
    scenario("drift", "drift is taken off the ttl", "the whole ttl is used", Flaw::NoDrift, rates_at_their_limit),
    scenario("quarantine", "a node that lost its memory is quarantined", "no quarantine", Flaw::NoQuarantine, crash),
    scenario(
        "quarantine-length",
        "the quarantine lasts for max_ttl and a tenth",
        "four milliseconds are missing",
        Flaw::QuarantineShort,
        crash_between_clocks_at_their_limit,
    ),
    scenario(
        "handshake",
        "the handshake belongs to the connection",
        "silent reconnect, and no epoch check",
        Flaw::HandshakeUntied,
        crash,
    ),
    scenario(
        "epoch",
        "a request is carried out in the epoch that it names",
        "scripts do not check the epoch, and a server is emptied",
        Flaw::EpochUnchecked,
        flushed,
    ),
    scenario(
        "rollback",
        "a running server that takes over other data begins a new life",
        "nobody looks at a server's promotions, and a server takes over an old copy",
        Flaw::RollbackUnnoticed,
        rolled_back,
    ),
    scenario(
        "claims",
        "clients claim how much of a quarantine has passed",
        "a node's age is told by its uptime",
        Flaw::Uptime,
        crash_and_jump,
    ),
    scenario(
        "highest-claim",
        "the highest claim counts",
        "claims are added",
        Flaw::Core(Rule::HighestClaim),
        two_claimants,
    ),
    scenario(
        "equal-fences",
        "a majority carries one and the same fence",
        "the highest fence of the majority is taken",
        Flaw::Core(Rule::EqualFences),
        one_node_ahead,
    ),
    scenario(
        "raise-own-votes",
        "a fence is raised under one's own vote",
        "a raise counts on any node",
        Flaw::RaiseAnyVote,
        one_node_ahead_and_two_rivals,
    ),
    scenario(
        "floor",
        "a node that lost its memory takes a floor",
        "it begins its fences anew",
        Flaw::FloorLost,
        crash_with_clients_off_the_clock,
    ),
    scenario(
        "restored-fence",
        "the floor is above what was restored",
        "a stale fence is back from an old AOF or RDB",
        Flaw::FenceRestored,
        old_snapshot,
    ),
    scenario(
        "trust-floor",
        "a trusted single node takes a floor after a restart",
        "trust without a floor",
        Flaw::TrustWithoutFloor,
        one_trusted_node,
    ),
    scenario(
        "rounds-apart",
        "grants of different renewals are not added up",
        "grants of two rounds are added up",
        Flaw::RoundsAdded,
        renewals_with_slow_answers,
    )
    .slow(),
    scenario(
        "lost-is-final",
        "lost is final",
        "a late renewal revives a lost lease",
        Flaw::Core(Rule::LostIsFinal),
        renewals_late,
    ),
    scenario(
        "extend-only",
        "a lease without its hold is only extended",
        "a renewal re-creates a vote without a living hold",
        Flaw::ExtensionRepairs,
        detached,
    ),
    scenario(
        "release-everywhere",
        "a release goes to all nodes",
        "release only on granting nodes",
        Flaw::Core(Rule::ReleaseEverywhere),
        one_who_turns_away,
    ),
    scenario(
        "tombstone",
        "a release sent again leaves a tombstone",
        "no tombstone",
        Flaw::Core(Rule::LeaveTombstones),
        one_who_turns_away,
    ),
    scenario(
        "owed-release",
        "a release stays owed until it is acknowledged",
        "a release is dropped with its connection",
        Flaw::Core(Rule::OweReleases),
        one_whose_release_is_lost,
    ),
    scenario(
        "release-in-order",
        "a release follows the requests of its attempt",
        "a release overtakes its acquire",
        Flaw::Core(Rule::ReleaseInOrder),
        one_who_turns_away_while_requests_wait,
    ),
    scenario(
        "configured-majority",
        "N comes from the configuration",
        "N is taken from who is connected",
        Flaw::ReachableMajority,
        cut_off,
    ),
    scenario(
        "one-server-one-vote",
        "one server has one vote",
        "one server is counted twice",
        Flaw::ServerTwice,
        two_addresses,
    ),
    scenario(
        "plain-epoch",
        "plain votes count if the epoch stayed",
        "plain votes are counted after FLUSHALL",
        Flaw::PlainUnchecked,
        plain_and_flushed,
    ),
    scenario(
        "own-entry",
        "a release ends its own entry only",
        "a release voids the holds of other entries",
        Flaw::ReleaseVoids,
        two_readers_and_a_writer,
    ),
    scenario(
        "break-drains",
        "a lease that is broken drains",
        "a break frees the name at once",
        Flaw::BreakFrees,
        broken_to_drain,
    ),
    scenario(
        "break-tombstone",
        "what is broken leaves a tombstone",
        "the holder's next renewal is carried out",
        Flaw::BreakForgets,
        broken_at_once,
    ),
    scenario(
        "break-by-fence",
        "a break ends the lease that it names",
        "a break ends whatever stands",
        Flaw::BreakAny,
        broken_too_late,
    ),
    scenario(
        "doubt",
        "who hears of a break asks after that",
        "a renewal that is under way will do",
        Flaw::DoubtOnce,
        broken_while_renewing,
    ),
    scenario(
        "retire-tombstone",
        "a retired owner is refused",
        "its late request is granted",
        Flaw::RetireForgets,
        retired,
    ),
    scenario(
        "retire-one-name",
        "a retirement acts on the name that it names",
        "it acts on every name of the owner",
        Flaw::RetireEverywhere,
        retired_elsewhere,
    ),
    waiting("yield", "a waiter gives its votes back to a lower ticket", "queue without yield", || Flaws {
        rules: Rules::without(Rule::Yield),
        ..Flaws::default()
    }),
    waiting(
        "yield-to-voters",
        "also to one that has the vote of the node that refused",
        "yield only on \"not first\" refusals",
        || Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() },
    ),
    waiting("quiet-yield", "a yield hints those in front of the yielder", "a yield that wakes itself", || Flaws {
        self_waking: true,
        ..Flaws::default()
    }),
];

/// A search with all rules in force.
#[derive(Clone, Copy)]
pub enum Wide {
    /// Leases and fences, with several mishaps at once.
    Leases(Beginning),
    /// Waiters, on every fair schedule.
    Queue(fn() -> Fair),
    /// Permits.
    Slots(fn() -> Slots),
}

impl Wide {
    /// Looks at all of it.
    pub fn search(self) -> Finding {
        match self {
            Self::Leases(setup) => exhaust(&Arc::new(setup())),
            Self::Queue(fair) => fair().search(),
            Self::Slots(slots) => slots().search().0,
        }
    }
}

/// The wider searches.
pub const WIDE: &[(&str, Wide)] = &[
    ("two clients that reach every node, an answer held back, a holder that lets go", Wide::Leases(two_everywhere)),
    ("renewals, a restart, a holder that lets go", Wide::Leases(restless_holder)),
    ("a restart and an emptied server, with clocks at their limit", Wide::Leases(two_losses)),
    (
        "a client that asks twice, an answer held back, a broken connection, a holder that lets go",
        Wide::Leases(coming_back),
    ),
    (
        "a waiter, an answer held back, a broken connection, a caller who turns away",
        Wide::Leases(handed_on_with_mishaps),
    ),
    ("two waiters, one of whom may turn away", Wide::Leases(two_who_wait)),
    ("a waiter, and a server that restarts with its snapshot", Wide::Leases(waiting_through_a_restart)),
    (
        "a lease that is renewed and broken, an answer held back, a broken connection, a holder that lets go",
        Wide::Leases(broken_with_mishaps),
    ),
    (
        "a lease that is broken to be free at once, with a waiter and an answer held back: fences only",
        Wide::Leases(broken_at_once_for_a_waiter),
    ),
    (
        "an owner who renews and is retired, another who comes after it, an answer held back",
        Wide::Leases(retired_for_another),
    ),
    ("a reader who renews, a writer, a restart, one who lets go", Wide::Leases(a_reader_a_writer_and_a_restart)),
    ("two readers, a writer, a restart, one who lets go, at once", Wide::Leases(two_readers_a_writer_and_a_restart)),
    ("an owner who renews, another, a restart, one who lets go", Wide::Leases(two_owners_and_a_restart)),
    (
        "an owner who enters twice, another, a restart, one who lets go, at once",
        Wide::Leases(an_owner_who_enters_twice_and_a_restart),
    ),
    (
        "a clock that jumps and drops votes, one who renews, an answer held back, a holder that lets go: fences only",
        Wide::Leases(votes_that_vanish),
    ),
    (
        "a clock that jumps twice and drops votes, three clients, an answer held back, at once: fences only",
        Wide::Leases(votes_that_vanish_twice),
    ),
    (
        "a clock that jumps and drops votes, with a waiter and an answer held back, at once: fences only",
        Wide::Leases(votes_that_vanish_before_a_waiter),
    ),
    ("three for one slot, who let go", Wide::Slots(slots::three_for_one)),
    ("three for two slots, one who lets go", Wide::Slots(slots::three_for_two)),
    ("three for two slots, a lost answer", Wide::Slots(slots::three_for_two_and_a_lost_answer)),
    ("two who wait for one slot, one who lets go", Wide::Slots(slots::two_who_wait_for_one)),
    ("two for two slots, a restart, one who lets go, at once", Wide::Leases(two_for_two_slots_and_a_restart)),
    ("two waiters, a lost request: every fair schedule serves both", Wide::Queue(two_waiters)),
    (
        "two waiters, one of whom dies, a lost request: every fair schedule serves the other",
        Wide::Queue(two_and_a_death),
    ),
    (
        "two waiters, a place that is forgotten, a lost request: every fair schedule serves both",
        Wide::Queue(two_and_a_forgotten_place),
    ),
    ("two waiters without hints, a lost request: every fair schedule serves both", Wide::Queue(two_who_are_deaf)),
    ("three waiters, a node down, a lost request: every fair schedule serves all", Wide::Queue(three_and_a_node_down)),
    ("three waiters: every fair schedule serves one of them", Wide::Queue(three_waiters)),
];

/// Two waiters, one of whom loses a request.
pub fn two_waiters() -> Fair {
    let mishaps = Mishaps { loss: true, ..Mishaps::default() };
    Fair { waiters: 2, mishaps, to_the_last: true, flaws: Flaws::default() }
}

/// Two waiters, one of whom dies, and a lost request.
pub fn two_and_a_death() -> Fair {
    Fair { mishaps: Mishaps { loss: true, death: true, ..Mishaps::default() }, ..two_waiters() }
}

/// Two waiters, one of whose places is forgotten, and a lost request.
pub fn two_and_a_forgotten_place() -> Fair {
    Fair { mishaps: Mishaps { loss: true, forgotten: true, ..Mishaps::default() }, ..two_waiters() }
}

/// Two waiters who hear no hints, and not of votes that are handed on; and a lost request.
pub fn two_who_are_deaf() -> Fair {
    Fair { flaws: Flaws { deaf: true, ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters and two nodes that answer.
pub fn three_and_a_node_down() -> Fair {
    Fair { waiters: 3, flaws: Flaws { down: Some(0), ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters, until the first of them is served.
pub fn three_waiters() -> Fair {
    Fair { waiters: 3, mishaps: Mishaps::default(), to_the_last: false, ..two_waiters() }
}
