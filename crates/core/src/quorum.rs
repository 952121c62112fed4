//! Majorities, and the tally of a round.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::nodes::NODES_MAX;
use crate::vote::{Refusal, Silence};

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

    /// Returns how many nodes may fail.
    pub const fn spare(self) -> usize {
        self.nodes - self.majority()
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

/// The vote of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeVote {
    /// The node granted.
    Granted,
    /// The node refused, for this reason.
    Refused(Refusal),
    /// The node did not vote, for this reason.
    Silent(Silence),
}

impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Silent(why) => why.fmt(f),
        }
    }
}

/// The votes of a round: granted, refused and silent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Each node's vote, in the order of the configuration.
    pub votes: Vec<NodeVote>,
    /// Each node's name without secrets. The core leaves this list empty, and the driver fills it in.
    pub nodes: Vec<String>,
}

impl Tally {
    /// Counts the nodes that granted.
    pub fn granted(&self) -> usize {
        self.votes.iter().filter(|vote| matches!(vote, NodeVote::Granted)).count()
    }

    /// Counts the nodes that refused.
    pub fn refused(&self) -> usize {
        self.votes.iter().filter(|vote| matches!(vote, NodeVote::Refused(_))).count()
    }

    /// Counts the nodes that did not vote.
    pub fn silent(&self) -> usize {
        self.votes.iter().filter(|vote| matches!(vote, NodeVote::Silent(_))).count()
    }

    /// Returns how long quarantines keep a majority from voting. Assumes that nodes without an answer can vote.
    pub fn quarantine_left(&self) -> Option<Duration> {
        let (mut voting, mut left) = (0, Vec::new());
        for vote in &self.votes {
            match vote {
                NodeVote::Silent(Silence::Quarantined(time) | Silence::Founding(time)) => left.push(*time),
                NodeVote::Silent(
                    Silence::Unreachable(_) | Silence::Waiting(_) | Silence::Unfit(_) | Silence::Skewed(_),
                ) => {}
                _ => voting += 1,
            }
        }
        Quorum::quarantine_left(self.votes.len(), voting, left)
    }

    /// Returns each node's name with its vote.
    pub fn by_node(&self) -> impl Iterator<Item = (&str, &NodeVote)> {
        let names = self.nodes.iter().map(String::as_str).chain(core::iter::repeat("node"));
        names.zip(&self.votes)
    }
}

/// `2 of 5 granted, 1 silent, 1 quarantined, 1 refused`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} granted", self.granted(), self.votes.len())?;
        let silent = |want: fn(&Silence) -> bool| {
            self.votes.iter().filter(|vote| matches!(vote, NodeVote::Silent(why) if want(why))).count()
        };
        let quarantined = silent(|why| why.quarantine_left().is_some());
        let unheard = silent(|why| matches!(why, Silence::Unheard | Silence::CutOff));
        let counts = [
            (self.refused(), "refused"),
            (quarantined, "quarantined"),
            (unheard, "not heard"),
            (self.silent() - quarantined - unheard, "silent"),
        ];
        for (count, what) in counts {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A majority granted.
    Won,
    /// Votes for other clients prevent a majority.
    Held,
    /// Too few nodes voted.
    NoQuorum,
    /// The caller's deadline passed before enough nodes answered.
    CutOff,
    /// A majority granted, but too late to leave a useful validity.
    TooSlow,
    /// The requested mode conflicts with the mode of the current holders.
    Mismatch,
}

#[cfg(test)]
mod tests;
