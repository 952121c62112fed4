//! One request to every node on behalf of nobody in particular: what each of them said, by a deadline.

use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use quorlock_core::name::LeaseId;
use quorlock_core::quorum::{NodeVote, Tally};
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Refusal, Request, Silence, Vote};
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::link::{Ask, Mark, Voter};
use crate::node::key::LockKey;
use crate::platform::clock;
use crate::platform::sync::Mutex;
use crate::platform::timers::Timed;

/// Collects what the nodes say.
pub(crate) struct Votes {
    deadline: Moment,
    said: Mutex<Vec<Option<Outcome>>>,
    news: Notify,
}

impl Votes {
    /// Nobody has said anything yet. `None` when the client is closed.
    pub(crate) fn by(cluster: &Cluster, deadline: Duration) -> Option<Arc<Self>> {
        let deadline = clock::now() + deadline;
        let said = Mutex::new(vec![None; cluster.links.len()]);
        let votes = Arc::new(Self { deadline, said, news: Notify::new() });
        let weak: Weak<Self> = Arc::downgrade(&votes);
        (!cluster.is_closed() && cluster.timers.at(deadline, weak).is_some()).then_some(votes)
    }

    /// Asks every node; those that cannot be asked are silent at once.
    pub(crate) fn ask(self: &Arc<Self>, cluster: &Cluster, key: &Arc<LockKey>, request: Request) {
        let mark = Arc::new(Mark::new(request.attempt()));
        let request = Arc::new(request);
        for link in &cluster.links {
            let ask = Ask {
                mark: Arc::clone(&mark),
                key: Arc::clone(key),
                request: Arc::clone(&request),
                voter: Arc::clone(self) as Arc<dyn Voter>,
                round: 0,
                is_resent: false,
            };
            if let Err(silence) = link.ask(ask) {
                self.note(link.node, Outcome::Silent(silence));
            }
        }
        cluster.flush();
    }

    pub(crate) fn note(&self, node: usize, outcome: Outcome) {
        if let Some(slot) = self.said().get_mut(node) {
            slot.get_or_insert(outcome);
        }
        self.news.notify_waiters();
    }

    /// Waits until all have answered, until the deadline, or until this much is enough.
    pub(crate) async fn wait(&self, enough: impl Fn(&[Option<Outcome>]) -> bool) -> Vec<Outcome> {
        loop {
            let news = self.news.notified();
            {
                let said = self.said();
                if enough(&said) || said.iter().all(Option::is_some) {
                    let unheard = || Outcome::Silent(Silence::Unheard);
                    return said.iter().map(|outcome| outcome.clone().unwrap_or_else(unheard)).collect();
                }
            }
            news.await;
        }
    }

    /// Waits until all have answered, or until the deadline.
    pub(crate) async fn all(&self) -> Vec<Outcome> {
        self.wait(|_| false).await
    }

    fn said(&self) -> MutexGuard<'_, Vec<Option<Outcome>>> {
        self.said.lock()
    }
}

impl Voter for Votes {
    fn vote(self: Arc<Self>, node: usize, _attempt: LeaseId, _round: u32, outcome: Outcome, _now: Moment) {
        self.note(node, outcome);
    }
}

impl Timed for Votes {
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment> {
        if now < self.deadline {
            return Some(self.deadline);
        }
        for slot in self.said().iter_mut() {
            slot.get_or_insert(Outcome::Silent(Silence::Late));
        }
        self.news.notify_waiters();
        None
    }
}

/// The account of what was said.
pub(crate) fn tally(cluster: &Cluster, said: Vec<Outcome>) -> Tally {
    let votes = said.into_iter().map(|outcome| match outcome {
        Outcome::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. } => {
            NodeVote::Silent(Silence::Broken(Refusal::WrongEpoch.to_string()))
        }
        Outcome::Voted { vote: Vote::Refusal(why), .. } => NodeVote::Refused(why),
        Outcome::Voted { .. } => NodeVote::Granted,
        Outcome::Silent(why) => NodeVote::Silent(why),
    });
    cluster.name_nodes(Tally { votes: votes.collect(), nodes: Vec::new() })
}
