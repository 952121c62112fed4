//! The nodes of a client. Sends requests to the nodes, reads the nodes' clocks, and keeps track of the client's claims.

pub(crate) mod admin;
pub(crate) mod break_lock;
pub(crate) mod broadcast;
pub(crate) mod doctor;
pub(crate) mod history;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod owner;
pub(crate) mod recent;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod view;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use quorlock_core::fence::median;
use quorlock_core::name::Channel;
use quorlock_core::nodes::NodeSet;
use quorlock_core::request::Request;
use quorlock_core::time::Moment;
use quorlock_core::vote::{NodeVote, Silence, Tally};

use crate::cluster::history::LastEventTime;
use crate::cluster::owner::OwnerFences;
use crate::cluster::settings::Settings;
use crate::error::{CloseError, ReconfigureError};
use crate::link::membership::Membership;
use crate::link::quarantine_records::Records;
use crate::link::{Claims, Counters, Link, LinkConfig, Sender};
use crate::node::event::Event;
use crate::node::{Companion, Node, STEP_DEADLINE};
use crate::platform::runtime;
use crate::platform::sync::AtomicBool;
use crate::platform::timers::Timers;
use recent::RecentLeases;

/// The nodes of one client.
pub(crate) struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) links: Vec<Arc<Link>>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) counters: Arc<Counters>,
    nodes: Vec<Arc<dyn Node>>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) owner_fences: Arc<OwnerFences>,
    /// Detached leases whose last extension found no majority. The next extension first checks the lease.
    pub(crate) doubts: RecentLeases,
    /// Detached leases that this client knows to be over, so that it does not extend them any more and writes each loss
    /// to the history only once.
    pub(crate) ended: RecentLeases,
    /// The channel on which this client receives hints.
    pub(crate) channel: Channel,
    /// This host's records of quarantines.
    pub(crate) records: Records,
    pub(crate) last_event: LastEventTime,
    closed: AtomicBool,
}

impl Cluster {
    /// Starts the links and the timers on the current runtime.
    pub(crate) fn start(settings: Settings, nodes: Vec<Arc<dyn Node>>, link: &LinkConfig) -> Arc<Self> {
        let titles: Vec<String> = nodes.iter().map(|node| node.title().to_owned()).collect();
        let membership = Membership::new(settings.quorum, titles, settings.constants(String::new()));
        let links =
            nodes.iter().enumerate().map(|(index, node)| Arc::new(Link::new(index, node.title(), link.clone())));
        let cluster = Self {
            links: links.collect(),
            settings,
            timers: Arc::default(),
            counters: Arc::clone(&link.counters),
            nodes,
            membership: Arc::new(membership),
            claims: Arc::clone(&link.claims),
            owner_fences: Arc::default(),
            doubts: RecentLeases::default(),
            ended: RecentLeases::default(),
            last_event: LastEventTime::default(),
            channel: link.channel,
            records: link.records.clone(),
            closed: AtomicBool::new(false),
        };
        let cluster = Arc::new(cluster);
        let timers = Arc::clone(&cluster.timers);
        let close_on_drop = CloseOnDrop(Arc::downgrade(&cluster));
        runtime::spawn(async move {
            let _close_on_drop = close_on_drop;
            timers.run().await;
        });
        for (link, node) in cluster.links.iter().zip(&cluster.nodes) {
            runtime::spawn(Arc::clone(link).run(Arc::clone(node), Arc::clone(&cluster.membership)));
        }
        cluster
    }

    /// Returns the median of the nodes' clocks at the moment `now`, in microseconds.
    pub(crate) fn node_micros(&self, now: Moment) -> Option<i64> {
        let offset = median(self.clock_offsets())?;
        Some(offset.saturating_add((now.as_nanos() / 1_000) as i64))
    }

