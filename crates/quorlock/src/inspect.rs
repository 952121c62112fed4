//! A look at a name on every node, which changes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, LeaseId, Name};
use quorlock_core::quorum::{Ballot, Quorum, Tally};
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Report, Request, Silence, Vote};
use tokio::sync::Notify;

use crate::clock;
use crate::cluster::Cluster;
use crate::error::InspectError;
use crate::link::{Ask, Mark, Voter};
use crate::node::place::Place;
use crate::timers::Timed;

/// How a name stands on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// What was looked at.
    pub name: Name,
    /// Each node's URL, without secrets, and what it said, or why it did not.
    pub nodes: Vec<(String, Result<Report, Silence>)>,
    quorum: Quorum,
}

impl Inspection {
    /// Who holds the name by the word of a majority, and with which fence; `None` when nobody does, or when the nodes
    /// were caught in the middle of a change.
    pub fn holder(&self) -> Option<(Option<Holder>, Fence)> {
        let held = || {
            let reports = self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok());
            reports.filter_map(|report| Some((report.fence, report.held.as_ref()?.holder.clone())))
        };
        let carried = |fence: Fence| held().filter(|(other, _)| *other == fence).count();
        let (fence, holder) = held().find(|(fence, _)| carried(*fence) >= self.quorum.majority())?;
        Some((holder, fence))
    }

    /// How many wait in line, on the node where most do.
    pub fn waiting(&self) -> u32 {
        self.nodes.iter().filter_map(|(_, said)| Some(said.as_ref().ok()?.waiting)).max().unwrap_or_default()
    }
}

/// Collects what the nodes say.
struct Look {
    deadline: Moment,
    said: Mutex<Vec<Option<Result<Report, Silence>>>>,
    news: Notify,
}

/// Asks every node, and waits until all have answered or the node deadline is over.
pub(crate) async fn inspect(cluster: &Arc<Cluster>, place: &Arc<Place>) -> Result<Inspection, InspectError> {
    if cluster.is_closed() {
        return Err(InspectError::Closed);
    }
    let deadline = clock::now() + cluster.settings.look_deadline();
    let said = Mutex::new(vec![None; cluster.links.len()]);
    let look = Arc::new(Look { deadline, said, news: Notify::new() });
    let mark = Arc::new(Mark::new(Request::Inspect.attempt()));
    let request = Arc::new(Request::Inspect);
    for link in &cluster.links {
        let ask = Ask {
            mark: Arc::clone(&mark),
            place: Arc::clone(place),
            request: Arc::clone(&request),
            voter: Arc::clone(&look) as Arc<dyn Voter>,
            round: 0,
        };
        if let Err(silence) = link.ask(ask) {
            look.note(link.node, Err(silence));
        }
    }
    cluster.flush();
    let weak: Weak<Look> = Arc::downgrade(&look);
    if !cluster.timers.at(deadline, weak) {
        return Err(InspectError::Closed);
    }
    let said = look.wait().await;
    let quorum = cluster.settings.quorum;
    if said.iter().filter(|said| said.is_ok()).count() < quorum.majority() {
        let ballots = said.into_iter().map(|said| said.map_or_else(Ballot::Silent, |_| Ballot::Granted));
        let tally = cluster.name_nodes(Tally { ballots: ballots.collect(), nodes: Vec::new() });
        return Err(InspectError::NoQuorum { name: place.name.clone(), tally });
    }
    let titles = cluster.links.iter().map(|link| link.title.clone());
    Ok(Inspection { name: place.name.clone(), nodes: titles.zip(said).collect(), quorum })
}

impl Look {
    fn note(&self, node: usize, said: Result<Report, Silence>) {
        if let Some(slot) = self.said().get_mut(node) {
            slot.get_or_insert(said);
        }
        self.news.notify_waiters();
    }

    async fn wait(&self) -> Vec<Result<Report, Silence>> {
        loop {
            let news = self.news.notified();
            if let Some(all) = self.said().iter().cloned().collect() {
                return all;
            }
            news.await;
        }
    }

    fn said(&self) -> MutexGuard<'_, Vec<Option<Result<Report, Silence>>>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Voter for Look {
    fn vote(self: Arc<Self>, node: usize, _attempt: LeaseId, _round: u32, outcome: Outcome) {
        self.note(
            node,
            match outcome {
                Outcome::Voted { vote: Vote::Report(report), .. } => Ok(*report),
                Outcome::Voted { .. } => Err(Silence::Failed("not what was asked for".into())),
                Outcome::Silent(why) => Err(why),
            },
        );
    }
}

impl Timed for Look {
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment> {
        if now < self.deadline {
            return Some(self.deadline);
        }
        for slot in self.said().iter_mut() {
            slot.get_or_insert(Err(Silence::Late));
        }
        self.news.notify_waiters();
        None
    }
}
