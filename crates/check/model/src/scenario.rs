//! The scenarios: for each rule, a setup in which a search without the rule finds a violation. Also the wider searches,
//! which have all rules.

mod setups;

use std::sync::Arc;

use quorlock_core::rules::{Rule, Rules};

use crate::queue::fair_search::{FairSearch, Faults};
use crate::queue::{self, world::Flaws};
use crate::search::{SearchResult, find_shortest_violation, search_all_states};
use crate::setup::{Flaw, Setup};
use crate::slots::{self, SlotSearch};
use setups::{
    break_after_release, break_during_renewal, break_now_of_renewing_holder, break_now_with_waiter, break_with_drain,
    break_with_faults, cancellation_or_release, cancellation_or_release_with_lost_request,
    cancellation_or_release_with_send_queue, client_with_one_reachable_node, clock_rates_at_limit,
    crash_and_clock_jump, crash_and_emptied_server, crash_with_clock_rates_at_limit, crash_with_frequent_claims,
    crash_with_wrong_clock_estimates, detached_lease, emptied_server, handoff_on_one_node, handoff_with_faults,
    holder_and_two_waiters, late_renewals, owner_retired_from_another_name, plain_locks_and_emptied_server,
    renewals_with_a_slow_reply, renewing_holder_with_restart, restart_with_old_snapshot, retired_owner,
    retired_owner_and_second_owner, rolled_back_server, second_attempt_after_broken_connection,
    second_attempt_with_slow_replies, server_crash, server_with_two_addresses, stored_fence_and_higher_proposal,
    stored_fence_on_one_node, two_attempts_with_faults, two_clients, two_clients_on_all_nodes,
    two_readers_and_a_writer, two_slow_replies, waiter_and_restart_with_snapshot,
};
pub use setups::{
    detached_and_repaired_lease, owner_with_two_entries_and_restart, reader_and_writer_with_restart,
    reader_with_two_entries_and_writer, two_owners_with_restart, two_readers_and_writer_with_restart,
    two_restarts_of_a_trusted_node, two_slots_with_restart, votes_dropped_by_clock_jump,
    votes_dropped_by_clock_jump_with_waiter, votes_dropped_by_two_clock_jumps,
};

/// A rule, and the search that shows that the rule is needed.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The name of the rule on the command line.
    pub name: &'static str,
    /// The rule, as a sentence.
    pub rule: &'static str,
    /// The behaviour without the rule, as a sentence.
    pub mutant: &'static str,
    /// The search for a violation.
    pub search: RuleSearch,
    /// Whether the search takes at most a few seconds.
    pub is_quick: bool,
}

/// A function that returns the setup of a search with all rules.
pub type SetupFn = fn() -> Setup;

/// The search for one rule, and the flaw that switches the rule off.
#[derive(Clone, Copy)]
pub enum RuleSearch {
    /// A search for violations of the guarantees about leases and fences.
    Leases(Flaw, SetupFn),
    /// A search for waiters that are not served.
    Queue(fn() -> Flaws),
}

impl RuleSearch {
    /// Searches with all rules.
    pub fn search_with_rule(self) -> SearchResult {
        match self {
            Self::Leases(_, setup) => search_all_states(&Arc::new(setup())),
            Self::Queue(_) => queue::search::search(Flaws::default()),
        }
    }

    /// Searches without the rule.
    pub fn search_without_rule(self) -> SearchResult {
        match self {
            Self::Leases(flaw, setup) => find_shortest_violation(&Arc::new(Setup { flaw: Some(flaw), ..setup() })),
            Self::Queue(flaws) => queue::search::search(flaws()),
        }
    }
}

const fn scenario(
    name: &'static str,
    rule: &'static str,
    mutant: &'static str,
    flaw: Flaw,
    setup: SetupFn,
) -> Scenario {
    Scenario { name, rule, mutant, search: RuleSearch::Leases(flaw, setup), is_quick: true }
}

const fn queue_scenario(
    name: &'static str,
    rule: &'static str,
    mutant: &'static str,
    flaws: fn() -> Flaws,
) -> Scenario {
    Scenario { name, rule, mutant, search: RuleSearch::Queue(flaws), is_quick: true }
}