    fn clock_offsets(&self) -> impl Iterator<Item = i64> + '_ {
        self.links.iter().filter_map(|link| link.clock_offset())
    }

    /// Returns the median of the nodes' clocks as an offset from this process's clock, in microseconds. Returns `None`
    /// if fewer than three clocks are known: if only two clocks differ, the client cannot tell which of them is wrong.
    pub(crate) fn median_clock_offset(&self) -> Option<i64> {
        if self.clock_offsets().count() < 3 { None } else { median(self.clock_offsets()) }
    }

    /// Returns why a node's clock keeps the node from voting: it is too far from the median of the nodes' clocks.
    /// Returns `None` if it is not. `median` is the result of [`median_clock_offset`](Self::median_clock_offset).
    pub(crate) fn clock_trouble(&self, node: usize, median: Option<i64>) -> Option<Silence> {
        let skew = self.links[node].clock_offset()?.saturating_sub(median?);
        let limit = (self.settings.max_clock_skew / 2).as_micros() as u64;
        (skew.unsigned_abs() > limit).then_some(Silence::Skewed(skew))
    }

    /// Queues a request at the links of these nodes. Returns the nodes whose link did not accept the request, with the
    /// reason.
    pub(crate) fn send(
        &self,
        nodes: NodeSet,
        request: &Arc<Request>,
        round: u32,
        sender: &Sender,
    ) -> Vec<(usize, Silence)> {
        // A node whose clock is far off must not propose fences.
        let median = if matches!(**request, Request::Acquire { .. }) { self.median_clock_offset() } else { None };
        let send = |node| match self.clock_trouble(node, median) {
            Some(trouble) => Err(trouble),
            None => self.links[node].ask(request, round, sender.clone()),
        };
        nodes.iter().filter_map(|node| Some((node, send(node).err()?))).collect()
    }

    /// Adds the nodes' titles to a tally, and for each silent node the reason, if the client knows the reason.
    pub(crate) fn name_nodes(&self, mut tally: Tally) -> Tally {
        for (vote, link) in tally.votes.iter_mut().zip(&self.links) {
            if *vote == NodeVote::Silent(Silence::Unheard)
                && let Some(why) = link.trouble()
            {
                *vote = NodeVote::Silent(why);
            }
        }
        tally.nodes = self.links.iter().map(|link| link.title.clone()).collect();
        tally
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends every lease. Each link ends after it has delivered its releases.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.claims.close();
        for link in &self.links {
            link.close();
        }
        // The timers call each claim that is still being acquired. The claim sees that the client is closed, and
        // releases its votes.
        self.timers.close();
    }

    /// Writes an event to the history of all nodes, if this client records events. The caller does not wait for the
    /// nodes, and writing the event may fail.
    pub(crate) fn note(&self, event: impl FnOnce() -> Event) {
        if self.settings.history {
            self.write_history(event(), false);
        }
    }

    /// Writes an event to the history of all nodes, even if this client does not record events. Unless `at_once` is
    /// set, each link collects events for up to a second and sends them together.
    pub(crate) fn write_history(&self, event: Event, at_once: bool) {
        let event = Arc::new(event);
        for link in &self.links {
            link.note(Arc::clone(&event), at_once);
        }
    }

    /// Sends the requests that are queued at the links.
    pub(crate) fn flush(&self) {
        self.links.iter().for_each(|link| link.flush());
    }

    /// Removes a claim that has queued its last release. Links that waited for this claim may now end.
    pub(crate) fn settle(&self, claim: u64) {
        self.claims.remove(claim);
        if self.is_closed() {
            for link in &self.links {
                link.nudge();
            }
        }
    }

    /// Waits until each link fulfils the condition or has ended.
    async fn wait_for_links(&self, condition: impl Fn(&Link) -> bool) {
        for link in &self.links {
            loop {
                let news = link.news.notified();
                if link.is_finished() || condition(link) {
                    break;
                }
                news.await;
            }
        }
    }

    /// Waits until every link has ended. A link ends after `close`, when its releases are delivered or their ttl has
    /// ended.
    pub(crate) async fn wait_for_links_to_end(&self) {
        self.wait_for_links(|_| false).await;
    }

    /// Waits until all releases are delivered, but not longer than `deadline`.
    pub(crate) async fn wait_for_releases(&self, deadline: Duration) -> Result<(), CloseError> {
        let is_drained = |link: &Link| link.owed() == 0 && self.claims.is_settled() && !link.is_noting();
        let _ = runtime::timeout(deadline, self.wait_for_links(is_drained)).await;
        match self.links.iter().map(|link| link.owed()).sum() {
            0 => Ok(()),
            owed => Err(CloseError { owed }),
        }
    }

    /// Adds a process or process group to the processes that keep this client's leases alive. Returns whether any node
    /// tracks processes.
    pub(crate) fn add_holder_process(&self, companion: Companion) -> Result<bool, u32> {
        self.nodes.iter().try_fold(false, |is_tracked, node| Ok(node.add_holder_process(companion)? || is_tracked))
    }

    /// Makes the nodes a new cluster. Uses separate connections for it, and then replaces those of the links.
    pub(crate) async fn init(&self) -> Result<(), ReconfigureError> {
        admin::init(&self.nodes, &self.settings).await?;
        self.membership.reset();
        for link in &self.links {
            link.reconnect();
        }
        let all_vote = self.wait_for_links(|link| link.trouble().is_none());
        if runtime::timeout(STEP_DEADLINE, all_vote).await.is_ok() {
            return Ok(());
        }
        let stuck = self.links.iter().filter_map(|link| Some((link.title.clone(), link.trouble()?.to_string())));
        Err(ReconfigureError::Failed { nodes: stuck.collect() })
    }
}

/// Closes the cluster when the timer task is dropped, for example because the runtime is dropped: without timers, the
/// client neither renews leases nor reports losses.
struct CloseOnDrop(Weak<Cluster>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(cluster) = self.0.upgrade() {
            cluster.close();
            cluster.timers.end();
        }
    }
}
