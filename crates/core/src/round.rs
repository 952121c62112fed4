//! One request to all nodes, and the votes that come back.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::fence::Fence;
use crate::quorum::{NodeVote, Quorum, Tally, Verdict};
use crate::time::Moment;
use crate::vote::{GrantedSlot, Outcome, Refusal, Silence, Vote};

/// The votes of one round: one reply for each node, and `None` for a node that has not answered.
#[derive(Clone, Debug, Hash)]
pub struct Round {
    quorum: Quorum,
    replies: Vec<Option<Outcome>>,
}

impl Round {
    /// Creates a round without votes.
    pub fn new(quorum: Quorum) -> Self {
        Self { quorum, replies: alloc::vec![None; quorum.nodes()] }
    }

    /// Takes a node's outcome. A later outcome replaces an earlier one, but a silence never replaces a grant.
    pub fn take(&mut self, node: usize, outcome: Outcome) {
        let Some(reply) = self.replies.get_mut(node) else { return };
        *reply = Some(match outcome {
            // A node that lost its memory has no vote for any client: count the node as silent. The link repeats the
            // handshake.
            Outcome::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. } => {
                Outcome::Silent(Silence::Broken(alloc::format!("{}", Refusal::WrongEpoch)))
            }
            Outcome::Silent(_) | Outcome::Voted { vote: Vote::Refusal(Refusal::NewRoster), .. }
                if is_grant(reply.as_ref()) =>
            {
                return;
            }
            // A node with a new roster keeps its votes. The client reads the roster and asks again.
            Outcome::Voted { vote: Vote::Refusal(Refusal::NewRoster), .. } => {
                Outcome::Silent(Silence::Waiting(alloc::format!("{}", Refusal::NewRoster)))
            }
            other => other,
        });
    }

    /// Counts every node that has not answered as silent, for this reason.
    pub fn silence_the_rest(&mut self, why: &Silence) {
        for reply in &mut self.replies {
            reply.get_or_insert_with(|| Outcome::Silent(why.clone()));
        }
    }

    /// Returns each node's reply.
    pub fn replies(&self) -> &[Option<Outcome>] {
        &self.replies
    }

    /// Returns every grant: node, fence, send time of the request, and slot.
    fn granted(&self) -> impl Iterator<Item = (usize, Fence, Moment, Option<&GrantedSlot>)> + '_ {
        self.replies.iter().enumerate().filter_map(|(node, reply)| match reply {
            Some(Outcome::Voted { vote: Vote::Grant { fence, slot }, sent }) => {
                Some((node, *fence, *sent, slot.as_ref()))
            }
            _ => None,
        })
    }

    /// Returns every grant: node, fence, and send time of the request.
    pub fn grants(&self) -> impl Iterator<Item = (usize, Fence, Moment)> + '_ {
        self.granted().map(|(node, fence, sent, _)| (node, fence, sent))
    }

    /// Returns every grant of this slot; with `None`, every grant of a lock without slots.
    pub fn grants_of(&self, slot: Option<u32>) -> impl Iterator<Item = (usize, Fence, Moment)> + '_ {
        let granted = self.granted().filter(move |(.., granted)| slot == granted.map(|slot| slot.index));
        granted.map(|(node, fence, sent, _)| (node, fence, sent))
    }

    /// Returns the slot that the most nodes have granted.
    pub fn best_slot(&self) -> Option<u32> {
        let slots = self.slots().map(|slot| slot.index);
        slots.max_by_key(|slot| (self.grants_of(Some(*slot)).count(), Reverse(*slot)))
    }

    /// Counts the nodes that have granted this slot, or reported it as free.
    pub fn offers_of(&self, slot: u32) -> usize {
        self.slots().filter(|granted| granted.index == slot || granted.free.contains(&slot)).count()
    }

    /// Returns the slot that the most nodes have granted or reported as free.
    pub fn likeliest_slot(&self) -> Option<u32> {
        let offered = self.slots().flat_map(|granted| granted.free.iter().chain([&granted.index])).copied();
        offered.max_by_key(|slot| (self.offers_of(*slot), Reverse(*slot)))
    }

    fn slots(&self) -> impl Iterator<Item = &GrantedSlot> + '_ {
        self.granted().filter_map(|(.., slot)| slot)
    }

    /// Removes a node's reply, because the node is asked again.
    pub fn forget(&mut self, node: usize) {
        if let Some(reply) = self.replies.get_mut(node) {
            *reply = None;
        }
    }

    /// Returns whether a majority of grants is no longer possible.
    pub fn is_out_of_reach(&self) -> bool {
        self.replies.iter().filter(|reply| reply.is_some() && !is_grant(reply.as_ref())).count() > self.quorum.spare()
    }

    /// Returns whether a majority has answered, for or against.
    pub fn is_answered(&self) -> bool {
        let answers = self.replies.iter().filter(|reply| matches!(reply, Some(Outcome::Voted { .. })));
        answers.count() >= self.quorum.majority()
    }

    /// Returns whether too many nodes are silent for a majority to answer.
    pub fn is_unanswerable(&self) -> bool {
        self.silences().count() > self.quorum.spare()
    }

    /// Counts the nodes that have not answered.
    pub fn open(&self) -> usize {
        self.replies.iter().filter(|reply| reply.is_none()).count()
    }

    /// Returns every silence.
    pub fn silences(&self) -> impl Iterator<Item = &Silence> + '_ {
        self.replies.iter().filter_map(|reply| if let Some(Outcome::Silent(why)) = reply { Some(why) } else { None })
    }

    /// Returns every refusal.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> + '_ {
        self.replies.iter().filter_map(|reply| refusal(reply.as_ref()))
    }

    /// Returns every node that refused.
    pub fn refused(&self) -> impl Iterator<Item = usize> + '_ {
        self.replies.iter().enumerate().filter(|(_, reply)| refusal(reply.as_ref()).is_some()).map(|(node, _)| node)
    }

    /// Returns why a round without a majority failed.
    pub fn defeat(&self) -> Verdict {
        if self.refusals().any(|why| matches!(why, Refusal::Permits { .. } | Refusal::Upgrade | Refusal::Retired)) {
            return Verdict::Mismatch;
        }
        let contested =
            |why: &Refusal| matches!(why, Refusal::Held { .. } | Refusal::Behind { .. } | Refusal::QueueFull);
        match self.is_unanswerable() {
            false if self.refusals().any(contested) => Verdict::Held,
            true if self.silences().filter(|why| **why != Silence::CutOff).count() <= self.quorum.spare() => {
                Verdict::CutOff
            }
            _ => Verdict::NoQuorum,
        }
    }

    /// Returns the highest fence in any reply.
    pub fn highest_fence(&self) -> Fence {
        let refused = self.refusals().filter_map(|why| match why {
            Refusal::Held { fence, .. } | Refusal::Behind { fence, .. } => Some(*fence),
            _ => None,
        });
        self.grants().map(|(_, fence, _)| fence).chain(refused).max().unwrap_or_default()
    }

    /// Returns each node's vote. Nodes that have not answered count as [`Silence::Unheard`].
    pub fn tally(&self) -> Tally {
        let votes = self.replies.iter().map(|reply| match reply {
            None => NodeVote::Silent(Silence::Unheard),
            Some(Outcome::Voted { vote: Vote::Refusal(why), .. }) => NodeVote::Refused(why.clone()),
            Some(Outcome::Voted { .. }) => NodeVote::Granted,
            Some(Outcome::Silent(why)) => NodeVote::Silent(why.clone()),
        });
        Tally { votes: votes.collect(), nodes: Vec::new() }
    }
}

fn is_grant(reply: Option<&Outcome>) -> bool {
    matches!(reply, Some(Outcome::Voted { vote: Vote::Grant { .. }, .. }))
}

fn refusal(reply: Option<&Outcome>) -> Option<&Refusal> {
    if let Some(Outcome::Voted { vote: Vote::Refusal(why), .. }) = reply { Some(why) } else { None }
}

#[cfg(test)]
mod tests;
