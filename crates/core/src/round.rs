//! Rounds: one request to all nodes, and the votes that come back. An attempt to acquire is a round whose requests are
//! repeated.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::fence::Fence;
use crate::nodes::NodeSet;
use crate::quorum::{Elector, Electors};
use crate::time::Moment;
use crate::vote::{GrantedSlot, NodeVote, Outcome, Refusal, Silence, Tally, Verdict, Vote};

/// The votes of one round: one reply for each node, and `None` for a node that has not answered.
///
/// A vote counts if its elector is a member of the newest roster that the client knows, and each member has one vote. All
/// other votes count as silence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    electors: Arc<Electors>,
    replies: Vec<Option<Outcome>>,
    /// The nodes that have a newer roster than the client. They are asked again after the client has read the roster.
    superseded: NodeSet,
}

/// A granted vote.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// The position of the node.
    pub node: usize,
    /// Who voted.
    pub elector: Elector,
    /// The fence that the node stored.
    pub fence: Fence,
    /// When the request was sent.
    pub sent: Moment,
    /// The slot, for a semaphore.
    pub slot: Option<&'a GrantedSlot>,
}

impl Round {
    /// Creates a round without votes.
    pub fn new(electors: &Arc<Electors>) -> Self {
        let replies = alloc::vec![None; electors.nodes()];
        Self { electors: electors.clone(), replies, superseded: NodeSet::default() }
    }

    /// Returns who may vote.
    pub fn electors(&self) -> &Electors {
        &self.electors
    }

