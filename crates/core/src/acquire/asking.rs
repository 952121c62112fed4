//! One attempt under way: who was asked, who owes an answer, who gave a hint meanwhile.

use alloc::vec::Vec;

use crate::fence::Fence;
use crate::name::LeaseId;
use crate::nodes::NodeSet;
use crate::quorum::Quorum;
use crate::round::{NodeReply, Round};
use crate::time::Moment;
use crate::vote::{Outcome, Refusal, Silence, Vote};

#[derive(Clone, Debug, Hash)]
pub(super) struct Asking {
    pub(super) attempt: LeaseId,
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
    nodes: Vec<Contact>,
}

/// How we stand with one node.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Contact {
    /// It owes an answer.
    pending: bool,
    /// It gave a hint while it owed one.
    hinted: bool,
    /// It owes the answer to a question that a hint of its own has led to.
    prompted: bool,
    /// When the question was sent that it has refused: it may still grant that by itself.
    refused: Option<Moment>,
}

impl Asking {
    pub(super) fn new(quorum: Quorum, attempt: LeaseId, proposal: Fence) -> Self {
        Self {
            attempt,
            proposal,
            round: Round::new(quorum),
            deadline: None,
            poll: None,
            sealing: NodeSet::default(),
            seals: 0,
            given_back: NodeSet::default(),
            nodes: alloc::vec![Contact::default(); quorum.nodes()],
        }
    }

    pub(super) fn is_pending(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|contact| contact.pending)
    }

    /// Nodes that have granted, or may do so yet.
    pub(super) fn unrefused(&self) -> NodeSet {
        (0..self.nodes.len()).filter(|node| self.is_granted(*node) || self.is_pending(*node)).collect()
    }

    pub(super) fn is_granted(&self, node: usize) -> bool {
        matches!(self.round.replies().get(node), Some(NodeReply::Granted { .. }))
    }

    pub(super) fn set_pending(&mut self, nodes: NodeSet, deadline: Moment) {
        self.deadline = Some(deadline);
        for node in nodes.iter() {
            self.nodes[node].pending = true;
        }
    }

    pub(super) fn note_hint(&mut self, node: usize) {
        self.nodes[node].hinted = true;
    }

    /// A hint is the reason why this node is asked.
    pub(super) fn note_prompt(&mut self, node: usize) {
        self.nodes[node].prompted = true;
    }

    /// Takes an answer, unless it is a refusal and the node has given a hint since it was asked: then it is to be asked
    /// again. Whether it is.
    pub(super) fn take(&mut self, node: usize, outcome: Outcome) -> bool {
        let Some(contact) = self.nodes.get_mut(node) else { return false };
        let hinted = contact.hinted;
        *contact = Contact { refused: refused_at(&outcome), ..Contact::default() };
        self.sealing.remove(node);
        let refused = |why: &Refusal| matches!(why, Refusal::Held { .. } | Refusal::Behind { .. });
        let is_old = hinted && matches!(&outcome, Outcome::Voted { vote: Vote::Refusal(why), .. } if refused(why));
        if !is_old {
            self.round.take(node, outcome);
        }
        // With votes in hand, whoever has not been asked yet will be: hints that get lost do not hold up the turn.
        let waits_for_hints = self.round.grants().next().is_some() && !self.unasked().is_empty();
        if !waits_for_hints && self.nodes.iter().all(|contact| !contact.pending) {
            self.deadline = None;
        }
        is_old
    }

    /// When the question was sent to which this node may give its vote by itself; `None` if it owes an answer or has voted.
    pub(super) fn refused(&self, node: usize) -> Option<Moment> {
        let contact = self.nodes.get(node).filter(|contact| !contact.pending && !self.is_granted(node))?;
        contact.refused
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
        for node in 0..self.nodes.len() {
            let contact = &mut self.nodes[node];
            let Contact { pending, refused, .. } = *contact;
            *contact = Contact { refused: refused.filter(|_| !pending), ..Contact::default() };
            if pending && self.round.replies()[node] == NodeReply::Waiting {
                self.round.take(node, Outcome::Silent(silence.clone()));
            }
        }
    }

    /// Nodes that owe an answer, and gave a hint to which there is none yet.
    pub(super) fn hinted(&self) -> NodeSet {
        let is_hinted = |node: &usize| self.nodes[*node].hinted || self.nodes[*node].prompted;
        (0..self.nodes.len()).filter(is_hinted).collect()
    }

    /// Whether somebody would have granted a lower proposal.
    pub(super) fn is_too_far_ahead(&self) -> bool {
        self.round.refusals().any(|why| matches!(why, Refusal::TooFarAhead))
    }

    /// Nodes that have not been asked in this turn.
    pub(super) fn unasked(&self) -> NodeSet {
        let is_unasked = |node: &usize| self.round.replies()[*node] == NodeReply::Waiting && !self.nodes[*node].pending;
        (0..self.nodes.len()).filter(is_unasked).collect()
    }

    /// Without votes, what was said before a hint is old: the next answer begins anew. Whoever owes one was asked with
    /// the proposal that there is.
    pub(super) fn begin_turn(&mut self, proposal: Fence) {
        if self.round.grants().next().is_some() {
            return;
        }
        if self.nodes.iter().all(|contact| !contact.pending) {
            self.proposal = proposal;
        }
        (0..self.nodes.len()).for_each(|node| self.round.forget(node));
    }

    /// Everyone is asked anew; votes that stand keep their fence and count until then.
    pub(super) fn begin_poll(&mut self, proposal: Fence) {
        self.poll = None;
        self.seals = 0;
        match self.round.grants().map(|(_, fence, _)| fence).max() {
            Some(fence) => self.proposal = self.proposal.max(fence),
            None => self.proposal = proposal,
        }
        for node in 0..self.nodes.len() {
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