impl Scenario {
    /// Marks a scenario whose search takes more than a few seconds.
    const fn slow(self) -> Self {
        Self { is_quick: false, ..self }
    }
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    scenario(
        "count-from-send",
        "a lease's validity starts when its requests are sent",
        "it starts when the replies arrive",
        Flaw::Core(Rule::CountFromSend),
        two_slow_replies,
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
        second_attempt_after_broken_connection,
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
    scenario("drift", "drift is subtracted from the ttl", "the whole ttl is used", Flaw::NoDrift, clock_rates_at_limit),
    scenario(
        "quarantine",
        "a node that lost its memory is quarantined",
        "it votes at once",
        Flaw::NoQuarantine,
        server_crash,
    ),
    scenario(
        "quarantine-length",
        "a quarantine lasts for 1.1 x max_ttl",
        "it ends 4 ms too early",
        Flaw::QuarantineShort,
        crash_with_clock_rates_at_limit,
    ),
    scenario(
        "handshake",
        "every connection begins with its own handshake",
        "connections survive a restart without a handshake, and nodes do not check the epoch",
        Flaw::HandshakeSkipped,
        server_crash,
    ),
    scenario(
        "epoch",
        "a node executes a request only in the epoch that the request names",
        "nodes do not check the epoch, and a server is emptied",
        Flaw::EpochUnchecked,
        emptied_server,
    ),
    scenario(
        "rollback",
        "a running server that loads other data starts a new incarnation",
        "clients do not notice that a running server has loaded an old copy of its data",
        Flaw::RollbackUnnoticed,
        rolled_back_server,
    ),
    scenario(
        "claims",
        "clients measure how long a quarantine has lasted",
        "the node measures it by its own wall clock",
        Flaw::QuarantineByWallClock,
        crash_and_clock_jump,
    ),
    scenario(
        "highest-claim",
        "a node uses the longest time that a client has measured",
        "a node adds up the measured times",
        Flaw::Core(Rule::HighestClaim),
        crash_with_frequent_claims,
    ),
    scenario(
        "equal-fences",
        "a lease needs the same fence on a majority of the nodes",
        "a lease gets the highest fence of its majority",
        Flaw::Core(Rule::EqualFences),
        stored_fence_on_one_node,
    ),
    scenario(
        "raise-own-votes",
        "a client raises the fence only on nodes that voted for it",
        "it also raises the fence on other nodes",
        Flaw::RaiseAnyVote,
        stored_fence_and_higher_proposal,
    ),
    scenario(
        "floor",
        "a node that lost its memory has a floor",
        "it starts its fences from zero",
        Flaw::FloorLost,
        crash_with_wrong_clock_estimates,
    ),
    scenario(
        "restored-fence",
        "the floor is above every fence that a node restores",
        "a node uses a fence from an old AOF or RDB file",
        Flaw::FenceRestored,
        restart_with_old_snapshot,
    ),
    scenario(
        "trust-floor",
        "a single node that is trusted after a restart has a floor",
        "it has no floor",
        Flaw::TrustWithoutFloor,
        two_restarts_of_a_trusted_node,
    ),
    scenario(
        "rounds-apart",
        "a renewal counts only its own grants",
        "it also counts grants of an earlier renewal",
        Flaw::RenewalsMixed,
        renewals_with_a_slow_reply,
    )
    .slow(),
    scenario(
        "lost-is-final",
        "a lost lease stays lost",
        "a late renewal makes a lost lease valid again",
        Flaw::Core(Rule::LostIsFinal),
        late_renewals,
    ),
    scenario(
        "extend-only",
        "an extension of a detached lease creates no vote",
        "it creates an expired vote again",
        Flaw::ExtensionRepairs,
        detached_lease,
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
        cancellation_or_release_with_lost_request,
    ),
    scenario(
        "release-in-order",
        "a release is sent after the requests of its attempt",
        "it is sent before a queued acquire of its attempt",
        Flaw::Core(Rule::ReleaseInOrder),
        cancellation_or_release_with_send_queue,
    ),
    scenario(
        "configured-majority",
        "a quorum is a majority of the configured nodes",
        "a quorum is a majority of the connected nodes",
        Flaw::ReachableMajority,
        client_with_one_reachable_node,
    ),
    scenario(
        "one-server-one-vote",
        "a server with two addresses has one vote",
        "it has two votes",
        Flaw::ServerCountedTwice,
        server_with_two_addresses,
    ),
    scenario(
        "plain-epoch",
        "a plain vote counts only in the epoch of its request",
        "it also counts after FLUSHALL",
        Flaw::PlainEpochUnchecked,
        plain_locks_and_emptied_server,
    ),
    scenario(
        "own-entry",
        "a release ends only its own entry",
        "it also ends the entries of other holders",
        Flaw::ReleaseEndsAllEntries,
        two_readers_and_a_writer,
    ),
    scenario(
        "break-drains",
        "a broken lease keeps the name locked until its ttl is over",
        "a break frees the name at once",
        Flaw::BreakFreesAtOnce,
        break_with_drain,
    ),
    scenario(
        "break-tombstone",
        "a broken lease leaves a tombstone",
        "nodes execute the holder's next renewal",
        Flaw::BreakWithoutTombstone,
        break_now_of_renewing_holder,
    ),
    scenario(
        "break-by-fence",
        "a break ends only the lease that it names",
        "it ends any lease of the lock",
        Flaw::BreakOfAnyLease,
        break_after_release,
    ),
    scenario(
        "doubt",
        "a holder that learns of a break during a renewal renews again",
        "it waits only for the renewal in flight",
        Flaw::NoRenewalAfterBreak,
        break_during_renewal,
    ),
    scenario(
        "retire-tombstone",
        "nodes refuse the requests of a retired owner",
        "they grant its late request",
        Flaw::RetirementWithoutTombstone,
        retired_owner,
    ),
    scenario(
        "retire-one-name",
        "a retirement affects only one name of the owner",
        "it affects every name of the owner",
        Flaw::RetirementFromAllNames,
        owner_retired_from_another_name,
    ),
    queue_scenario("yield", "a waiter yields its votes to a waiter with a lower ticket", "waiters never yield", || {
        Flaws { rules: Rules::without(Rule::Yield), ..Flaws::default() }
    }),
    queue_scenario(
        "yield-to-voters",
        "a waiter also yields if the lower ticket has the refusing node's vote",
        "it yields only if the lower ticket waits at that node",
        || Flaws { rules: Rules::without(Rule::YieldToVoters), ..Flaws::default() },
    ),
    queue_scenario(
        "quiet-yield",
        "after a yield, a node notifies only waiters with lower tickets",
        "it also notifies the waiter that yielded",
        || Flaws { notifies_yielder: true, ..Flaws::default() },
    ),
];

/// A wider search, with all rules.
#[derive(Clone, Copy)]
pub enum WideSearch {
    /// A search for violations of the guarantees about leases and fences, with several faults at once.
    Leases(SetupFn),
    /// A search for waiters that a fair schedule does not serve.
    Queue(fn() -> FairSearch),
    /// A search for semaphores with too many holders.
    Slots(fn() -> SlotSearch),
}

impl WideSearch {
    /// Runs the search.
    pub fn run(self) -> SearchResult {
        match self {
            Self::Leases(setup) => search_all_states(&Arc::new(setup())),
            Self::Queue(fair_search) => fair_search().search(),
            Self::Slots(slot_search) => slot_search().search().0,
        }
    }
}

/// The wider searches, each with its name on the page.
pub const WIDE_SEARCHES: &[(&str, WideSearch)] = &[
    ("two clients that reach every node, a late reply, a release", WideSearch::Leases(two_clients_on_all_nodes)),
    ("renewals, a restart, a release", WideSearch::Leases(renewing_holder_with_restart)),
    ("a restart and an emptied server, with clock rates at their limit", WideSearch::Leases(crash_and_emptied_server)),
    (
        "a client that acquires twice, a late reply, a broken connection, a release",
        WideSearch::Leases(two_attempts_with_faults),
    ),
    ("a waiter, a late reply, a broken connection, a cancellation", WideSearch::Leases(handoff_with_faults)),
    ("two waiters, a cancellation", WideSearch::Leases(holder_and_two_waiters)),
    ("a waiter, and a server that restarts with its snapshot", WideSearch::Leases(waiter_and_restart_with_snapshot)),
    (
        "a lease that is renewed and broken, a late reply, a broken connection, a release",
        WideSearch::Leases(break_with_faults),
    ),
    (
        "a lease that is broken at once, a waiter, a late reply, checking only fences",
        WideSearch::Leases(break_now_with_waiter),
    ),
    (
        "an owner that renews and is retired, another owner, a late reply",
        WideSearch::Leases(retired_owner_and_second_owner),
    ),
    ("a reader that renews, a writer, a restart, a release", WideSearch::Leases(reader_and_writer_with_restart)),
    (
        "two readers, a writer, a restart, a release, without time passing",
        WideSearch::Leases(two_readers_and_writer_with_restart),
    ),
    ("an owner that renews, another owner, a restart, a release", WideSearch::Leases(two_owners_with_restart)),
    (
        "an owner that enters twice, another owner, a restart, a release, without time passing",
        WideSearch::Leases(owner_with_two_entries_and_restart),
    ),
    (
        "a clock jump that drops votes, renewals, a late reply, a release, checking only fences",
        WideSearch::Leases(votes_dropped_by_clock_jump),
    ),
    (
        "two clock jumps that drop votes, three clients, a late reply, without time passing, checking only fences",
        WideSearch::Leases(votes_dropped_by_two_clock_jumps),
    ),
    (
        "a clock jump that drops votes, a waiter, a late reply, without time passing, checking only fences",
        WideSearch::Leases(votes_dropped_by_clock_jump_with_waiter),
    ),
    ("three clients for one slot, releases", WideSearch::Slots(slots::three_clients_for_one_slot)),
    ("three clients for two slots, a release", WideSearch::Slots(slots::three_clients_for_two_slots)),
    (
        "three clients for two slots, a lost reply",
        WideSearch::Slots(slots::three_clients_for_two_slots_and_a_lost_reply),
    ),
    ("two waiters for one slot, a release", WideSearch::Slots(slots::two_waiters_for_one_slot)),
    (
        "two clients for two slots, a restart, a release, without time passing",
        WideSearch::Leases(two_slots_with_restart),
    ),
    ("two waiters, a lost request: every fair schedule serves both", WideSearch::Queue(two_waiters)),
    (
        "two waiters, one of which dies, a lost request: every fair schedule serves the other",
        WideSearch::Queue(two_waiters_and_a_death),
    ),
    (
        "two waiters, a forgotten queue position, a lost request: every fair schedule serves both",
        WideSearch::Queue(two_waiters_and_a_forgotten_position),
    ),
    (
        "two waiters without hints, a lost request: every fair schedule serves both",
        WideSearch::Queue(two_waiters_without_hints),
    ),
    (
        "three waiters, a node down, a lost request: every fair schedule serves all",
        WideSearch::Queue(three_waiters_and_a_node_down),
    ),
    ("three waiters: every fair schedule serves one of them", WideSearch::Queue(three_waiters)),
];

/// Two waiters, and a lost request.
pub fn two_waiters() -> FairSearch {
    let faults = Faults { lost_request: true, ..Faults::default() };
    FairSearch { waiters: 2, faults, serves_all_waiters: true, flaws: Flaws::default() }
}

/// Two waiters, a death of one of them, and a lost request.
pub fn two_waiters_and_a_death() -> FairSearch {
    FairSearch { faults: Faults { lost_request: true, waiter_death: true, ..Faults::default() }, ..two_waiters() }
}

/// Two waiters, a queue position that a node forgets, and a lost request.
pub fn two_waiters_and_a_forgotten_position() -> FairSearch {
    FairSearch { faults: Faults { lost_request: true, forgotten_position: true, ..Faults::default() }, ..two_waiters() }
}

/// Two waiters that get no hints and no handoffs, and a lost request.
pub fn two_waiters_without_hints() -> FairSearch {
    FairSearch { flaws: Flaws { loses_hints: true, ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters, a lost request, and only two nodes that reply.
pub fn three_waiters_and_a_node_down() -> FairSearch {
    FairSearch { waiters: 3, flaws: Flaws { unreachable_node: Some(0), ..Flaws::default() }, ..two_waiters() }
}

/// Three waiters. The search ends when the first waiter is served.
pub fn three_waiters() -> FairSearch {
    FairSearch { waiters: 3, faults: Faults::default(), serves_all_waiters: false, ..two_waiters() }
}
