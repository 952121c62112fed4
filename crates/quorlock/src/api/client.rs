//! The client: a set of nodes, and the locks on them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::mode::{Mode, OwnerId as Owner};
use quorlock_core::name::Name;
use quorlock_core::vote::Silence;

use crate::api::builder::ClientBuilder;
use crate::api::election::Election;
use crate::api::lock::{Exclusive, Lock};
use crate::api::multi::All;
use crate::api::reentrant::Reentrant;
use crate::api::rw::{Party, RwLock};
use crate::api::semaphore::Semaphore;
use crate::cluster::Cluster;
use crate::cluster::break_lock::{Break, Broken, break_lock};
use crate::cluster::history::history;
use crate::cluster::inspect::{Inspection, inspect};
use crate::cluster::list::{Filter, ListPage, Listing, list, list_page};
use crate::cluster::stats::{NodeStats, Stats};
use crate::detached::{DetachedLease, Released, ops};
use crate::error::{BreakError, CloseError, ConfigError, ConnectError, LeaseError, ReadError, ReconfigureError};
use crate::link::Link;
use crate::node::Companion;
use crate::node::event::Event;
use crate::node::key::LockKey;
use crate::node::memory::MemoryNodes;
use crate::platform::entropy;

/// A set of nodes, and the locks on them. Clones share everything and are cheap.
///
/// Its connections live on the runtime that `connect` ran on. They end when the last `Client`, [`Lock`] and
/// [`Lease`](crate::Lease) are dropped, once they have delivered what they owe. [`close`](Self::close) ends them earlier,
/// and every lease with them. When the runtime itself is dropped, the client is closed as well, and what was not delivered
/// lapses with its ttl.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use quorlock::Client;
///
/// let client = Client::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]).await?;
/// let lease = client.lock("nightly-report").acquire().await?;
/// # drop(lease);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    /// Connects with the default settings: one `redis://`, `rediss://` or `sqlite:` node, or three and more Redis nodes.
    /// Waits until a majority of the nodes can vote, at most five seconds.
    ///
    /// # Errors
    /// [`ConnectError::NoMajority`] names each node and why it cannot vote. Other [`ConnectError`]s when the configuration
    /// contradicts itself or so many nodes that no majority is left. See [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::builder().nodes(urls).connect().await
    }

    /// Connects like [`connect`](Self::connect), but also when no majority can vote yet: the client keeps trying in the
    /// background. See [`ClientBuilder::connect_lazy`].
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration contradicts itself, or so many nodes that no majority is left. Nodes that cannot
    /// be reached are no error.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn connect_lazy<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::builder().nodes(urls).connect_lazy().await
    }

    /// A client with one node of its own, in memory: for tests and for locks within one process.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn memory() -> Self {
        let connected = Self::builder().memory(&MemoryNodes::new(1)).connect().await;
        connected.expect("the defaults fit a node of our own")
    }

    /// Everything that can be set.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.handle.cluster
    }

    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { handle: Arc::new(Handle { cluster }) }
    }

    /// Returns an exclusive lock: one holder at a time. Nothing is sent before it is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self, self.key(name.as_ref()), Exclusive)
    }

    /// Returns a lock whose kind is chosen at run time.
    pub fn lock_as(&self, name: impl AsRef<str>, mode: Mode) -> Lock<Mode> {
        Lock::new(self, self.key(name.as_ref()), mode)
    }

    /// Returns a lock with a new owner, which may enter it again.
    pub fn reentrant(&self, name: impl AsRef<str>) -> Reentrant {
        Lock::new(self, self.key(name.as_ref()), self.new_owner())
    }

    /// Returns a lock with many readers or one writer.
    pub fn rw(&self, name: impl AsRef<str>) -> RwLock {
        Lock::new(self, self.key(name.as_ref()), Party::new())
    }

    /// Returns a lock with at most this many holders: between 1 and [`PERMITS_MAX`](crate::PERMITS_MAX).
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        self.lock_as(name, Mode::Slot { permits, slot: 0 })
    }

    /// Returns exclusive locks of all these names, which are acquired together.
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        All::of(self, names)
    }

    /// Returns an election of one leader at a time, by the exclusive lock of this name.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        self.lock(name)
    }

    /// Returns a new random owner, for a [reentrant lock](Self::reentrant) or an [`RwLock`].
    pub fn new_owner(&self) -> Owner {
        Owner::from_bits(entropy::bits())
    }

    pub(crate) fn key(&self, name: &str) -> Result<Arc<LockKey>, ConfigError> {
        Ok(Arc::new(self.cluster().settings.template.key(&Name::new(name)?)?))
    }

    /// How a name stands on every node: who holds it, with which fence, and how many wait. It changes nothing.
    ///
    /// # Errors
    /// [`ReadError`] when no majority of the nodes can tell.
    ///
    /// # Cancel safety
    /// It only looks.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, ReadError> {
        inspect(&self.handle.cluster, &self.key(name.as_ref())?).await
    }

    /// The names that are held or waited for and fit the filter, and how each stands on every node. It changes nothing.
    ///
    /// The nodes are looked through step by step, so names that come and go meanwhile may be missing. Redis servers are
    /// scanned, a thousand keys at a time. Where the [key template](crate::ClientBuilder::key_template) is `{name}` alone,
    /// a lock's key looks like any other: then plain locks are not listed.
    ///
    /// # Errors
    /// [`ReadError`] when no majority of the nodes can be looked through.
    ///
    /// # Cancel safety
    /// It only looks.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = quorlock::Client::memory().await;
    /// use quorlock::Filter;
    ///
    /// let lease = client.lock("invoices/42").acquire().await?;
    /// let listing = client.list(&Filter::new("invoices/*")).await?;
    /// assert_eq!(listing.names[0].name.as_str(), "invoices/42");
    /// # drop(lease);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn list(&self, filter: &Filter) -> Result<Listing, ReadError> {
        list(&self.handle.cluster, filter).await
    }

    /// Lists the names that are held or waited for in pages, with a bounded amount of work for each page.
    ///
    /// `position` is `""` for the first page, and [`ListPage::next`] for the one after it. Names come in no particular
    /// order, and a page may have none. While locks come and go, any name may be missing or come twice.
    ///
    /// # Errors
    /// [`ReadError`] when no majority of the nodes can be searched, or no page gave this position.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list_page(&self, filter: &Filter, position: &str) -> Result<ListPage, ReadError> {
        list_page(&self.handle.cluster, filter, position).await
    }

    /// Ends somebody else's lease: the one that is named by its fence, and no newer one.
    ///
    /// Its holder learns of it at once, if hints reach it, and else with its next renewal, and it can never have the
    /// lock back under the same lease. Nobody else gets the lock before the lease would have ended anyway, unless it is
    /// to be free [now](Break::now). If several hold together, all of them are broken, by the newest fence.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = quorlock::Client::memory().await;
    /// use quorlock::{Break, LostError};
    ///
    /// let lease = client.lock("report").acquire().await?;
    /// let seen = client.inspect("report").await?;
    /// let target = seen.target().expect("it is held");
    /// client.break_lock("report", Break::new(target, "its host is on fire").now()).await?;
    /// assert_eq!(lease.lost().await, LostError::Broken);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`BreakError`] when nobody holds it, when another lease stands by now, and when no majority could be told.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop what is under way; it can be called again.
    pub async fn break_lock(&self, name: impl AsRef<str>, what: Break) -> Result<Broken, BreakError> {
        break_lock(&self.handle.cluster, &self.key(name.as_ref())?, what).await
    }

    /// Extends a lease that was [detached](crate::Lease::detach): a majority of the nodes restarts the ttl. Returns
    /// how long it surely holds from now.
    ///
    /// Where its vote is gone, a node does not give it again: without the state of the guard nobody knows whether the
    /// lease was lost meanwhile.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when no majority can have it any more. That is final: this client releases what is left of it, and
    /// does not extend it again. [`LeaseError::NoQuorum`] when too few nodes answered; it may still be held, until the end that was known before.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop an extension that is under way.
    pub async fn extend(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        ops::extend(&self.handle.cluster, lease).await
    }

    /// Counts this process, too, as keeping this client's leases alive: each of them from its next renewal on.
    /// [`ClientBuilder::also_alive_with`] does the same from the start.
    ///
    /// Returns whether any node knows of processes. If none does, there is nothing to renew for.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] when there is no such process.
    pub fn also_alive_with(&self, pid: u32) -> Result<bool, ConfigError> {
        self.add_companion(Companion::Process(pid))
    }

    /// Counts every member of the process group that this process leads as keeping this client's leases alive. The leader has
    /// to live at this moment; members may outlive it. Otherwise the same as [`also_alive_with`](Self::also_alive_with).
    ///
    /// # Errors
    /// [`ConfigError::Setting`] when there is no such process.
    pub fn also_alive_with_group(&self, leader: u32) -> Result<bool, ConfigError> {
        self.add_companion(Companion::Group(leader))
    }

    fn add_companion(&self, companion: Companion) -> Result<bool, ConfigError> {
        self.handle.cluster.also_alive_with(companion).map_err(crate::api::builder::not_a_process)
    }

    /// Looks whether a majority of the nodes still has a lease that was detached, and for how long at least. It
    /// changes nothing.
    ///
    /// It tells how the nodes stand now. [`LeaseError::Lost`] can be followed by a success while the client that acquired the
    /// lease still gives it to nodes that did not have it, or its guard repairs it.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when no majority has it, or not for long enough to rely on. [`LeaseError::NoQuorum`] when too few nodes answered.
    ///
    /// # Cancel safety
    /// It only looks.
    pub async fn check(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        ops::check(&self.handle.cluster, lease).await
    }

    /// Gives back a lease that was detached, on every node, and says whether it still stood. One that is gone is
    /// released just as well. Nodes that cannot be reached now are told later, as long as this client lives.
    ///
    /// # Errors
    /// [`LeaseError::NoQuorum`] when too few nodes acknowledged by the node deadline; the rest lapses with its ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(&self, lease: &DetachedLease) -> Result<Released, LeaseError> {
        ops::release(&self.handle.cluster, lease).await
    }

    /// Releases everything that an owner has of this name, through any client and process, and refuses the owner for this
    /// name for that long. Its other names are not affected. Says whether it had anything.
    ///
    /// For one who may have attempts under way elsewhere of which it knows nothing, as after replies that were lost: none
    /// of them comes to anything any more. They are told [`AcquireError::Retired`](crate::AcquireError::Retired). On nodes
    /// that cannot be reached now, what it has there lapses with its ttl.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = quorlock::Client::memory().await;
    /// use std::time::Duration;
    ///
    /// let lock = client.reentrant("ledger");
    /// let (outer, inner) = (lock.acquire().await?, lock.acquire().await?);
    /// client.retire("ledger", lock.owner(), Duration::from_secs(600)).await?;
    /// assert!(client.lock("ledger").try_acquire().await?.is_some());
    /// assert!(lock.try_acquire().await.is_err());
    /// # drop((outer, inner));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`LeaseError::NoQuorum`] when too few nodes acknowledged: it may still be let in. It may be called again.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop what is under way; it can be called again.
    pub async fn retire(
        &self,
        name: impl AsRef<str>,
        owner: Owner,
        keep_out: Duration,
    ) -> Result<Released, LeaseError> {
        ops::retire(&self.handle.cluster, &self.key(name.as_ref())?, owner, keep_out, None).await
    }

    /// [Retires](Self::retire) the owner of a lease that was detached; one without an owner is
    /// [released](Self::release).
    ///
    /// # Errors
    /// [`LeaseError::NoQuorum`] when too few nodes acknowledged. It may be called again.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop what is under way; it can be called again.
    pub async fn retire_owner_of(&self, lease: &DetachedLease, keep_out: Duration) -> Result<Released, LeaseError> {
        let Some(owner) = lease.owner() else { return self.release(lease).await };
        ops::retire(&self.handle.cluster, &self.key(lease.name().as_str())?, owner, keep_out, Some(lease)).await
    }

    /// What has happened to locks, newest first: breaks, and what clients with a [history](ClientBuilder::history) have
    /// won, released and lost. The nodes keep about [`HISTORY_MAX`](crate::HISTORY_MAX) events; a few may be missing.
    ///
    /// # Errors
    /// [`ReadError`] when no node answers.
    ///
    /// # Cancel safety
    /// It only looks.
    pub async fn history(&self, limit: usize) -> Result<Vec<Event>, ReadError> {
        history(&self.handle.cluster, limit).await
    }

    /// The id of the cluster: random, given once, kept on every node, and the same for every client of these nodes.
    /// `None` until this client has seen a majority of the nodes carry it.
    pub fn cluster_id(&self) -> Option<String> {
        self.handle.cluster.cluster_id()
    }

    /// Each node's URL, without secrets, and why it cannot vote just now; `None` when it can.
    pub fn nodes(&self) -> Vec<(String, Option<Silence>)> {
        let cluster = &self.handle.cluster;
        let middle = cluster.middle();
        let trouble = |node: usize| cluster.links[node].trouble().or_else(|| cluster.skew(node, middle));
        cluster.links.iter().map(|link| (link.title.clone(), trouble(link.node))).collect()
    }

    /// How each node does: whether it can vote, how fast it answers, its clock, and how often it has lost its memory.
    pub fn node_stats(&self) -> Vec<NodeStats> {
        let cluster = &self.handle.cluster;
        let middle = cluster.middle();
        let stats = |(node, trouble): (String, Option<Silence>), link: &Link| NodeStats {
            node,
            trouble,
            silent_for: link.silent_for(),
            round_trips: link.latency.round_trips(),
            skew_micros: link.clock_offset().zip(middle).map(|(offset, middle)| offset.saturating_sub(middle)),
            restarts: link.latency.restarts(),
        };
        self.nodes().into_iter().zip(&cluster.links).map(|(node, link)| stats(node, link)).collect()
    }

    /// For how long each node has not been able to vote, as far as this client knows; `None` for one that is connected and
    /// may. The order is that of [`nodes`](Self::nodes).
    pub fn silent_for(&self) -> Vec<Option<Duration>> {
        self.handle.cluster.links.iter().map(|link| link.silent_for()).collect()
    }

    /// Why this client cannot use its [state folder](crate::ClientBuilder::state_folder), with the path; `None` if it can, has not needed
    /// it yet, or has none. The time between two runs then does not count towards a quarantine.
    pub fn state_folder_trouble(&self) -> Option<String> {
        self.handle.cluster.records.trouble()
    }

    /// What this client has done so far, in numbers. Clones count together.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = quorlock::Client::memory().await;
    /// let lease = client.lock("counted").acquire().await?;
    /// assert!(client.lock("counted").try_acquire().await?.is_none());
    /// assert_eq!((client.stats().acquired, client.stats().held, client.stats().lost), (1, 1, 0));
    /// # drop(lease);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn stats(&self) -> Stats {
        self.handle.cluster.counters.read(&self.handle.cluster.traffic)
    }

    /// Whom this client's timers will have to call: attempts, leases and questions that are under way. For tests of this
    /// project only.
    #[cfg(feature = "fuzzing")]
    #[doc(hidden)]
    pub fn calls_to_come(&self) -> usize {
        self.handle.cluster.timers.to_come()
    }

    /// Declares that no lock can be outstanding on these nodes: they become one new cluster and may vote at once.
    ///
    /// For a new cluster this saves the quarantine of `max_ttl`. For one in use it is dangerous: two holders may come of
    /// it. Returns when every node can vote.
    ///
    /// # Errors
    /// [`ReconfigureError`] names the nodes that show a lease or cannot list their names, unless
    /// [`danger_discard_leases`](crate::ClientBuilder::danger_discard_leases) is set, and those that could not be reached. If any cannot be, none is changed.
    ///
    /// # Cancel safety
    /// Dropped half-way, some nodes may have been changed and others not: call it again.
    pub async fn init_cluster(&self) -> Result<(), ReconfigureError> {
        self.handle.cluster.init().await
    }

    /// Releases every lease and waits until all nodes have been told, at most for the deadline.
    ///
    /// # Errors
    /// [`CloseError`] says how many releases were not delivered: what they would free lapses with its ttl.
    ///
    /// # Cancel safety
    /// Dropping the future stops the waiting, not the closing.
    pub async fn close(self, deadline: Duration) -> Result<(), CloseError> {
        let cluster = Arc::clone(&self.handle.cluster);
        cluster.close();
        cluster.drained(deadline).await
    }
}

/// Shared by clients, locks and leases. Closes the client when the last of them is dropped.
pub(crate) struct Handle {
    pub(crate) cluster: Arc<Cluster>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.cluster.close();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.cluster.links.iter().map(|link| &link.title)).finish()
    }
}
