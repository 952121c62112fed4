//! The configurations for searches with all rules, and for each rule a setup in which a search without the rule finds a
//! violation.

use super::setup::{Flaw, Setup};
use super::setups::{
    five_to_three, list_of_other_addresses, majority_behind_other_servers, majority_loses_memory,
    member_lost_behind_shared_address, one_to_three, second_server_loses_memory, server_replaced,
    server_replaced_while_holder_renews, server_replaced_with_half_time_steps, server_replaced_with_partial_reach,
    server_restarts_empty, three_to_four, three_to_one, two_addresses_of_one_server, two_clients_found_cluster,
    two_lists_and_restart, two_operators, two_operators_and_restart, two_operators_at_once, two_replacements,
    two_servers_behind_one_address,
};

/// A search with all rules.
#[derive(Clone, Copy)]
pub struct Configuration {
    /// The name for the command line.
    pub name: &'static str,
    /// The events that may happen.
    pub about: &'static str,
    /// The setup.
    pub setup: fn() -> Setup,
    /// Whether the search takes at most a few seconds.
    pub is_quick: bool,
}

/// A rule, and the search that shows why the rule is needed.
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
    configuration("roster-lists", "two clients with different lists, a restart", two_lists_and_restart),
    configuration("roster-replace", "a server is replaced, and another client finishes that", server_replaced),
    configuration("roster-address", "two servers behind one address", two_servers_behind_one_address),
    configuration("roster-positions", "two addresses of one server, a restart", two_addresses_of_one_server),
    configuration("roster-operators", "two operators replace two servers at once", two_operators_at_once),
    configuration("roster-loss", "a server restarts empty", server_restarts_empty),
    configuration(
        "roster-losses",
        "a server has restarted empty, and then another one does",
        second_server_loses_memory,
    ),
    configuration(
        "roster-recovery",
        "a majority restarts empty, and two clients recover the cluster",
        majority_loses_memory,
    ),
    configuration("roster-founding", "two clients with different lists found a cluster", two_clients_found_cluster)
        .quick(),
    configuration("roster-one-to-three", "one member becomes three", one_to_three).quick(),
    configuration("roster-three-to-one", "three members become one", three_to_one),
    configuration("roster-three-to-four", "three members become four", three_to_four),
    configuration("roster-five-to-three", "five members become four, and three", five_to_three),
    configuration("roster-restart", "two operators, and a trusted restart", two_operators_and_restart),
    configuration("roster-renewal", "a server is replaced, and holders renew", server_replaced_while_holder_renews),
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
    mutant(
        "roster-members",
        "votes of members count",
        "each client counts the votes of its list",
        Flaw::VotesOfListsCount,
        two_lists_and_restart,
    )
    .quick(),
    mutant(
        "roster-id",
        "a server that restarts empty gets another id",
        "it keeps its id",
        Flaw::IdKeptAfterLoss,
        server_restarts_empty,
    )
    .quick(),
    mutant(
        "roster-count-from-settled",
        "a newcomer's quarantine is counted from when its generation was settled",
        "it is counted from the proposal",
        Flaw::QuarantineCountedFromProposal,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-count-unsettled",
        "a newcomer's quarantine is counted from when its generation was settled",
        "it is counted from when it was ordered",
        Flaw::QuarantineCountedFromDecision,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-quarantine-all",
        "if N changes by more than one, every member is quarantined",
        "only newcomers are",
        Flaw::ResizeWithoutQuarantine,
        three_to_one,
    )
    .quick(),
    mutant(
        "roster-quarantined-votes",
        "votes from before a member's quarantine do not count",
        "only votes of members that left do not count",
        Flaw::VotesBeforeQuarantineCount,
        three_to_one,
    )
    .quick(),
    mutant(
        "roster-votes-stay",
        "a member that installs a roster keeps its votes",
        "it forgets them",
        Flaw::VotesForgottenAtInstall,
        server_restarts_empty,
    )
    .quick(),
    mutant(
        "roster-newcomers",
        "a newcomer is quarantined",
        "it votes at once",
        Flaw::NewcomersNotQuarantined,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-named",
        "a vote counts only if its node has no newer roster than the client",
        "requests name no roster",
        Flaw::RequestsNameNoRoster,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-settled",
        "a generation is settled when a majority of the one before has installed it",
        "one acknowledgement is enough",
        Flaw::SettledByOneMember,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-quarantine-length",
        "a quarantine lasts for 1.1 x max_ttl",
        "it ends with the first claim",
        Flaw::QuarantineEndsWithFirstClaim,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-every-seat",
        "without a majority with memory, every seat has to agree",
        "a majority of the seats is enough",
        Flaw::MajorityOfSeatsEnough,
        member_lost_behind_shared_address,
    )
    .quick(),
    mutant(
        "roster-list",
        "the list of a step of every seat has exactly the roster's addresses",
        "it may be any list",
        Flaw::EverySeatOfAnyList,
        list_of_other_addresses,
    )
    .quick(),
    mutant(
        "roster-leavers",
        "votes of members that left do not count",
        "they count for an acquire",
        Flaw::LeaversCountInAttempt,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-leavers-renewed",
        "votes of members that left do not count",
        "they count for a lease",
        Flaw::LeaversCountInHold,
        server_replaced_while_holder_renews,
    ),
    mutant(
        "roster-order",
        "the votes of members that left are dropped before a vote under the new roster counts",
        "they are dropped after it",
        Flaw::CountedBeforeDropped,
        server_replaced_with_partial_reach,
    )
    .quick(),
    mutant(
        "roster-positions",
        "a member has one vote, even if several addresses lead to it",
        "it has one at each address",
        Flaw::PositionsCount,
        two_addresses_of_one_server,
    )
    .quick(),
    mutant("roster-ballots", "a decision needs ballots", "there are no ballots", Flaw::NoBallots, two_operators),
    mutant(
        "roster-founding",
        "every server of the list founds a cluster",
        "a majority of a list founds it",
        Flaw::FoundedByMajority,
        two_clients_found_cluster,
    )
    .quick(),
    mutant(
        "roster-one-step",
        "a successor is proposed only when the generation is settled",
        "it is proposed at once",
        Flaw::ProposedBeforeSettled,
        two_replacements,
    ),
    mutant(
        "roster-resize-pause",
        "N changes again only after the leases from before are over",
        "it changes twice at once",
        Flaw::ResizedTwiceAtOnce,
        five_to_three,
    ),
    mutant(
        "roster-promise",
        "a member accepts only a ballot that it promised",
        "it accepts every ballot",
        Flaw::UnpromisedBallotsAccepted,
        two_operators,
    ),
    mutant(
        "roster-ballot-bits",
        "a ballot has random bits, because a restart may forget a promise",
        "a ballot is only a round",
        Flaw::BallotsWithoutRandomBits,
        two_operators_and_restart,
    )
    .quick(),
    mutant(
        "roster-highest-claim",
        "a node keeps the highest claim",
        "it adds up the claims",
        Flaw::ClaimsAddedUp,
        server_replaced_with_half_time_steps,
    )
    .quick(),
    mutant(
        "roster-hidden",
        "assumption: no majority of the members is hidden behind other servers at the same addresses",
        "two of three addresses lead another client to other servers",
        Flaw::MajorityHidden,
        majority_behind_other_servers,
    )
    .quick(),
];