    /// Takes a node's outcome. A later outcome replaces an earlier one, but a silence never replaces a grant.
    pub fn take(&mut self, node: usize, outcome: Outcome) {
        if node >= self.replies.len() {
            return;
        }
        // The node keeps its votes. The client reads the roster and asks again.
        if self.is_superseded_by(&outcome) {
            self.superseded.insert(node);
            return;
        }
        let other = match &outcome {
            Outcome::Voted { elector, .. } => self.position_of(*elector).filter(|other| *other != node),
            Outcome::Silent(_) => None,
        };
        let outcome = match (outcome, other) {
            // A node that lost its memory has no vote for any client: count the node as silent. The link repeats the
            // handshake.
            (Outcome::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. }, _) => {
                self.replies[node] = None;
                Outcome::Silent(Silence::Broken(alloc::format!("{}", Refusal::WrongEpoch)))
            }
            (Outcome::Voted { elector, .. }, _) if !self.electors.counts(elector) => {
                Outcome::Silent(Silence::Unfit("it is not a member of the cluster".into()))
            }
            (Outcome::Voted { .. }, Some(other)) if self.is_grant(other) => same_server(),
            (voted @ Outcome::Voted { .. }, Some(other)) => {
                self.replies[other] = Some(same_server());
                voted
            }
            (Outcome::Silent(why), _) => Outcome::Silent(self.silence_of(node, why)),
            (voted @ Outcome::Voted { .. }, None) => voted,
        };
        self.superseded.remove(node);
        if !(matches!(outcome, Outcome::Silent(_)) && self.is_grant(node)) {
            self.replies[node] = Some(outcome);
        }
    }

    fn is_grant(&self, node: usize) -> bool {
        is_grant(self.replies[node].as_ref())
    }

    /// Returns the position at which this member has voted.
    fn position_of(&self, elector: Elector) -> Option<usize> {
        self.replies.iter().position(
            |reply| matches!(reply, Some(Outcome::Voted { elector: other, .. }) if other.member == elector.member),
        )
    }

    /// Returns whether the outcome shows that the node has a newer roster than the client.
    pub(crate) fn is_superseded_by(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Voted { vote: Vote::Refusal(Refusal::NewRoster), .. } => true,
            Outcome::Voted { elector, .. } => self.electors.is_superseded_by(*elector),
            Outcome::Silent(_) => false,
        }
    }

    /// Counts every node that has not answered as silent, for this reason.
    pub fn silence_the_rest(&mut self, why: &Silence) {
        for node in 0..self.replies.len() {
            if self.replies[node].is_none() {
                self.replies[node] = Some(Outcome::Silent(self.silence_of(node, why.clone())));
            }
        }
        self.superseded = NodeSet::default();
    }

    fn silence_of(&self, node: usize, why: Silence) -> Silence {
        let is_superseded = self.superseded.contains(node);
        if is_superseded { Silence::Waiting(alloc::format!("{}", Refusal::NewRoster)) } else { why }
    }

    /// Follows the roster that the client has read: drops the replies that do not count any more. Returns the nodes to
    /// ask again: those, and the nodes that had a newer roster than the client.
    pub fn change_electors(&mut self, electors: &Arc<Electors>) -> NodeSet {
        let mut again = core::mem::take(&mut self.superseded);
        if self.electors == *electors {
            return again;
        }
        self.electors = electors.clone();
        for (node, reply) in self.replies.iter_mut().enumerate() {
            let counts =
                |reply: &mut Outcome| matches!(reply, Outcome::Voted { elector, .. } if electors.counts(*elector));
            if reply.take_if(|reply| !counts(reply)).is_some() {
                again.insert(node);
            }
        }
        again
    }

    /// Returns each node's reply.
    pub fn replies(&self) -> &[Option<Outcome>] {
        &self.replies
    }

    /// Returns every grant.
    pub fn grants(&self) -> impl Iterator<Item = Grant<'_>> {
        self.replies.iter().enumerate().filter_map(|(node, reply)| match reply {
            Some(Outcome::Voted { vote: Vote::Grant { fence, slot }, elector, sent }) => {
                Some(Grant { node, elector: *elector, fence: *fence, sent: *sent, slot: slot.as_ref() })
            }
            _ => None,
        })
    }

    /// Returns every grant of this slot; with `None`, every grant of a lock without slots.
    pub fn grants_of(&self, slot: Option<u32>) -> impl Iterator<Item = Grant<'_>> {
        self.grants().filter(move |grant| slot == grant.slot.map(|slot| slot.index))
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
        self.grants().filter_map(|grant| grant.slot)
    }

    /// Removes a node's reply, because the node is asked again.
    pub fn forget(&mut self, node: usize) {
        if let Some(reply) = self.replies.get_mut(node) {
            *reply = None;
        }
    }

    /// Returns whether a majority of grants is no longer possible.
    pub fn is_out_of_reach(&self) -> bool {
        let others = self.replies.iter().filter(|reply| reply.is_some() && !is_grant(reply.as_ref())).count();
        !self.electors.has_majority_without(others)
    }

    /// Returns whether a majority has answered, for or against.
    pub fn is_answered(&self) -> bool {
        let answers = self.replies.iter().filter(|reply| matches!(reply, Some(Outcome::Voted { .. })));
        answers.count() >= self.electors.majority()
    }

    /// Returns whether too many nodes are silent for a majority to answer.
    pub fn is_unanswerable(&self) -> bool {
        !self.electors.has_majority_without(self.silences().count())
    }

    /// Counts the nodes that have not answered.
    pub fn unanswered(&self) -> usize {
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
            true if self
                .electors
                .has_majority_without(self.silences().filter(|why| **why != Silence::CutOff).count()) =>
            {
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
        self.grants().map(|grant| grant.fence).chain(refused).max().unwrap_or_default()
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

/// The outcome at a position of a member that has voted at another position.
fn same_server() -> Outcome {
    Outcome::Silent(Silence::Unfit("it is the same server as another listed node".into()))
}

fn is_grant(reply: Option<&Outcome>) -> bool {
    matches!(reply, Some(Outcome::Voted { vote: Vote::Grant { .. }, .. }))
}

fn refusal(reply: Option<&Outcome>) -> Option<&Refusal> {
    if let Some(Outcome::Voted { vote: Vote::Refusal(why), .. }) = reply { Some(why) } else { None }
}

/// The state of one attempt.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Attempt {
    /// The fence that is proposed to the nodes in this turn. A hint starts a new turn.
    pub(crate) proposal: Fence,
    pub(crate) round: Round,
    /// When nodes that owe an answer count as silent.
    pub(crate) deadline: Option<Moment>,
    /// When to ask all nodes again; set while waiting in the queue.
    pub(crate) poll: Option<Moment>,
    /// Nodes that were asked to raise their fence and have not answered.
    pub(crate) sealing: NodeSet,
    pub(crate) seals: u8,
    /// Nodes whose votes the previous attempt yielded. Such a node may have a free vote, but sends no hint to the
    /// waiter that yielded.
    pub(crate) yielded: NodeSet,
    /// Nodes that owe an answer.
    pending: NodeSet,
    /// Nodes that sent a hint while they owed an answer.
    hinted: NodeSet,
    /// Nodes that owe the answer to a request that their own hint caused.
    prompted: NodeSet,
    /// For each node, the send time of the request that the node refused. The node may still grant that request by a
    /// handoff.
    refused: Vec<Option<Moment>>,
}

impl Attempt {
    pub(crate) fn new(electors: &Arc<Electors>, proposal: Fence) -> Self {
        Self {
            proposal,
            round: Round::new(electors),
            deadline: None,
            poll: None,
            sealing: NodeSet::default(),
            seals: 0,
            yielded: NodeSet::default(),
            pending: NodeSet::default(),
            hinted: NodeSet::default(),
            prompted: NodeSet::default(),
            refused: alloc::vec![None; electors.nodes()],
        }
    }

    pub(crate) fn is_pending(&self, node: usize) -> bool {
        self.pending.contains(node)
    }

    /// Returns the nodes that have granted or may still grant.
    pub(crate) fn unrefused(&self) -> NodeSet {
        (0..self.refused.len()).filter(|node| self.is_granted(*node) || self.is_pending(*node)).collect()
    }

    pub(crate) fn is_granted(&self, node: usize) -> bool {
        self.round.grants().any(|grant| grant.node == node)
    }

    pub(crate) fn set_pending(&mut self, nodes: NodeSet, deadline: Moment) {
        self.deadline = Some(deadline);
        self.pending.extend(nodes.iter());
    }

    pub(crate) fn note_hint(&mut self, node: usize) {
        self.hinted.insert(node);
    }

    /// Records that a hint caused the request to this node.
    pub(crate) fn note_prompt(&mut self, node: usize) {
        self.prompted.insert(node);
    }

    /// Takes an answer. If the node refuses, but has sent a hint since it was asked, discards the refusal and returns
    /// `true`: the node must be asked again.
    pub(crate) fn take(&mut self, node: usize, outcome: Outcome) -> bool {
        if node >= self.refused.len() {
            return false;
        }
        // The node still owes its answer.
        if self.round.is_superseded_by(&outcome) {
            self.round.take(node, outcome);
            return false;
        }
        let was_hinted = self.hinted.contains(node);
        self.refused[node] = refused_at(&outcome);
        self.pending.remove(node);
        self.hinted.remove(node);
        self.prompted.remove(node);
        self.sealing.remove(node);
        let is_outdated = was_hinted && self.refused[node].is_some();
        if !is_outdated {
            self.round.take(node, outcome);
        }
        // If the attempt has votes, the nodes that were not asked yet are asked at the deadline, so that lost hints do
        // not block the attempt.
        let waits_for_hints = self.round.grants().next().is_some() && !self.unasked().is_empty();
        if !waits_for_hints && self.pending.is_empty() {
            self.deadline = None;
        }
        is_outdated
    }

    /// Returns the send time of the request that this node may grant by a handoff; `None` if the node owes an answer or
    /// has granted.
    pub(crate) fn refused(&self, node: usize) -> Option<Moment> {
        self.refused.get(node).copied().flatten().filter(|_| !self.is_pending(node) && !self.is_granted(node))
    }

    /// Takes a handoff, which grants a request that the node had refused. The other nodes have until `deadline` to send
    /// their handoffs.
    pub(crate) fn take_handoff(&mut self, node: usize, elector: Elector, fence: Fence, sent: Moment, deadline: Moment) {
        self.deadline = Some(deadline);
        self.take(node, Outcome::Voted { vote: Vote::grant(fence), elector, sent });
    }

    /// Follows the roster that the client has read. Returns the nodes to ask again.
    pub(crate) fn change_electors(&mut self, electors: &Arc<Electors>) -> NodeSet {
        let superseded = self.round.superseded;
        superseded.iter().for_each(|node| self.pending.remove(node));
        let again = self.round.change_electors(electors);
        again.iter().filter(|node| !self.is_pending(*node)).collect()
    }

    /// Counts every node that owes an answer as silent, because the node deadline or the caller's deadline has passed.
    pub(crate) fn silence_pending(&mut self, now: Moment) {
        let silence = if self.deadline.is_some_and(|at| now < at) { Silence::CutOff } else { Silence::Late };
        self.deadline = None;
        self.sealing = NodeSet::default();
        self.hinted = NodeSet::default();
        self.prompted = NodeSet::default();
        for node in core::mem::take(&mut self.pending).iter() {
            self.refused[node] = None;
            if self.round.replies()[node].is_none() {
                self.round.take(node, Outcome::Silent(silence.clone()));
            }
        }
    }

    /// Returns the nodes that sent a hint and whose answer has not arrived since.
    pub(crate) fn hinted(&self) -> NodeSet {
        self.hinted.iter().chain(self.prompted.iter()).collect()
    }

    /// Returns whether a node refused the proposal as too far ahead.
    pub(crate) fn is_too_far_ahead(&self) -> bool {
        self.round.refusals().any(|why| matches!(why, Refusal::TooFarAhead))
    }

    /// Returns the nodes that have not been asked in this turn.
    pub(crate) fn unasked(&self) -> NodeSet {
        let is_unasked = |node: &usize| self.round.replies()[*node].is_none() && !self.is_pending(*node);
        (0..self.refused.len()).filter(is_unasked).collect()
    }

    /// Starts a new turn after a hint: forgets earlier replies, unless the attempt has votes. While nodes owe an
    /// answer, keeps the proposal with which they were asked.
    pub(crate) fn begin_turn(&mut self, proposal: Fence) {
        if self.round.grants().next().is_some() {
            return;
        }
        if self.pending.is_empty() {
            self.proposal = proposal;
        }
        (0..self.refused.len()).for_each(|node| self.round.forget(node));
    }

    /// Prepares to ask all nodes again. A grant keeps its fence and counts until the new answer of its node.
    pub(crate) fn begin_poll(&mut self, proposal: Fence) {
        self.poll = None;
        self.seals = 0;
        match self.round.grants().map(|grant| grant.fence).max() {
            Some(fence) => self.proposal = self.proposal.max(fence),
            None => self.proposal = proposal,
        }
        for node in 0..self.refused.len() {
            if !self.is_granted(node) {
                self.round.forget(node);
            }
        }
    }
}

fn refused_at(outcome: &Outcome) -> Option<Moment> {
    match outcome {
        Outcome::Voted { vote: Vote::Refusal(Refusal::Held { .. } | Refusal::Behind { .. }), sent, .. } => Some(*sent),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
