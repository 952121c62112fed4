//! One request to all nodes, and the votes that come back.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::fence::Fence;
use crate::quorum::{NodeVote, Quorum, Tally, Verdict};
use crate::time::Moment;
use crate::vote::{GrantedSlot, Outcome, Refusal, Silence, Vote};

/// What is known of one node in a round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeReply {
    /// Nothing yet.
    Waiting,
    /// It granted.
    Granted {
        /// The fence that it stored.
        fence: Fence,
        /// Which slot it is, of a semaphore.
        slot: Option<GrantedSlot>,
        /// When the granted request was sent.
        sent: Moment,
    },
    /// It refused.
    Refused(Refusal),
    /// It will not vote in this round.
    Silent(Silence),
}

/// Counts votes. Each node has one slot; what a slot says may only come from that node.
#[derive(Clone, Debug, Hash)]
pub struct Round {
    quorum: Quorum,
    replies: Vec<NodeReply>,
}

impl Round {
    /// A round in which nobody has voted yet.
    pub fn new(quorum: Quorum) -> Self {
        Self { quorum, replies: alloc::vec![NodeReply::Waiting; quorum.nodes()] }
    }

    /// Takes a node's outcome. A later one replaces an earlier one, except that silence never unsays a grant.
    pub fn take(&mut self, node: usize, outcome: Outcome) {
        let Some(slot) = self.replies.get_mut(node) else { return };
        *slot = match outcome {
            Outcome::Voted { vote: Vote::Grant { fence, slot }, sent } => NodeReply::Granted { fence, slot, sent },
            // A node that lost its memory has no vote for anybody: silence, and a new handshake for the link.
            Outcome::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. } => {
                NodeReply::Silent(Silence::Broken(alloc::format!("{}", Refusal::WrongEpoch)))
            }
            Outcome::Voted { vote: Vote::Refusal(why), .. } => NodeReply::Refused(why),
            // Nobody was asked for these in a round.
            Outcome::Voted { vote: Vote::Report(_) | Vote::Standing { .. } | Vote::Broken { .. }, .. } => return,
            Outcome::Silent(_) if matches!(slot, NodeReply::Granted { .. }) => return,
            Outcome::Silent(why) => NodeReply::Silent(why),
        };
    }

    /// Everyone who has not answered is silent for this reason.
    pub fn silence_the_rest(&mut self, why: &Silence) {
        for slot in &mut self.replies {
            if *slot == NodeReply::Waiting {
                *slot = NodeReply::Silent(why.clone());
            }
        }
    }

    /// What each node said.
    pub fn replies(&self) -> &[NodeReply] {
        &self.replies
    }

    /// Every grant: node, fence and the moment its request was sent.
    pub fn grants(&self) -> impl Iterator<Item = (usize, Fence, Moment)> + '_ {
        self.replies.iter().enumerate().filter_map(|(node, slot)| match slot {
            NodeReply::Granted { fence, sent, .. } => Some((node, *fence, *sent)),
            _ => None,
        })
    }

    /// Every grant of this slot; all grants, of a lock without slots.
    pub fn grants_of(&self, slot: Option<u32>) -> impl Iterator<Item = (usize, Fence, Moment)> + '_ {
        self.replies.iter().enumerate().filter_map(move |(node, state)| match state {
            NodeReply::Granted { fence, slot: granted, sent } if slot == granted.as_ref().map(|slot| slot.index) => {
                Some((node, *fence, *sent))
            }
            _ => None,
        })
    }

    /// The semaphore's slot that most nodes have granted.
    pub fn best_slot(&self) -> Option<u32> {
        let granted = self.replies.iter().filter_map(|state| match state {
            NodeReply::Granted { slot: Some(slot), .. } => Some(slot.index),
            _ => None,
        });
        granted.max_by_key(|slot| (self.grants_of(Some(*slot)).count(), Reverse(*slot)))
    }

    /// How many nodes have granted this slot of a semaphore, or could have.
    pub fn offers_of(&self, slot: u32) -> usize {
        let offered = |state: &&NodeReply| match state {
            NodeReply::Granted { slot: Some(granted), .. } => granted.index == slot || granted.free.contains(&slot),
            _ => false,
        };
        self.replies.iter().filter(offered).count()
    }

    /// The semaphore's slot that most nodes have granted or could grant.
    pub fn likeliest_slot(&self) -> Option<u32> {
        let named = self.replies.iter().flat_map(|state| match state {
            NodeReply::Granted { slot: Some(granted), .. } => {
                core::slice::from_ref(&granted.index).iter().chain(&granted.free)
            }
            _ => [].iter().chain(&[]),
        });
        named.copied().max_by_key(|slot| (self.offers_of(*slot), Reverse(*slot)))
    }

    /// Forgets what a node said: it is asked anew.
    pub fn forget(&mut self, node: usize) {
        if let Some(slot) = self.replies.get_mut(node) {
            *slot = NodeReply::Waiting;
        }
    }

    /// Whether so many nodes have refused or fallen silent that no majority of grants can come.
    pub fn is_out_of_reach(&self) -> bool {
        let gone = self.replies.iter().filter(|s| matches!(s, NodeReply::Refused(_) | NodeReply::Silent(_))).count();
        gone > self.quorum.spare()
    }

    /// Whether a majority has answered at all, in favour or not: what a release waits for.
    pub fn is_answered(&self) -> bool {
        self.answered() >= self.quorum.majority()
    }

    /// Whether so many nodes are silent that a majority will not answer.
    pub fn is_unanswerable(&self) -> bool {
        let silent = self.replies.iter().filter(|s| matches!(s, NodeReply::Silent(_))).count();
        silent > self.quorum.spare()
    }

    fn answered(&self) -> usize {
        self.replies.iter().filter(|s| matches!(s, NodeReply::Granted { .. } | NodeReply::Refused(_))).count()
    }

    /// How many may still vote.
    pub fn open(&self) -> usize {
        self.replies.iter().filter(|s| matches!(s, NodeReply::Waiting)).count()
    }

    /// Every refusal.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> + '_ {
        self.replies.iter().filter_map(|slot| if let NodeReply::Refused(why) = slot { Some(why) } else { None })
    }

    /// Every node that refused.
    pub fn refused(&self) -> impl Iterator<Item = usize> + '_ {
        self.replies.iter().enumerate().filter(|(_, slot)| matches!(slot, NodeReply::Refused(_))).map(|(node, _)| node)
    }

    /// Why a round without a majority failed.
    pub fn defeat(&self) -> Verdict {
        if self.refusals().any(|why| matches!(why, Refusal::Permits { .. } | Refusal::Upgrade | Refusal::Retired)) {
            return Verdict::Mismatch;
        }
        let contested = self.replies.iter().any(|s| {
            matches!(s, NodeReply::Refused(Refusal::Held { .. } | Refusal::Behind { .. } | Refusal::QueueFull))
        });
        let is_lost = |slot: &&NodeReply| matches!(slot, NodeReply::Silent(why) if *why != Silence::CutOff);
        match self.is_unanswerable() {
            false if contested => Verdict::Held,
            true if self.replies.iter().filter(is_lost).count() <= self.quorum.spare() => Verdict::CutOff,
            _ => Verdict::NoQuorum,
        }
    }

    /// The highest fence that anyone has mentioned.
    pub fn highest_fence(&self) -> Fence {
        let mentioned = self.replies.iter().map(|slot| match slot {
            NodeReply::Granted { fence, .. }
            | NodeReply::Refused(Refusal::Held { fence, .. } | Refusal::Behind { fence, .. }) => *fence,
            _ => Fence::default(),
        });
        mentioned.max().unwrap_or_default()
    }

    /// The account of the round; nodes that were not waited for are named as unheard.
    pub fn tally(&self) -> Tally {
        let votes = self.replies.iter().map(|slot| match slot {
            NodeReply::Waiting => NodeVote::Silent(Silence::Unheard),
            NodeReply::Granted { .. } => NodeVote::Granted,
            NodeReply::Refused(why) => NodeVote::Refused(why.clone()),
            NodeReply::Silent(why) => NodeVote::Silent(why.clone()),
        });
        Tally { votes: votes.collect(), nodes: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
