//! One attempt in progress: which nodes were asked, owe an answer, or sent a hint.

use alloc::vec::Vec;

use crate::fence::Fence;
use crate::nodes::NodeSet;
use crate::quorum::Quorum;
use crate::round::Round;
use crate::time::Moment;
use crate::vote::{Outcome, Refusal, Silence, Vote};

/// The state of one attempt.
#[derive(Clone, Debug, Hash)]
pub(super) struct Attempt {
    /// The fence that is proposed to the nodes in this turn. A hint starts a new turn.
    pub(super) proposal: Fence,
    pub(super) round: Round,
    /// When nodes that owe an answer count as silent.
    pub(super) deadline: Option<Moment>,
    /// When to ask all nodes again; set while waiting in the queue.
    pub(super) poll: Option<Moment>,
    /// Nodes that were asked to raise their fence and have not answered.
    pub(super) sealing: NodeSet,
    pub(super) seals: u8,
    /// Nodes whose votes the previous attempt yielded. Such a node may have a free vote, but sends no hint to the
    /// waiter that yielded.
    pub(super) yielded: NodeSet,
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
    pub(super) fn new(quorum: Quorum, proposal: Fence) -> Self {
        Self {
            proposal,
            round: Round::new(quorum),
            deadline: None,
            poll: None,
            sealing: NodeSet::default(),
            seals: 0,
            yielded: NodeSet::default(),
            pending: NodeSet::default(),
            hinted: NodeSet::default(),
            prompted: NodeSet::default(),
            refused: alloc::vec![None; quorum.nodes()],
        }
    }

    pub(super) fn is_pending(&self, node: usize) -> bool {
        self.pending.contains(node)
    }

    /// Returns the nodes that have granted or may still grant.
    pub(super) fn unrefused(&self) -> NodeSet {
        (0..self.refused.len()).filter(|node| self.is_granted(*node) || self.is_pending(*node)).collect()
    }

    pub(super) fn is_granted(&self, node: usize) -> bool {
        self.round.grants().any(|(granted, ..)| granted == node)
    }

    pub(super) fn set_pending(&mut self, nodes: NodeSet, deadline: Moment) {
        self.deadline = Some(deadline);
        self.pending.extend(nodes.iter());
    }

    pub(super) fn note_hint(&mut self, node: usize) {
        self.hinted.insert(node);
    }

    /// Records that a hint caused the request to this node.
    pub(super) fn note_prompt(&mut self, node: usize) {
        self.prompted.insert(node);
    }

    /// Takes an answer. If the node refuses, but has sent a hint since it was asked, discards the refusal and returns
    /// `true`: the node must be asked again.
    pub(super) fn take(&mut self, node: usize, outcome: Outcome) -> bool {
        if node >= self.refused.len() {
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
    pub(super) fn refused(&self, node: usize) -> Option<Moment> {
        self.refused.get(node).copied().flatten().filter(|_| !self.is_pending(node) && !self.is_granted(node))
    }

    /// Takes a handoff, which grants a request that the node had refused. The other nodes have until `deadline` to send
    /// their handoffs.
    pub(super) fn take_handoff(&mut self, node: usize, fence: Fence, sent: Moment, deadline: Moment) {
        self.deadline = Some(deadline);
        self.take(node, Outcome::Voted { vote: Vote::grant(fence), sent });
    }

    /// Counts every node that owes an answer as silent, because the node deadline or the caller's deadline has passed.
    pub(super) fn silence_pending(&mut self, now: Moment) {
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
    pub(super) fn hinted(&self) -> NodeSet {
        self.hinted.iter().chain(self.prompted.iter()).collect()
    }

    /// Returns whether a node refused the proposal as too far ahead.
    pub(super) fn is_too_far_ahead(&self) -> bool {
        self.round.refusals().any(|why| matches!(why, Refusal::TooFarAhead))
    }

    /// Returns the nodes that have not been asked in this turn.
    pub(super) fn unasked(&self) -> NodeSet {
        let is_unasked = |node: &usize| self.round.replies()[*node].is_none() && !self.is_pending(*node);
        (0..self.refused.len()).filter(is_unasked).collect()
    }

    /// Starts a new turn after a hint: forgets earlier replies, unless the attempt has votes. While nodes owe an
    /// answer, keeps the proposal with which they were asked.
    pub(super) fn begin_turn(&mut self, proposal: Fence) {
        if self.round.grants().next().is_some() {
            return;
        }
        if self.pending.is_empty() {
            self.proposal = proposal;
        }
        (0..self.refused.len()).for_each(|node| self.round.forget(node));
    }

    /// Prepares to ask all nodes again. A grant keeps its fence and counts until the new answer of its node.
    pub(super) fn begin_poll(&mut self, proposal: Fence) {
        self.poll = None;
        self.seals = 0;
        match self.round.grants().map(|(_, fence, _)| fence).max() {
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
        Outcome::Voted { vote: Vote::Refusal(Refusal::Held { .. } | Refusal::Behind { .. }), sent } => Some(*sent),
        _ => None,
    }
}
