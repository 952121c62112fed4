//! One attempt under way: who was asked, who owes an answer, who gave a hint meanwhile.

use alloc::vec::Vec;

use crate::fence::Fence;
use crate::nodes::NodeSet;
use crate::quorum::Quorum;
use crate::round::Round;
use crate::time::Moment;
use crate::vote::{Outcome, Refusal, Silence, Vote};

#[derive(Clone, Debug, Hash)]
pub(super) struct Asking {
    /// The fence that is proposed to whoever is asked in this turn.
    pub(super) proposal: Fence,
    pub(super) round: Round,
    /// When those who owe an answer are taken for silent.
    pub(super) deadline: Option<Moment>,
    /// When to ask everyone again; set while waiting in the queue.
    pub(super) poll: Option<Moment>,
    /// Nodes that have been asked to raise their fence and have not answered yet.
    pub(super) sealing: NodeSet,
    pub(super) seals: u8,
    /// Nodes whose votes the attempt before this one gave back: they have no vote for anybody, as far as is known, and
    /// will give no hint to the one who yielded.
    pub(super) given_back: NodeSet,
    /// Nodes that owe an answer.
    pending: NodeSet,
    /// Nodes that gave a hint while they owed an answer.
    hinted: NodeSet,
    /// Nodes that owe the answer to a request to which a hint of theirs has led.
    prompted: NodeSet,
    /// For each node, when the request was sent that it has refused: it may still grant that by itself.
    refused: Vec<Option<Moment>>,
}

impl Asking {
    pub(super) fn new(quorum: Quorum, proposal: Fence) -> Self {
        Self {
            proposal,
            round: Round::new(quorum),
            deadline: None,
            poll: None,
            sealing: NodeSet::default(),
            seals: 0,
            given_back: NodeSet::default(),
            pending: NodeSet::default(),
            hinted: NodeSet::default(),
            prompted: NodeSet::default(),
            refused: alloc::vec![None; quorum.nodes()],
        }
    }

    pub(super) fn is_pending(&self, node: usize) -> bool {
        self.pending.contains(node)
    }

    /// Nodes that have granted, or may do so yet.
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

    /// A hint is the reason why this node is asked.
    pub(super) fn note_prompt(&mut self, node: usize) {
        self.prompted.insert(node);
    }

    /// Takes an answer, unless it is a refusal and the node has given a hint since it was asked: then it has to be asked
    /// again. Returns whether it has.
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
        let is_old = was_hinted && self.refused[node].is_some();
        if !is_old {
            self.round.take(node, outcome);
        }
        // With votes in hand, whoever has not been asked yet will be: hints that get lost do not hold up the turn.
        let waits_for_hints = self.round.grants().next().is_some() && !self.unasked().is_empty();
        if !waits_for_hints && self.pending.is_empty() {
            self.deadline = None;
        }
        is_old
    }

    /// When the question was sent to which this node may give its vote by itself; `None` if it owes an answer or has voted.
    pub(super) fn refused(&self, node: usize) -> Option<Moment> {
        self.refused.get(node).copied().flatten().filter(|_| !self.is_pending(node) && !self.is_granted(node))
    }

    /// A node has granted what it had refused. Others are given until the deadline to do so, too.
    pub(super) fn take_handoff(&mut self, node: usize, fence: Fence, sent: Moment, deadline: Moment) {
        self.deadline = Some(deadline);
        self.take(node, Outcome::Voted { vote: Vote::grant(fence), sent });
    }

    /// The deadline of the nodes has come, or that of the asker: whoever owes an answer is silent.
    pub(super) fn give_up_on_the_rest(&mut self, now: Moment) {
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

    /// Nodes that owe an answer, and gave a hint to which there is none yet.
    pub(super) fn hinted(&self) -> NodeSet {
        self.hinted.iter().chain(self.prompted.iter()).collect()
    }

    /// Whether somebody would have granted a lower proposal.
    pub(super) fn is_too_far_ahead(&self) -> bool {
        self.round.refusals().any(|why| matches!(why, Refusal::TooFarAhead))
    }

    /// Nodes that have not been asked in this turn.
    pub(super) fn unasked(&self) -> NodeSet {
        let is_unasked = |node: &usize| self.round.replies()[*node].is_none() && !self.is_pending(*node);
        (0..self.refused.len()).filter(is_unasked).collect()
    }

    /// Without votes, what was said before a hint is old: the next answer begins anew. Whoever owes one was asked with
    /// the proposal that there is.
    pub(super) fn begin_turn(&mut self, proposal: Fence) {
        if self.round.grants().next().is_some() {
            return;
        }
        if self.pending.is_empty() {
            self.proposal = proposal;
        }
        (0..self.refused.len()).for_each(|node| self.round.forget(node));
    }

    /// Everyone is asked anew; votes that stand keep their fence and count until then.
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
