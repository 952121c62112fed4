//! The scenarios: for each rule, a setup in which its absence causes a violation.

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

/// A rule, and the search that shows why it is needed.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The name for the command line.
    pub name: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// The behaviour without the rule.
    pub mutant: &'static str,
    /// The search.
    pub hunt: Hunt,
    /// Whether it takes at most seconds.
    pub is_quick: bool,
}

/// The setup of a search, with all rules.
pub type Beginning = fn() -> Setup;

/// A kind of search, and how it switches the rule off.
#[derive(Clone, Copy)]
pub enum Hunt {
    /// Leases and fences: the flaw, and the setup with all rules.
    Lease(Flaw, Beginning),
    /// The waiting queue.
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

    /// Searches without the rule.
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
    /// Marks a scenario that takes more than seconds.
    const fn slow(self) -> Self {
        Self { is_quick: false, ..self }
    }
}

/// All scenarios.
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
        "a handed-over vote counts from the send of the refused request",
        "it counts from the arrival of the handoff",
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
        "an attempt id belongs to one client",
        "two replicas share an attempt id",
        Flaw::AttemptShared,
        plainly_two,
    ),
    scenario(
        "replies-matched",
        "a reply counts for the attempt that asked",
        "a reply counts for the latest request",
        Flaw::RepliesUnmatched,
        second_try_with_slow_answers,
    ),
    scenario("drift", "drift is subtracted from the ttl", "the whole ttl is used", Flaw::NoDrift, rates_at_their_limit),
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
        "a request is executed only in the epoch that it names",
        "scripts do not check the epoch, and a server is emptied",
        Flaw::EpochUnchecked,
        flushed,
    ),
    scenario(
        "rollback",
        "a running server that loads other data starts a new incarnation",
        "promotions are not checked, and a server loads an old copy",
        Flaw::RollbackUnnoticed,
        rolled_back,
    ),
    scenario(
        "claims",
        "clients claim how much of a quarantine has passed",
        "a node's age is its uptime",
        Flaw::Uptime,
        crash_and_jump,
    ),
    scenario(
        "highest-claim",
        "the highest claim counts",
        "claims are added up",
        Flaw::Core(Rule::HighestClaim),
        two_claimants,
    ),
    scenario(
        "equal-fences",
        "a majority has the same fence",
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
        "a node that lost its memory has a floor",
        "it starts its fences from nothing",
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
        "a trusted single node has a floor after a restart",
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
        "a detached lease is only extended",
        "an extension of a detached lease re-creates a vote",
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
        "a repeated release leaves a tombstone",
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
        "N is the number of connected nodes",
        Flaw::ReachableMajority,
        cut_off,
    ),
    scenario(
        "one-server-one-vote",
        "one server has one vote",
        "one server counts twice",
        Flaw::ServerTwice,
        two_addresses,
    ),
    scenario(
        "plain-epoch",
        "plain votes count only in the same epoch",
        "plain votes count after FLUSHALL",
        Flaw::PlainUnchecked,
        plain_and_flushed,
    ),
    scenario(
        "own-entry",
        "a release ends only its own entry",
        "a release voids the holds of other entries",
        Flaw::ReleaseVoids,
        two_readers_and_a_writer,
    ),
    scenario(
        "break-drains",
        "a broken lease drains",
        "a break frees the name at once",
        Flaw::BreakFrees,
        broken_to_drain,
    ),
    scenario(
        "break-tombstone",
        "a broken lease leaves a tombstone",
        "the holder's next renewal is executed",
        Flaw::BreakForgets,
        broken_at_once,
    ),
    scenario(
        "break-by-fence",
        "a break ends the lease that it names",
        "a break ends any lease",
        Flaw::BreakAny,
        broken_too_late,
    ),
    scenario(
        "doubt",
        "a holder that learns of a break asks again",
        "a renewal in flight is enough",
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
        "a retirement acts only on the name that it names",
        "it acts on every name of the owner",
        Flaw::RetireEverywhere,
        retired_elsewhere,
    ),
    waiting("yield", "a waiter yields its votes to a lower ticket", "queue without yield", || Flaws {
        rules: Rules::without(Rule::Yield),
        ..Flaws::default()
    }),
    waiting(
        "yield-to-voters",
        "it also yields to a client that has the refusing node's vote",
        "yield only on \"not first\" refusals",
        || Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() },
    ),
    waiting("quiet-yield", "a yield hints only earlier waiters", "a yield hints the yielder, too", || Flaws {
        self_waking: true,
        ..Flaws::default()
    }),
];

/// A search with all rules.
#[derive(Clone, Copy)]
pub enum Wide {
    /// Leases and fences, with several faults at once.
    Leases(Beginning),
    /// Waiters, on every fair schedule.
    Queue(fn() -> Fair),
    /// Slots.
    Slots(fn() -> Slots),
}

