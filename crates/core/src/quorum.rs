//! Majorities, and the account of who voted how.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::nodes::NODES_MAX;
use crate::vote::{Refusal, Silence};

/// How many nodes there are, by configuration, and how many of them decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorum {
    nodes: usize,
}

impl Quorum {
    /// The quorum of a single node.
    pub const ONE: Self = Self { nodes: 1 };

    /// A quorum over this many nodes.
    ///
    /// # Errors
    /// [`QuorumError`] when there are none, too many, or two: two nodes stop when either does and are worse than one.
    pub fn new(nodes: usize) -> Result<Self, QuorumError> {
        match nodes {
            0 => Err(QuorumError::None),
            2 => Err(QuorumError::Two),
            1..=NODES_MAX => Ok(Self { nodes }),
            _ => Err(QuorumError::TooMany { nodes }),
        }
    }

    /// All nodes, whether or not they can be reached.
    pub const fn nodes(self) -> usize {
        self.nodes
    }

    /// How many have to agree.
    pub const fn majority(self) -> usize {
        Self::majority_of(self.nodes)
    }

    /// How many of this many nodes have to agree.
    pub const fn majority_of(nodes: usize) -> usize {
        nodes / 2 + 1
    }

    /// How long it takes until a majority of the nodes can vote, if it waits for quarantines that last this long. `None` if a
    /// majority can vote, or needs a node that is neither voting nor in quarantine.
    pub fn quarantine_left(nodes: usize, voting: usize, mut left: Vec<Duration>) -> Option<Duration> {
        left.sort_unstable();
        let missing = Self::majority_of(nodes).checked_sub(voting)?;
        left.get(missing.checked_sub(1)?).copied()
    }

    /// How many may be missing.
    pub const fn spare(self) -> usize {
        self.nodes - self.majority()
    }
}

/// A number of nodes that cannot decide anything sensibly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumError {
    /// No node at all.
    #[error("no nodes: at least one is needed")]
    None,
    /// Two nodes.
    #[error("two nodes tolerate no failure (both have to agree): use one, three or five")]
    Two,
    /// More than [`NODES_MAX`].
    #[error("{nodes} nodes are too many: at most {NODES_MAX}")]
    TooMany {
        /// How many there were.
        nodes: usize,
    },
}

/// How one node voted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeVote {
    /// In favour.
    Granted,
    /// Against, and why.
    Refused(Refusal),
    /// Not at all, and why.
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

/// Granted, refused and silent, node by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Each node's vote, in the order of the configuration.
    pub votes: Vec<NodeVote>,
    /// What each node is called, without secrets; filled in by whoever knows.
    pub nodes: Vec<String>,
}

impl Tally {
    /// How many nodes granted.
    pub fn granted(&self) -> usize {
        self.votes.iter().filter(|b| matches!(b, NodeVote::Granted)).count()
    }

    /// How many nodes refused.
    pub fn refused(&self) -> usize {
        self.votes.iter().filter(|b| matches!(b, NodeVote::Refused(_))).count()
    }

    /// How many nodes did not vote.
    pub fn silent(&self) -> usize {
        self.votes.iter().filter(|b| matches!(b, NodeVote::Silent(_))).count()
    }

    /// How long it takes until a majority can vote, if it waits for quarantines. A node that was only late, or not heard, may
    /// vote the next time.
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

    /// Each node's name with its vote.
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
            self.votes.iter().filter(|b| matches!(b, NodeVote::Silent(why) if want(why))).count()
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

/// What a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A majority is ours.
    Won,
    /// Somebody else's votes stand in the way.
    Held,
    /// Too few nodes voted.
    NoQuorum,
    /// The asker's own time was over before enough nodes had answered.
    CutOff,
    /// A majority granted, but too late for the lease to be of use.
    TooSlow,
    /// It was asked for in a way that does not go with how it is held.
    Mismatch,
}

#[cfg(test)]
mod tests;
