//! Releases at several nodes, and collects the nodes' replies until a deadline.

use std::sync::{Arc, Weak};
use std::time::Duration;

use quorlock_core::delivery::Release;
use quorlock_core::name::LeaseId;
use quorlock_core::nodes::NodeSet;
use quorlock_core::request::{Parting, Request};
use quorlock_core::round::Round;
use quorlock_core::time::Moment;
use quorlock_core::vote::{Outcome, Silence};
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::link::{Sender, Voter};
use crate::node::LockKey;
use crate::platform::clock;
use crate::platform::sync::Mutex;
use crate::platform::timers::Timed;

impl Cluster {
    /// Queues a release at the links of `nodes`, except nodes that were never asked for this attempt. `receipt`
    /// collects the acknowledgements.
    pub(crate) fn release(
        &self,
        nodes: NodeSet,
        asked: NodeSet,
        release: &Release<Sender>,
        parting: impl Fn(usize) -> Option<Parting>,
        receipt: Option<&Arc<Broadcast>>,
    ) {
        let now = receipt.map_or_else(clock::now, |receipt| receipt.begun);
        let Release { attempt, ttl, is_plain, is_foreign, ref context, .. } = *release;
        for node in nodes.iter() {
            let voter = receipt.map(|receipt| Arc::clone(receipt) as Arc<dyn Voter>);
            let context = Sender { key: Arc::clone(&context.key), voter };
            let release = Release { attempt, ttl, is_plain, is_foreign, parting: parting(node), context };
            let why = if asked.contains(node) {
                if self.links[node].release(release, now) {
                    continue;
                }
                Silence::Owing
            } else {
                Silence::Unheard
            };
            if let Some(receipt) = receipt {
                receipt.take(node, Outcome::Silent(why));
            }
        }
    }
}

/// The replies of all nodes to one request that belongs to no claim, or to a release.
pub(crate) struct Broadcast {
    pub(crate) begun: Moment,
    deadline: Moment,
    round: Mutex<Round>,
    changed: Notify,
}

impl Broadcast {
    /// Starts to wait for replies. Nodes that have not replied within `limit` count as silent.
    pub(crate) fn new(cluster: &Cluster, limit: Duration) -> Arc<Self> {
        let round = Mutex::new(Round::new(&cluster.settings.electors));
        let begun = clock::now();
        Arc::new(Self { begun, deadline: begun + limit, round, changed: Notify::new() })
    }

    /// Sends a request to every node, and [waits](Self::wait) for the replies for at most `limit`. Returns `None` if
    /// the client is closed.
    pub(crate) async fn ask(
        cluster: &Cluster,
        key: &Arc<LockKey>,
        request: Request,
        limit: Duration,
        is_enough: impl Fn(&Round) -> bool,
    ) -> Option<Round> {
        if cluster.is_closed() {
            return None;
        }
        let broadcast = Self::new(cluster, limit);
        let sender = Sender { key: Arc::clone(key), voter: Some(Arc::clone(&broadcast) as Arc<dyn Voter>) };
        let all = NodeSet::first(cluster.links.len());
        for (node, silence) in cluster.send(all, &Arc::new(request), 0, &sender) {
            broadcast.take(node, Outcome::Silent(silence));
        }
        drop(sender);
        cluster.flush();
        Some(broadcast.wait(cluster, is_enough).await)
    }

    /// Waits until all nodes have replied, the replies are enough, or the deadline has passed.
    pub(crate) async fn wait(self: &Arc<Self>, cluster: &Cluster, is_enough: impl Fn(&Round) -> bool) -> Round {
        let mut call = None;
        loop {
            let changed = self.changed.notified();
            let round = Some(self.round.lock()).filter(|round| round.unanswered() == 0 || is_enough(round));
            if let Some(round) = round.map(|round| round.clone()) {
                if let Some(call) = call {
                    cluster.timers.cancel(call);
                }
                return round;
            }
            if call.is_none() {
                let this: Weak<Self> = Arc::downgrade(self);
                call = cluster.timers.at(self.deadline, this);
                if call.is_none() {
                    Arc::clone(self).tick(self.deadline);
                }
            }
            changed.await;
        }
    }

    fn take(&self, node: usize, outcome: Outcome) {
        self.round.lock().take(node, outcome);
        self.changed.notify_waiters();
    }
}

impl Voter for Broadcast {
    fn vote(self: Arc<Self>, node: usize, _attempt: LeaseId, _round: u32, outcome: Outcome, _now: Moment) {
        self.take(node, outcome);
    }
}

impl Timed for Broadcast {
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment> {
        if now < self.deadline {
            return Some(self.deadline);
        }
        self.round.lock().silence_the_rest(&Silence::Late);
        self.changed.notify_waiters();
        None
    }
}
