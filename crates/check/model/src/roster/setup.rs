//! The setup of a search: servers, clients, fault budgets, and the rule that is missing.

use std::sync::Arc;

use quorlock_core::node::roster::{Member, MemberId, Roster, Settings};

/// The ttl of every lease, and the cluster's maximum.
pub(super) const TTL_MILLIS: u64 = 1_000;
/// The maximum skew of the nodes' wall clocks.
pub(super) const MAX_SKEW_MICROS: u64 = 300_000;

/// A rule that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Clients count the votes of the servers in their lists.
    Lists,
    /// A server that lost its memory keeps its id.
    IdKept,
    /// Clients count a newcomer's quarantine from the proposal.
    CountFromProposal,
    /// Another number of members never quarantines the survivors.
    ResizeAtOnce,
    /// A server that installs a roster forgets its votes.
    SurvivorsForget,
    /// Newcomers vote at once.
    NewcomersVote,
    /// Requests name no roster.
    NoRosterNamed,
    /// A generation is settled when one member has installed it.
    OneAcknowledgement,
    /// A quarantine ends with the first claim.
    QuarantineShort,
    /// Clients count a newcomer's quarantine from the decision.
    CountUnsettled,
    /// After the loss of a majority, a majority of the seats is enough.
    MostSeats,
    /// A step of every seat uses any list of as many servers.
    AnyList,
    /// Votes of members that left still count.
    LeaversCount,
    /// Members promise and accept everything, and report nothing that they accepted.
    NoBallots,
    /// A majority of a list founds a cluster.
    FoundedByMajority,
    /// A successor is proposed before the generation is settled.
    ProposeUnsettled,
    /// The number of members changes twice without a pause.
    ResizeTwice,
    /// A member accepts a ballot that it did not promise.
    AcceptUnpromised,
    /// Ballots have no random bits.
    BallotsAlike,
    /// A node adds up claims.
    ClaimsAdded,
    /// Not a rule but an assumption: a majority of the members is hidden from a client behind other servers.
    MajorityHidden,
    /// A vote of the generation before counts, although its member was quarantined since.
    QuarantinedVotesCount,
}

/// What an operator tells a client to do, once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// The servers that join, as positions in the client's list.
    pub add: Vec<usize>,
    /// The servers that leave.
    pub remove: Vec<usize>,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// Its list: addresses, each with the server that it leads to.
    pub list: Vec<(usize, usize)>,
    /// The servers that it cannot reach, as positions in its list.
    pub cut_off: Vec<usize>,
    /// Whether it wants the lock.
    pub locks: bool,
    /// What operators tell it.
    pub orders: Vec<Order>,
    /// How many proposals it may begin by itself.
    pub proposals: u8,
}

impl ClientSpec {
    /// A client with this list of servers, each behind an address of its own.
    pub fn new(servers: impl IntoIterator<Item = usize>) -> Self {
        let list = servers.into_iter().map(|server| (server, server)).collect();
        Self { list, cut_off: Vec::new(), locks: true, orders: Vec::new(), proposals: 0 }
    }
}

/// How often each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Servers that restart empty.
    pub crashes: u8,
    /// Servers that restart with what they stored.
    pub restarts: u8,
    /// How often time passes.
    pub ticks: u8,
    /// How often clients ask for a vote.
    pub asks: u8,
}

/// The setup of a search.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of servers.
    pub servers: usize,
    /// The members at the beginning; empty if there is no cluster yet.
    pub members: Vec<usize>,
    /// Members that have lost their memory at the beginning.
    pub lost: Vec<usize>,
    /// Servers that may lose their memory.
    pub fragile: Vec<usize>,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// The fault budgets.
    pub budget: Budget,
    /// The last generation.
    pub generations: u64,
    /// How many steps of time a lease lasts: 1 or 2.
    pub ticks_of_ttl: u64,
    /// Whether holders renew.
    pub renews: bool,
    /// Whether a proposer asks all servers for their promises in one step.
    pub promises_at_once: bool,
    /// Whether members keep their ids when they restart.
    pub trusts_restarts: bool,
    /// The missing rule.
    pub flaw: Option<Flaw>,
}

impl Setup {
    /// Whether this rule is missing.
    pub fn lacks(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether an operator changes the number of members.
    pub(super) fn resizes(&self) -> bool {
        let mut orders = self.clients.iter().flat_map(|client| &client.orders);
        orders.any(|order| order.add.len() != order.remove.len())
    }

    /// How long one step of time lasts, in milliseconds.
    pub fn tick_millis(&self) -> u64 {
        TTL_MILLIS * 11 / 10 / self.ticks_of_ttl
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

    /// The roster at the beginning, with these servers.
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

/// The id of a server in its n-th life.
pub(super) fn member_id(server: usize, lives: u32) -> MemberId {
    MemberId(server as u128 * 16 + u128::from(lives))
}

/// The text of an address.
pub(super) fn address(at: usize) -> Arc<str> {
    char::from(b'a' + at as u8).to_string().into()
}
