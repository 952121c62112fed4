//! The scenarios: for each rule, a setup in which the protocol without that rule has a violation.

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
    broken_with_faults, cancellation_or_release, cancellation_while_requests_are_queued, crash, crash_and_jump,
    crash_between_clocks_at_their_limit, crash_with_clients_off_the_clock, cut_off, detached, flushed,
    handoff_on_one_node, handoff_with_faults, lost_release, old_snapshot, one_node_ahead,
    one_node_ahead_and_two_rivals, plain_and_flushed, rates_at_their_limit, renewals_late, renewals_with_slow_replies,
    renewing_holder, retired, retired_elsewhere, retired_for_another, rolled_back,
    second_attempt_over_a_broken_connection, second_attempt_with_slow_replies, slow_replies, two_addresses,
    two_attempts_with_faults, two_claimants, two_clients, two_everywhere, two_losses, two_readers_and_a_writer,
    two_who_wait, waiting_through_a_restart,
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
    /// Whether the search takes at most a few seconds.
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
    /// Marks a scenario whose search takes more than a few seconds.
    const fn slow(self) -> Self {
        Self { is_quick: false, ..self }
    }
}

/// All scenarios.
pub const ALL: &[Scenario] = &[
    scenario(
        "count-from-send",
        "a lease's validity starts when its requests are sent",
        "it starts when the replies arrive",
        Flaw::Core(Rule::CountFromSend),
        slow_replies,
    ),
    scenario(
        "count-from-the-refused",
        "the validity of a handed-over vote starts when the refused request was sent",
        "it starts when the handoff arrives",
        Flaw::Core(Rule::CountFromSend),
        handoff_on_one_node,
    ),
    scenario(
        "attempt-reused",
        "every attempt has its own id",
        "a client uses one id for all of its attempts",
        Flaw::AttemptReused,
        second_attempt_over_a_broken_connection,
    ),
    scenario(
        "attempt-shared",
        "two clients never use the same attempt id",
        "two clients use the same attempt id",
        Flaw::AttemptShared,
        two_clients,
    ),
    scenario(
        "replies-matched",
        "a reply counts only for the attempt that sent the request",
        "a reply counts for the client's latest request",
        Flaw::RepliesUnmatched,
        second_attempt_with_slow_replies,
    ),
    scenario("drift", "drift is subtracted from the ttl", "the whole ttl is used", Flaw::NoDrift, rates_at_their_limit),
    scenario("quarantine", "a node that lost its memory is quarantined", "it votes at once", Flaw::NoQuarantine, crash),
    scenario(
        "quarantine-length",
        "a quarantine lasts for 1.1 x max_ttl",
        "it ends 4 ms too early",
        Flaw::QuarantineShort,
        crash_between_clocks_at_their_limit,
    ),
    scenario(
        "handshake",
        "every connection begins with its own handshake",
        "connections survive a restart without a handshake, and nodes do not check the epoch",
        Flaw::HandshakeUntied,
        crash,
    ),
    scenario(
        "epoch",
        "a node executes a request only in the epoch that the request names",
        "nodes do not check the epoch, and a server is emptied",
        Flaw::EpochUnchecked,
        flushed,
    ),
    scenario(
        "rollback",
        "a running server that loads other data starts a new incarnation",
        "clients do not notice that a running server has loaded an old copy of its data",
        Flaw::RollbackUnnoticed,
        rolled_back,
    ),
    scenario(
        "claims",
        "clients measure how long a quarantine has lasted",
        "the node measures it by its own wall clock",
        Flaw::Uptime,
        crash_and_jump,
    ),
    scenario(
        "highest-claim",
        "a node uses the longest time that a client has measured",
        "a node adds up the measured times",
        Flaw::Core(Rule::HighestClaim),
        two_claimants,
    ),
    scenario(
        "equal-fences",
        "a lease needs the same fence on a majority of the nodes",
        "a lease gets the highest fence of its majority",
        Flaw::Core(Rule::EqualFences),
        one_node_ahead,
    ),
    scenario(
        "raise-own-votes",
        "a client raises the fence only on nodes that voted for it",
        "it also raises the fence on other nodes",
        Flaw::RaiseAnyVote,
        one_node_ahead_and_two_rivals,
    ),
    scenario(
        "floor",
        "a node that lost its memory has a floor",
        "it starts its fences from zero",
        Flaw::FloorLost,
        crash_with_clients_off_the_clock,
    ),
    scenario(
        "restored-fence",
        "the floor is above every fence that a node restores",
        "a node uses a fence from an old AOF or RDB file",
        Flaw::FenceRestored,
        old_snapshot,
    ),
    scenario(
        "trust-floor",
        "a single node that is trusted after a restart has a floor",
        "it has no floor",
        Flaw::TrustWithoutFloor,
        one_trusted_node,
    ),
    scenario(
        "rounds-apart",
        "a renewal counts only its own grants",
        "it also counts grants of an earlier renewal",
        Flaw::RoundsAdded,
        renewals_with_slow_replies,
    )
    .slow(),
    scenario(
        "lost-is-final",
        "a lost lease stays lost",
        "a late renewal makes a lost lease valid again",
        Flaw::Core(Rule::LostIsFinal),
        renewals_late,
    ),
    scenario(
        "extend-only",
        "an extension of a detached lease creates no vote",
        "it creates an expired vote again",
        Flaw::ExtensionRepairs,
        detached,
    ),
    scenario(
        "release-everywhere",
        "a release goes to all nodes",
        "it goes only to nodes that granted",
        Flaw::Core(Rule::ReleaseEverywhere),
        cancellation_or_release,
    ),
    scenario(
        "tombstone",
        "a repeated release leaves a tombstone",
        "it leaves no tombstone",
        Flaw::Core(Rule::LeaveTombstones),
        cancellation_or_release,
    ),
    scenario(
        "owed-release",
        "a client repeats a release until the node acknowledges it",
        "it drops a release when the connection breaks",
        Flaw::Core(Rule::OweReleases),
        lost_release,
    ),
    scenario(
        "release-in-order",
        "a release is sent after the requests of its attempt",
        "it is sent before a queued acquire of its attempt",
        Flaw::Core(Rule::ReleaseInOrder),
        cancellation_while_requests_are_queued,
    ),
    scenario(
        "configured-majority",
        "a quorum is a majority of the configured nodes",
        "a quorum is a majority of the connected nodes",
        Flaw::ReachableMajority,
        cut_off,
    ),
    scenario(
        "one-server-one-vote",
        "a server with two addresses has one vote",
        "it has two votes",
        Flaw::ServerTwice,
        two_addresses,
    ),
    scenario(
        "plain-epoch",
        "a plain vote counts only in the epoch of its request",
        "it also counts after FLUSHALL",
        Flaw::PlainUnchecked,
        plain_and_flushed,
    ),
    scenario(
        "own-entry",
        "a release ends only its own entry",
        "it also ends the entries of other holders",
        Flaw::ReleaseVoids,
        two_readers_and_a_writer,
    ),
    scenario(
        "break-drains",
        "a broken lease keeps the name locked until its ttl is over",
        "a break frees the name at once",
        Flaw::BreakFrees,
        broken_to_drain,
    ),
    scenario(
        "break-tombstone",
        "a broken lease leaves a tombstone",
        "nodes execute the holder's next renewal",
        Flaw::BreakForgets,
        broken_at_once,
    ),
    scenario(
        "break-by-fence",
        "a break ends only the lease that it names",
        "it ends any lease of the lock",
        Flaw::BreakAny,
        broken_too_late,
    ),
    scenario(
        "doubt",
        "a holder that learns of a break during a renewal renews again",
        "it waits only for the renewal in flight",
        Flaw::DoubtOnce,
        broken_while_renewing,
    ),
    scenario(
        "retire-tombstone",
        "nodes refuse the requests of a retired owner",
        "they grant its late request",
        Flaw::RetireForgets,
        retired,
    ),
    scenario(
        "retire-one-name",
        "a retirement affects only one name of the owner",
        "it affects every name of the owner",
        Flaw::RetireEverywhere,
        retired_elsewhere,
    ),
    waiting("yield", "a waiter yields its votes to a waiter with a lower ticket", "waiters never yield", || Flaws {
        rules: Rules::without(Rule::Yield),
        ..Flaws::default()
    }),
    waiting(
        "yield-to-voters",
        "a waiter also yields if the lower ticket has the refusing node's vote",
        "it yields only if the lower ticket waits at that node",
        || Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() },
    ),
    waiting(
        "quiet-yield",
        "after a yield, a node notifies only waiters with lower tickets",
        "it also notifies the waiter that yielded",
        || Flaws { notifies_yielder: true, ..Flaws::default() },
    ),
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
    ("renewals, a restart, a release", Wide::Leases(renewing_holder)),
    ("a restart and an emptied server, with clocks at their limit", Wide::Leases(two_losses)),
    (
        "a client that acquires twice, a late reply, a broken connection, a release",
        Wide::Leases(two_attempts_with_faults),
    ),
    ("a waiter, a late reply, a broken connection, a cancellation", Wide::Leases(handoff_with_faults)),
    ("two waiters, a cancellation", Wide::Leases(two_who_wait)),
    ("a waiter, and a server that restarts with its snapshot", Wide::Leases(waiting_through_a_restart)),
    (
        "a lease that is renewed and broken, a late reply, a broken connection, a release",
        Wide::Leases(broken_with_faults),
    ),
    (
        "a lease that is broken now, a waiter, a late reply, checking only fences",
        Wide::Leases(broken_at_once_for_a_waiter),
    ),
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
    (
        "a clock jump that drops votes, renewals, a late reply, a release, checking only fences",
        Wide::Leases(votes_that_vanish),
    ),
    (
        "two clock jumps that drop votes, three clients, a late reply, without time passing, checking only fences",
        Wide::Leases(votes_that_vanish_twice),
    ),
    (
        "a clock jump that drops votes, a waiter, a late reply, without time passing, checking only fences",
        Wide::Leases(votes_that_vanish_before_a_waiter),
    ),
    ("three clients for one slot, releases", Wide::Slots(slots::three_for_one)),
    ("three clients for two slots, a release", Wide::Slots(slots::three_for_two)),
    ("three clients for two slots, a lost reply", Wide::Slots(slots::three_for_two_and_a_lost_reply)),
    ("two waiters for one slot, a release", Wide::Slots(slots::two_who_wait_for_one)),
    (
        "two clients for two slots, a restart, a release, without time passing",
        Wide::Leases(two_for_two_slots_and_a_restart),
    ),
    ("two waiters, a lost request: every fair schedule serves both", Wide::Queue(two_waiters)),
    ("two waiters, a death, a lost request: every fair schedule serves the other", Wide::Queue(two_and_a_death)),
    (
        "two waiters, a forgotten queue position, a lost request: every fair schedule serves both",
        Wide::Queue(two_and_a_forgotten_position),
    ),
    ("two waiters without hints, a lost request: every fair schedule serves both", Wide::Queue(two_without_hints)),
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
pub fn two_and_a_forgotten_position() -> Fair {
    Fair { mishaps: Mishaps { loss: true, forgotten: true, ..Mishaps::default() }, ..two_waiters() }
}

/// Two waiters that get no hints and no handoffs, and a lost request.
pub fn two_without_hints() -> Fair {
    Fair { flaws: Flaws { hints_lost: true, ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters, and two nodes that reply.
pub fn three_and_a_node_down() -> Fair {
    Fair { waiters: 3, flaws: Flaws { down: Some(0), ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters, until the first of them is served.
pub fn three_waiters() -> Fair {
    Fair { waiters: 3, mishaps: Mishaps::default(), to_the_last: false, ..two_waiters() }
}
