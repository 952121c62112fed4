//! The configurations that are searched with all rules, and for each rule a setup in which its absence shows.

use super::beginnings::{
    early, five_to_three, founding, half_ticks, hidden, lists, losses, one_to_three, other_list, recovery, renewing,
    replacing, restart_empty, restarting, split, three_to_four, three_to_one, two_behind_one_address, two_operators,
    two_operators_at_once, two_steps,
};
use super::setup::{Flaw, Setup};

/// A search with all rules.
#[derive(Clone, Copy)]
pub struct Configuration {
    /// The name for the command line.
    pub name: &'static str,
    /// What may happen.
    pub about: &'static str,
    /// The setup.
    pub setup: fn() -> Setup,
    /// Whether the search takes at most a few seconds.
    pub is_quick: bool,
}

/// A rule, and the search that shows why it is needed.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// The name for the command line.
    pub name: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// The behaviour without the rule.
    pub mutant: &'static str,
    /// The missing rule.
    pub flaw: Flaw,
    /// The setup, with all rules.
    pub setup: fn() -> Setup,
    /// Whether the search takes at most a few seconds.
    pub is_quick: bool,
}

const fn configuration(name: &'static str, about: &'static str, setup: fn() -> Setup) -> Configuration {
    Configuration { name, about, setup, is_quick: false }
}

impl Configuration {
    /// Marks a search that takes at most a few seconds.
    const fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }
}

/// All configurations.
pub const CONFIGURATIONS: &[Configuration] = &[
    configuration("roster-lists", "two clients with different lists, a restart", lists),
    configuration("roster-replace", "a server is replaced, and another client finishes that", replacing),
    configuration("roster-address", "two servers behind one address", two_behind_one_address),
    configuration("roster-operators", "two operators replace two servers at once", two_operators_at_once),
    configuration("roster-loss", "a server restarts empty", restart_empty),
    configuration("roster-losses", "a server has restarted empty, and then another one does", losses),
    configuration("roster-recovery", "a majority restarts empty, and two clients recover the cluster", recovery),
    configuration("roster-founding", "two clients with different lists found a cluster", founding).quick(),
    configuration("roster-one-to-three", "one member becomes three", one_to_three).quick(),
    configuration("roster-three-to-one", "three members become one", three_to_one),
    configuration("roster-three-to-four", "three members become four", three_to_four),
    configuration("roster-five-to-three", "five members become four, and three", five_to_three),
    configuration("roster-restart", "two operators, and a trusted restart", restarting),
    configuration("roster-renewal", "a server is replaced, and holders renew", renewing),
];

const fn mutant(
    name: &'static str,
    rule: &'static str,
    mutant: &'static str,
    flaw: Flaw,
    setup: fn() -> Setup,
) -> Mutant {
    Mutant { name, rule, mutant, flaw, setup, is_quick: false }
}

impl Mutant {
    /// Marks a search that takes at most a few seconds.
    const fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }
}

/// The mutants.
pub const MUTANTS: &[Mutant] = &[
    mutant("roster-members", "votes of members count", "each client counts the votes of its list", Flaw::Lists, lists)
        .quick(),
    mutant("roster-id", "a server that restarts empty gets another id", "it keeps its id", Flaw::IdKept, restart_empty)
        .quick(),
    mutant(
        "roster-count-from-settled",
        "a newcomer's quarantine is counted from when its generation was settled",
        "it is counted from the proposal",
        Flaw::CountFromProposal,
        early,
    )
    .quick(),
    mutant(
        "roster-count-unsettled",
        "a newcomer's quarantine is counted from when its generation was settled",
        "it is counted from when it was ordered",
        Flaw::CountUnsettled,
        early,
    )
    .quick(),
    mutant(
        "roster-quarantine-all",
        "if N changes by more than one, every member is quarantined",
        "only newcomers are",
        Flaw::ResizeAtOnce,
        three_to_one,
    )
    .quick(),
    mutant(
        "roster-quarantined-votes",
        "votes from before a member's quarantine do not count",
        "only votes of members that left do not count",
        Flaw::QuarantinedVotesCount,
        three_to_one,
    )
    .quick(),
    mutant(
        "roster-votes-stay",
        "a member that installs a roster keeps its votes",
        "it forgets them",
        Flaw::SurvivorsForget,
        restart_empty,
    )
    .quick(),
    mutant("roster-newcomers", "a newcomer is quarantined", "it votes at once", Flaw::NewcomersVote, early).quick(),
    mutant(
        "roster-named",
        "a vote counts only under the roster that the client believes",
        "requests name no roster",
        Flaw::NoRosterNamed,
        early,
    )
    .quick(),
    mutant(
        "roster-settled",
        "a generation is settled when a majority of the one before has installed it",
        "one acknowledgement is enough",
        Flaw::OneAcknowledgement,
        early,
    )
    .quick(),
    mutant(
        "roster-quarantine-length",
        "a quarantine lasts for 1.1 x max_ttl",
        "it ends with the first claim",
        Flaw::QuarantineShort,
        early,
    )
    .quick(),
    mutant(
        "roster-every-seat",
        "without a majority with memory, every seat has to agree",
        "a majority of the seats is enough",
        Flaw::MostSeats,
        split,
    )
    .quick(),
    mutant(
        "roster-list",
        "the list of a step of every seat has exactly the roster's addresses",
        "it may be any list",
        Flaw::AnyList,
        other_list,
    )
    .quick(),
    mutant("roster-leavers", "votes of members that left do not count", "they count", Flaw::LeaversCount, early)
        .quick(),
    mutant("roster-ballots", "a decision needs ballots", "there are no ballots", Flaw::NoBallots, two_operators),
    mutant(
        "roster-founding",
        "every server of the list founds a cluster",
        "a majority of a list founds it",
        Flaw::FoundedByMajority,
        founding,
    )
    .quick(),
    mutant(
        "roster-one-step",
        "a successor is proposed only when the generation is settled",
        "it is proposed at once",
        Flaw::ProposeUnsettled,
        two_steps,
    ),
    mutant(
        "roster-resize-pause",
        "N changes again only after the leases from before are over",
        "it changes twice at once",
        Flaw::ResizeTwice,
        five_to_three,
    ),
    mutant(
        "roster-promise",
        "a member accepts only a ballot that it promised",
        "it accepts every ballot",
        Flaw::AcceptUnpromised,
        two_operators,
    ),
    mutant(
        "roster-ballot-bits",
        "a ballot has random bits, because a restart may forget a promise",
        "a ballot is only a round",
        Flaw::BallotsAlike,
        restarting,
    )
    .quick(),
    mutant(
        "roster-highest-claim",
        "a node keeps the highest claim",
        "it adds up the claims",
        Flaw::ClaimsAdded,
        half_ticks,
    )
    .quick(),
    mutant(
        "roster-hidden",
        "assumption: no majority of the members is hidden behind other servers at the same addresses",
        "two of three addresses lead another client to other servers",
        Flaw::MajorityHidden,
        hidden,
    )
    .quick(),
];
