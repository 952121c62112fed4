//! Who may vote, and how many votes are a majority.

use alloc::vec::Vec;
use core::time::Duration;

use crate::nodes::NODES_MAX;

/// The configured number of nodes, and the majority of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorum {
    nodes: usize,
}

impl Quorum {
    /// The quorum of a single node.
    pub const ONE: Self = Self { nodes: 1 };

    /// Creates a quorum of this many nodes.
    ///
    /// # Errors
    /// [`QuorumError`] if there are no nodes, too many nodes, or two nodes. Two nodes are worse than one: locks stop
    /// when either node fails.
    pub fn new(nodes: usize) -> Result<Self, QuorumError> {
        match nodes {
            0 => Err(QuorumError::None),
            2 => Err(QuorumError::Two),
            1..=NODES_MAX => Ok(Self { nodes }),
            _ => Err(QuorumError::TooMany { nodes }),
        }
    }

    /// Returns the number of nodes, reachable or not.
    pub const fn nodes(self) -> usize {
        self.nodes
    }

    /// Returns the number of nodes that must agree.
    pub const fn majority(self) -> usize {
        Self::majority_of(self.nodes)
    }

    /// Returns the majority of this many nodes.
    pub const fn majority_of(nodes: usize) -> usize {
        nodes / 2 + 1
    }

    /// Returns how long quarantines keep a majority of the nodes from voting, where `left` is the rest of each
    /// quarantine. Returns `None` if a majority can vote already, or if the majority needs a node that neither votes
    /// nor is in quarantine.
    pub fn quarantine_left(nodes: usize, voting: usize, mut left: Vec<Duration>) -> Option<Duration> {
        left.sort_unstable();
        let missing = Self::majority_of(nodes).checked_sub(voting)?;
        left.get(missing.checked_sub(1)?).copied()
    }
}

/// An invalid number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumError {
    /// There are no nodes.
    #[error("no nodes: at least one is needed")]
    None,
    /// Two nodes.
    #[error("two nodes tolerate no failure (both have to agree): use one, three or five")]
    Two,
    /// More than [`NODES_MAX`].
    #[error("{nodes} nodes are too many: at most {NODES_MAX}")]
    TooMany {
        /// The number of nodes.
        nodes: usize,
    },
}

/// Identifies one memory of one server: random. A server that loses its memory gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u128);

/// Who gave a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Elector {
    /// The member.
    pub member: MemberId,
    /// The newest generation that the member had installed.
    pub generation: u64,
}

impl Elector {
    /// Returns the elector at this position of a list whose nodes are all members: see [`Electors::all`].
    pub const fn at(node: usize) -> Self {
        Self { member: MemberId(node as u128), generation: 0 }
    }
}

/// Who may vote, as one client knows it: the members of its newest roster.
///
/// A machine asks the nodes of the client's list, and knows them by their positions there. It counts their votes by
/// member: several positions may lead to one member, and a position may lead to a server that is no member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Electors {
    /// The number of nodes in the client's list.
    nodes: usize,
    /// The number of members that must agree.
    majority: usize,
    /// The generation of the roster.
    generation: u64,
    /// Each member, and the generation in which it was last quarantined.
    members: Vec<(MemberId, u64)>,
}

impl Electors {
    /// Creates the electors of one generation, for a client with a list of this many nodes. `members` has each member,
    /// and the generation in which it was last quarantined; `majority` of them must agree.
    pub fn new(nodes: usize, majority: usize, generation: u64, members: Vec<(MemberId, u64)>) -> Self {
        Self { nodes, majority, generation, members }
    }

    /// Creates electors among whom every node of the list is a member: [`Elector::at`] its position.
    pub fn all(quorum: Quorum) -> Self {
        let members = (0..quorum.nodes()).map(|node| (Elector::at(node).member, 0)).collect();
        Self::new(quorum.nodes(), quorum.majority(), 0, members)
    }

    /// Returns the number of nodes in the client's list.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the number of members that must agree.
    pub fn majority(&self) -> usize {
        self.majority
    }

    /// Returns whether a majority is possible without this many nodes of the list.
    pub fn has_majority_without(&self, nodes: usize) -> bool {
        nodes + self.majority <= self.nodes
    }

    /// Returns whether a majority may have granted although this many members have refused.
    pub fn has_majority_despite(&self, refusals: usize) -> bool {
        refusals + self.majority <= self.members.len()
    }

    /// Returns whether the elector has installed a newer roster. Its vote counts only after the client has read that
    /// roster: another client may have a majority under it.
    pub fn is_superseded_by(&self, elector: Elector) -> bool {
        elector.generation > self.generation
    }

    /// Returns whether this elector's vote counts: the elector is a member, has installed no newer roster, and has not been
    /// quarantined since it voted.
    pub fn counts(&self, elector: Elector) -> bool {
        let is_voter = |(id, since): &(MemberId, u64)| *id == elector.member && *since <= elector.generation;
        !self.is_superseded_by(elector) && self.members.iter().any(is_voter)
    }
}

#[cfg(test)]
mod tests;
