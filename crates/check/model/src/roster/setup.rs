//! The setup of a search: servers, clients, fault budgets, and the rule that is missing.

use std::sync::Arc;

use quorlock_core::node::roster::{Member, Roster, Settings};
use quorlock_core::quorum::MemberId;

/// The ttl of every lease, and the cluster's maximum.
pub(super) const TTL_MILLIS: u64 = 1_000;
/// The maximum skew of the nodes' wall clocks.
pub(super) const MAX_SKEW_MICROS: u64 = 300_000;

/// A rule that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Clients count the votes of the servers in their lists.
    VotesOfListsCount,
    /// A server that lost its memory keeps its id.
    IdKeptAfterLoss,
    /// Clients count a newcomer's quarantine from the proposal.
    QuarantineCountedFromProposal,
    /// When the number of members changes by more than one, only new members are quarantined.
    ResizeWithoutQuarantine,
    /// A server that installs a roster forgets its votes.
    VotesForgottenAtInstall,
    /// Newcomers vote at once.
    NewcomersNotQuarantined,
    /// Requests name no roster.
    RequestsNameNoRoster,
    /// A generation is settled when one member has installed it.
    SettledByOneMember,
    /// A quarantine ends with the first claim.
    QuarantineEndsWithFirstClaim,
    /// Clients count a newcomer's quarantine from the decision.
    QuarantineCountedFromDecision,
    /// After a majority has lost its memory, a proposal needs a majority of the seats, and not every seat.
    MajorityOfSeatsEnough,
    /// A proposal to every seat accepts any list that has the same number of servers.
    EverySeatOfAnyList,
    /// Votes of members that left still count for an acquire.
    LeaversCountInAttempt,
    /// Votes of members that left still count for a lease.
    LeaversCountInHold,
    /// A member has a vote at each position of the list that leads to it.
    PositionsCount,
    /// A client that learns a roster counts a vote given under it before it drops the votes of leavers.
    CountedBeforeDropped,
    /// Members promise and accept every proposal, and do not report what they accepted.
    NoBallots,
    /// A majority of a list founds a cluster.
    FoundedByMajority,
    /// A successor is proposed before the generation is settled.
    ProposedBeforeSettled,
    /// The number of members changes twice without a pause.
    ResizedTwiceAtOnce,
    /// A member accepts a ballot that it did not promise.
    UnpromisedBallotsAccepted,
    /// Ballots have no random bits.
    BallotsWithoutRandomBits,
    /// A node adds up claims.
    ClaimsAddedUp,
    /// Not a rule but an assumption: a client reaches other servers at the addresses of a majority of the members.
    MajorityHidden,
    /// A vote from the previous generation counts, although its member has been quarantined since.
    VotesBeforeQuarantineCount,
}

/// A membership change that an operator requests once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MembershipChange {
    /// The servers that join, as positions in the client's list.
    pub add: Vec<usize>,
    /// The servers that leave.
    pub remove: Vec<usize>,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// The client's list: each address, and the server behind the address.
    pub list: Vec<(usize, usize)>,
    /// The servers that the client cannot reach, as positions in its list.
    pub unreachable: Vec<usize>,
    /// Whether the client tries to acquire the lock.
    pub wants_lock: bool,
    /// The changes that operators request from this client.
    pub membership_changes: Vec<MembershipChange>,
    /// How many proposals the client may start without an operator.
    pub proposals: u8,
}

impl ClientSpec {
    /// A client that lists these servers, each at its own address.
    pub fn new(servers: impl IntoIterator<Item = usize>) -> Self {
        let list = servers.into_iter().map(|server| (server, server)).collect();
        Self { list, unreachable: Vec::new(), wants_lock: true, membership_changes: Vec::new(), proposals: 0 }
    }
}

/// How often each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Servers that restart empty.
    pub crashes: u8,
    /// Servers that restart with their data.
    pub restarts: u8,
    /// How often time passes.
    pub time_steps: u8,
    /// How often clients ask for a vote.
    pub votes_requested: u8,
}

/// The setup of a search.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of servers.
    pub servers: usize,
    /// The members at the start. Empty if there is no cluster yet.
    pub members: Vec<usize>,
    /// Members that have lost their memory before the start.
    pub members_without_memory: Vec<usize>,
    /// Servers that may lose their memory.
    pub faulty_servers: Vec<usize>,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// The fault budgets.
    pub budget: Budget,
    /// The last generation.
    pub last_generation: u64,
    /// How many time steps a lease lasts: 1 or 2.
    pub time_steps_per_ttl: u64,
    /// Whether holders renew.
    pub renews: bool,
    /// Whether a proposer asks all servers for their promises in one step.
    pub promises_in_one_step: bool,
    /// Whether members keep their ids when they restart.
    pub trusts_restarts: bool,
    /// The missing rule.
    pub flaw: Option<Flaw>,
}

impl Setup {
    /// Whether this rule is missing.
    pub fn has_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether an operator changes the number of members.
    pub(super) fn resizes(&self) -> bool {
        let mut membership_changes = self.clients.iter().flat_map(|client| &client.membership_changes);
        membership_changes.any(|membership_change| membership_change.add.len() != membership_change.remove.len())
    }

    /// The length of a time step, in milliseconds.
    pub fn time_step_millis(&self) -> u64 {
        TTL_MILLIS * 11 / 10 / self.time_steps_per_ttl
    }

    /// The settings of the cluster.
    pub fn settings(&self) -> Settings {
        Settings {
            max_ttl_millis: TTL_MILLIS,
            max_skew_micros: MAX_SKEW_MICROS,
            key_template: "".into(),
            trusts_restarts: self.trusts_restarts,
        }
    }

    /// The first roster, with these servers.
    pub(super) fn first_roster(&self, servers: &[usize]) -> Option<Arc<Roster>> {
        let member = |server: &usize| Member { id: member_id(*server, 0), address: address(*server), since: 1 };
        let roster = Roster {
            cluster: quorlock_core::node::roster::ClusterId(1),
            generation: 1,
            members: servers.iter().map(member).collect(),
            before: Vec::new(),
            settings: self.settings(),
            longest_ttl_millis: TTL_MILLIS,
        };
        (!servers.is_empty()).then(|| Arc::new(roster))
    }
}

/// The id of a server that has had `lives` ids before.
pub(super) fn member_id(server: usize, lives: u32) -> MemberId {
    MemberId(server as u128 * 16 + u128::from(lives))
}

/// The text of an address.
pub(super) fn address(position: usize) -> Arc<str> {
    char::from(b'a' + position as u8).to_string().into()
}
