//! Performs the steps that the core's state machines return.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use quorlock_core::delivery::Release;
use quorlock_core::hold::{Hold, Step};
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::request::{Parting, Request};
use quorlock_core::terms::{Mode, Terms};
use quorlock_core::vote::Outcome;

use super::{Claim, ClaimState, Stage};
use crate::cluster::broadcast::Broadcast;
use crate::error::LostError;
use crate::link::{Sender, Voter};
use crate::node::event::What;
use crate::platform::clock;
use crate::platform::entropy::SystemRng;

impl Claim {
    /// Performs these steps, and the steps that follow from them.
    pub(super) fn perform(self: &Arc<Self>, inner: &mut ClaimState, steps: Vec<Step>) {
        let mut steps = VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            inner.has_changed |= !matches!(step, Step::Ask { .. } | Step::Release { .. });
            match step {
                Step::Ask { nodes, round, request } => steps.extend(self.ask(inner, nodes, round, request)),
                Step::Release { attempt, nodes, parting } => {
                    if let Some(Parting::Yield(_)) = parting {
                        self.listen(inner);
                    }
                    // If the machine stops in the pause before an attempt, it releases an attempt that has asked no
                    // node.
                    inner.set_attempt(attempt);
                    self.give_back(inner, nodes, |_| parting, None);
                }
                Step::Waits(wait) => {
                    if let Stage::Acquiring { news, .. } = &mut inner.stage {
                        *news = Some(wait);
                    }
                }
                Step::Won { hold, sealed_late } => {
                    self.cluster.counters.won(sealed_late);
                    steps.extend(self.win(inner, hold));
                }
                Step::Defeated(defeat) => {
                    self.cluster.counters.defeated(defeat.verdict);
                    self.stop_acquiring(inner, Stage::Over(Some(Box::new(defeat))));
                }
                Step::Renewed { round } => inner.verdict = Some((round, None)),
                Step::Failed { round, tally } => inner.verdict = Some((round, Some(Box::new(tally)))),
                Step::Lost(loss) => {
                    let why = LostError::from(loss);
                    inner.end = Some(why);
                    self.cluster.counters.lost();
                    tracing::warn!(name = %self.key.name, reason = %why, "lease lost");
                    self.note(inner, What::Lost, inner.end);
                    // Some nodes may still have a vote for the lost lease.
                    self.give_back_all(inner, None);
                }
            }
        }
    }

    /// Sends a request to these nodes. A node without a connection counts as silent at once.
    fn ask(self: &Arc<Self>, inner: &mut ClaimState, nodes: NodeSet, round: u32, request: Request) -> Vec<Step> {
        inner.set_attempt(request.attempt());
        if std::mem::replace(&mut inner.has_asked, true) {
            self.listen(inner);
        }
        let sender = Sender { key: Arc::clone(&self.key), voter: Some(Arc::clone(self) as Arc<dyn Voter>) };
        inner.queued.extend(nodes.iter());
        let silent = self.cluster.send(nodes, &Arc::new(request), round, &sender);
        inner.asked.extend(nodes.iter().filter(|node| silent.iter().all(|(other, _)| other != node)));
        let take_silence = |(node, why)| inner.take(round, node, Outcome::Silent(why), clock::now());
        silent.into_iter().flat_map(take_silence).collect()
    }

    /// Queues the release of the current attempt at the links of `nodes`, and drops its requests that are not sent yet.
    fn give_back(
        &self,
        inner: &mut ClaimState,
        nodes: NodeSet,
        parting: impl Fn(usize) -> Option<Parting>,
        receipt: Option<&Arc<Broadcast>>,
    ) {
        let terms = match &inner.stage {
            Stage::Acquiring { machine, .. } => machine.terms(),
            Stage::Held(hold) | Stage::Detached { hold, .. } => hold.terms(),
            Stage::Over(_) => return,
        };
        let release = self.release_of(inner.attempt, terms);
        self.cluster.release(nodes, inner.asked, &release, parting, receipt);
        inner.queued.extend(nodes.iter());
    }

    pub(super) fn release_of(&self, attempt: LeaseId, terms: &Terms) -> Release<Sender> {
        Release {
            attempt,
            ttl: terms.ttl,
            is_plain: terms.plain,
            parting: None,
            is_foreign: false,
            context: Sender { key: Arc::clone(&self.key), voter: None },
        }
    }

    /// Queues the release of a lease that is over at all links.
    pub(super) fn give_back_all(&self, inner: &mut ClaimState, receipt: Option<&Arc<Broadcast>>) {
        let parting = inner.parting();
        self.give_back(inner, NodeSet::first(self.cluster.links.len()), parting, receipt);
    }

    /// Replaces core's `Acquire` by its `Hold`, which takes all replies from now on. Returns the steps of a hold that
    /// is already over by the wall clock.
    fn win(self: &Arc<Self>, inner: &mut ClaimState, hold: Hold) -> Vec<Step> {
        let Stage::Acquiring { machine, .. } = &inner.stage else { return Vec::new() };
        inner.waiter = machine.waiter();
        if let (Mode::Reentrant { owner }, Some(fence)) = (hold.terms().mode, hold.fence()) {
            inner.owner_fence = Some(self.cluster.owner_fences.enter(owner, &self.key.text, fence));
        }
        inner.granted = hold.nodes();
        self.stop_acquiring(inner, Stage::Held(hold));
        inner.follow_hold();
        self.note(inner, What::Granted, None);
        let now = clock::now();
        let moment = inner.moment(now, clock::wall);
        match &mut inner.stage {
            Stage::Held(hold) if moment > now => hold.tick(moment, &mut SystemRng::default()),
            _ => Vec::new(),
        }
    }

    /// Goes from acquiring to the `next` stage: drops the `Acquire`, and stops listening for hints.
    pub(super) fn stop_acquiring(&self, inner: &mut ClaimState, next: Stage) {
        if let Stage::Acquiring { machine, .. } = std::mem::replace(&mut inner.stage, next)
            && let Some(ticket) = machine.ticket().filter(|_| inner.listens)
        {
            self.cluster.claims.remove_waiter(ticket);
        }
    }

    /// Listens for hints from now on, because a node has the claim in its queue, or will have it soon. No earlier hint
    /// is missed: a node that queues the claim replies first, and sends hints later.
    pub(super) fn listen(self: &Arc<Self>, inner: &mut ClaimState) {
        if let Stage::Acquiring { machine, .. } = &inner.stage
            && let Some(ticket) = machine.ticket().filter(|_| !inner.listens)
        {
            inner.listens = true;
            let this: Weak<Self> = Arc::downgrade(self);
            self.cluster.claims.add_waiter(ticket, this);
        }
    }
}
