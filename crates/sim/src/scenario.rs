//! The scenarios: for each rule, a beginning from which its absence shows.

use std::sync::Arc;

use quorlock_core::mode::{Mode, OwnerId};
use quorlock_core::rules::{Rule, Rules};

use crate::line::{self, world::Flaws};
use crate::search::{Finding, exhaust, shortest};
use crate::setup::{Budget, Flaw, Party, Setup};

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

/// What is searched for, and how the rule is switched off.
#[derive(Clone, Copy)]
pub enum Hunt {
    /// Leases and fences: the flaw, and where to begin with all rules in force.
    Lease(Flaw, fn() -> Setup),
    /// Waiters.
    Line(fn() -> Flaws),
}

impl Hunt {
    /// Searches with all rules.
    pub fn with(self) -> Finding {
        match self {
            Self::Lease(_, setup) => exhaust(&Arc::new(setup())),
            Self::Line(_) => line::search::search(Flaws::default()),
        }
    }

    /// Searches without this one.
    pub fn without(self) -> Finding {
        match self {
            Self::Lease(flaw, setup) => shortest(&Arc::new(Setup { flaw: Some(flaw), ..setup() })),
            Self::Line(flaws) => line::search::search(flaws()),
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
    Scenario { name, rule, mutant, hunt: Hunt::Line(flaws), is_quick: true }
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
        "five milliseconds are missing",
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
        "witness",
        "quarantine is witnessed by a client",
        "a node's age is told by its uptime",
        Flaw::Uptime,
        crash_and_jump,
    ),
    scenario(
        "one-witness",
        "one witness at a time adds to the sum",
        "everyone who watches adds",
        Flaw::WitnessesTogether,
        two_witnesses,
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
        handed_over,
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
        Flaw::NoTombstone,
        one_who_turns_away,
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

/// Time passes to moments at which something is due, and to no others.
const NO_GRID: u64 = 1_000_000;
const SECOND: i64 = 1_000_000;
const NONE: Budget =
    Budget { slow: 0, breaks: 0, crashes: 0, saves: 0, restores: 0, flushes: 0, jumps: 0, cancels: 0, frees: 0 };

/// Two clients who meet on one node.
fn two_meeting_at(node: usize) -> Vec<Party> {
    vec![Party::reaching(&[0, 1]), Party::reaching(&[node, 2])]
}

fn plainly_two() -> Setup {
    Setup::new(two_meeting_at(1))
}

fn slow_answers() -> Setup {
    Setup { budget: Budget { slow: 2, ..NONE }, ..Setup::new(two_meeting_at(1)) }
}

fn second_try_over_a_broken_connection() -> Setup {
    let mut parties = two_meeting_at(0);
    parties[0].starts = 2;
    Setup { budget: Budget { breaks: 1, cancels: 1, ..NONE }, horizon: 0, ..Setup::new(parties) }
}

fn second_try_with_slow_answers() -> Setup {
    let mut parties = two_meeting_at(0);
    parties[0].starts = 2;
    Setup { budget: Budget { slow: 2, cancels: 1, ..NONE }, horizon: 0, ..Setup::new(parties) }
}

fn rates_at_their_limit() -> Setup {
    let mut parties = two_meeting_at(0);
    parties[0].ppm = -50_000;
    Setup { ppm: 50_000, ..Setup::new(parties) }
}

fn crash() -> Setup {
    Setup { budget: Budget { crashes: 1, ..NONE }, grid: NO_GRID, ..Setup::new(two_meeting_at(0)) }
}

fn crash_between_clocks_at_their_limit() -> Setup {
    let mut parties = two_meeting_at(0);
    (parties[0].ppm, parties[1].ppm) = (-100_000, 100_000);
    Setup { budget: Budget { crashes: 1, ..NONE }, grid: NO_GRID, ..Setup::new(parties) }
}

fn crash_and_jump() -> Setup {
    Setup { budget: Budget { crashes: 1, jumps: 1, ..NONE }, grid: 500, horizon: 900, ..crash() }
}

fn two_witnesses() -> Setup {
    let mut parties = two_meeting_at(0);
    parties.push(Party { starts: 0, ..Party::reaching(&[0]) });
    let setup = Setup { grid: 550, horizon: 560, adds_often: true, ..Setup::new(parties) };
    Setup { budget: Budget { crashes: 1, ..NONE }, ..setup }
}

fn one_node_ahead() -> Setup {
    let parties = two_meeting_at(1);
    Setup { budget: Budget { frees: 1, ..NONE }, fences: vec![(0, 10)], horizon: 0, ..Setup::new(parties) }
}

fn one_node_ahead_and_two_rivals() -> Setup {
    let parties = vec![Party::once(), Party { ahead: 11, ..Party::reaching(&[1, 2]) }];
    let budget = Budget { breaks: 1, frees: 1, ..NONE };
    Setup { budget, fences: vec![(0, 10)], horizon: 0, alike: false, ..Setup::new(parties) }
}

fn crash_with_clients_off_the_clock() -> Setup {
    let mut parties = two_meeting_at(0);
    (parties[0].ahead, parties[1].ahead) = (SECOND * 3 / 10, -2 * SECOND);
    Setup { budget: Budget { crashes: 1, ..NONE }, horizon: 1_200, grid: NO_GRID, ..Setup::new(parties) }
}

fn old_snapshot() -> Setup {
    let fences = vec![(0, -5 * SECOND), (2, -5 * SECOND)];
    let budget = Budget { saves: 1, restores: 1, ..NONE };
    Setup { budget, fences, ..crash_with_clients_off_the_clock() }
}

/// A single node that is trusted after each of two restarts.
pub fn one_trusted_node() -> Setup {
    let party = Party { servers: vec![0], ..Party::reaching(&[0]) };
    let parties = vec![Party { ahead: SECOND * 3 / 10, ..party.clone() }, party.clone(), party];
    let setup = Setup { servers: 1, only_fences: true, horizon: 10, grid: 5, ..Setup::new(parties) };
    Setup { budget: Budget { crashes: 2, ..NONE }, ..setup }
}

fn renewals_with_slow_answers() -> Setup {
    let mut parties = two_meeting_at(0);
    parties[0].renews = Some(300);
    let setup = Setup { node_deadline: 300, horizon: 1_350, grid: NO_GRID, ..Setup::new(parties) };
    Setup { budget: Budget { slow: 1, ..NONE }, ..setup }
}

fn renewals_late() -> Setup {
    let mut parties = two_meeting_at(0);
    parties[0].renews = Some(300);
    Setup { grid: NO_GRID, ..Setup::new(parties) }
}

fn handed_over() -> Setup {
    let mut parties = two_meeting_at(0);
    parties[0].hands_over = Some(1);
    Setup { budget: Budget { frees: 1, ..NONE }, ..Setup::new(parties) }
}

fn one_who_turns_away() -> Setup {
    let budget = Budget { slow: 1, breaks: 1, cancels: 1, frees: 1, ..NONE };
    Setup { budget, horizon: 0, ..Setup::new(vec![Party::once()]) }
}

fn cut_off() -> Setup {
    let cut_off = Party { servers: vec![2, 0, 1], ..Party::reaching(&[0]) };
    Setup { horizon: 0, alike: false, ..Setup::new(vec![Party::once(), cut_off]) }
}

fn two_addresses() -> Setup {
    let confused = Party { servers: vec![0, 0, 1], ..Party::reaching(&[0, 1]) };
    Setup { alike: false, ..Setup::new(vec![confused, Party::reaching(&[1, 2])]) }
}

fn plain_and_flushed() -> Setup {
    let parties = two_meeting_at(0).into_iter().map(|party| Party { plain: true, ..party }).collect();
    Setup { budget: Budget { flushes: 1, ..NONE }, ..Setup::new(parties) }
}

fn two_readers_and_a_writer() -> Setup {
    let reader = |id| Party { mode: Mode::Shared { owner: OwnerId::from_bits(id) }, ..Party::reaching(&[0, 1]) };
    let writer = Party::reaching(&[0, 1]);
    let budget = Budget { frees: 1, ..NONE };
    Setup { budget, horizon: 0, ..Setup::new(vec![reader(1), reader(2), writer]) }
}