impl Wide {
    /// Runs the search.
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
    ("two clients that reach every node, a late reply, a release", Wide::Leases(two_everywhere)),
    ("renewals, a restart, a release", Wide::Leases(restless_holder)),
    ("a restart and an emptied server, with clocks at their limit", Wide::Leases(two_losses)),
    ("a client that acquires twice, a late reply, a broken connection, a release", Wide::Leases(coming_back)),
    ("a waiter, a late reply, a broken connection, a cancellation", Wide::Leases(handed_on_with_mishaps)),
    ("two waiters, a cancellation", Wide::Leases(two_who_wait)),
    ("a waiter, and a server that restarts with its snapshot", Wide::Leases(waiting_through_a_restart)),
    (
        "a lease that is renewed and broken, a late reply, a broken connection, a release",
        Wide::Leases(broken_with_mishaps),
    ),
    ("a lease that is broken now, a waiter, a late reply: fences only", Wide::Leases(broken_at_once_for_a_waiter)),
    ("an owner that renews and is retired, another owner, a late reply", Wide::Leases(retired_for_another)),
    ("a reader that renews, a writer, a restart, a release", Wide::Leases(a_reader_a_writer_and_a_restart)),
    (
        "two readers, a writer, a restart, a release, without time passing",
        Wide::Leases(two_readers_a_writer_and_a_restart),
    ),
    ("an owner that renews, another owner, a restart, a release", Wide::Leases(two_owners_and_a_restart)),
    (
        "an owner that enters twice, another owner, a restart, a release, without time passing",
        Wide::Leases(an_owner_who_enters_twice_and_a_restart),
    ),
    ("a clock jump that drops votes, renewals, a late reply, a release: fences only", Wide::Leases(votes_that_vanish)),
    (
        "two clock jumps that drop votes, three clients, a late reply, without time passing: fences only",
        Wide::Leases(votes_that_vanish_twice),
    ),
    (
        "a clock jump that drops votes, a waiter, a late reply, without time passing: fences only",
        Wide::Leases(votes_that_vanish_before_a_waiter),
    ),
    ("three clients for one slot, releases", Wide::Slots(slots::three_for_one)),
    ("three clients for two slots, a release", Wide::Slots(slots::three_for_two)),
    ("three clients for two slots, a lost reply", Wide::Slots(slots::three_for_two_and_a_lost_answer)),
    ("two waiters for one slot, a release", Wide::Slots(slots::two_who_wait_for_one)),
    (
        "two clients for two slots, a restart, a release, without time passing",
        Wide::Leases(two_for_two_slots_and_a_restart),
    ),
    ("two waiters, a lost request: every fair schedule serves both", Wide::Queue(two_waiters)),
    ("two waiters, a death, a lost request: every fair schedule serves the other", Wide::Queue(two_and_a_death)),
    (
        "two waiters, a forgotten queue position, a lost request: every fair schedule serves both",
        Wide::Queue(two_and_a_forgotten_place),
    ),
    ("two waiters without hints, a lost request: every fair schedule serves both", Wide::Queue(two_who_are_deaf)),
    ("three waiters, a node down, a lost request: every fair schedule serves all", Wide::Queue(three_and_a_node_down)),
    ("three waiters: every fair schedule serves one of them", Wide::Queue(three_waiters)),
];

/// Two waiters, and a lost request.
pub fn two_waiters() -> Fair {
    let mishaps = Mishaps { loss: true, ..Mishaps::default() };
    Fair { waiters: 2, mishaps, to_the_last: true, flaws: Flaws::default() }
}

/// Two waiters, one of which dies, and a lost request.
pub fn two_and_a_death() -> Fair {
    Fair { mishaps: Mishaps { loss: true, death: true, ..Mishaps::default() }, ..two_waiters() }
}

/// Two waiters, one of which loses a queue position, and a lost request.
pub fn two_and_a_forgotten_place() -> Fair {
    Fair { mishaps: Mishaps { loss: true, forgotten: true, ..Mishaps::default() }, ..two_waiters() }
}

/// Two waiters that get no hints and no handoffs, and a lost request.
pub fn two_who_are_deaf() -> Fair {
    Fair { flaws: Flaws { deaf: true, ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters, and two nodes that reply.
pub fn three_and_a_node_down() -> Fair {
    Fair { waiters: 3, flaws: Flaws { down: Some(0), ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters, until the first of them is served.
pub fn three_waiters() -> Fair {
    Fair { waiters: 3, mishaps: Mishaps::default(), to_the_last: false, ..two_waiters() }
}
