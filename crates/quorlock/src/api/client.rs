//! The client: a connection to a set of nodes, which makes locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::mode::{Mode, OwnerId as Owner};
use quorlock_core::name::Name;
use quorlock_core::vote::Silence;

use crate::api::builder::{ClientBuilder, not_a_process};
use crate::api::election::Election;
use crate::api::lock::{Exclusive, Lock, Reentrant, Semaphore};
use crate::api::multi::All;
use crate::api::rw::{Party, RwLock};
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

/// A connection to a set of nodes, which makes locks on them. Clones share everything and are cheap.
///
/// The connections run on the runtime that `connect` ran on. They end when the last `Client`, [`Lock`] and
/// [`Lease`](crate::Lease) are dropped and all releases are delivered. [`close`](Self::close) ends them earlier, and every
/// lease with them. Dropping the runtime closes the client, too; locks whose releases were not delivered stay held until
/// their ttl ends.
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
    /// Connects with the default settings, and waits at most five seconds until a majority of the nodes can vote.
    ///
    /// The nodes are one `redis://`, `rediss://` or `sqlite:` URL, or three and more Redis URLs. See
    /// [`ClientBuilder::nodes`].
    ///
    /// # Errors
    /// [`ConnectError::NoMajority`] names each node and why it cannot vote. Other [`ConnectError`]s if the configuration is
    /// invalid, or if too many nodes cannot be used for a majority to remain. See [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections.
    pub async fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::builder().nodes(urls).connect().await
    }

    /// Connects like [`connect`](Self::connect), but also if no majority can vote yet: the client keeps trying in the
    /// background. See [`ClientBuilder::connect_lazy`].
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is invalid, or if too many nodes cannot be used for a majority to remain.
    /// Unreachable nodes are not an error.
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections.
    pub async fn connect_lazy<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::builder().nodes(urls).connect_lazy().await
    }

    /// Returns a client with one node of its own in memory: for tests, and for locks within one process.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future closes the client.
    pub async fn memory() -> Self {
        let connected = Self::builder().memory(&MemoryNodes::new(1)).connect().await;
        connected.expect("a memory node accepts the defaults")
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { handle: Arc::new(Handle { cluster }) }
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.handle.cluster
    }

    pub(crate) fn key(&self, name: &str) -> Result<Arc<LockKey>, ConfigError> {
        Ok(Arc::new(self.cluster().settings.template.key(&Name::new(name)?)?))
    }

    /// Returns an exclusive lock: one holder at a time. Nothing is sent before it is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self, self.key(name.as_ref()), Exclusive)
    }

    /// Returns a lock whose kind is chosen at run time.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = quorlock::Client::memory().await;
    /// use quorlock::Mode;
    ///
    /// let mode = match std::env::var("SLOTS") {
    ///     Ok(slots) => Mode::Slot { permits: slots.parse()?, slot: 0 },
    ///     Err(_) => Mode::EXCLUSIVE,
    /// };
    /// let lease = client.lock_as("workers", mode).acquire().await?;
    /// # drop(lease);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn lock_as(&self, name: impl AsRef<str>, mode: Mode) -> Lock<Mode> {
        Lock::new(self, self.key(name.as_ref()), mode)
    }

    /// Returns a lock that its owner may enter again, with a new owner.
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

    /// Reads the state of a name on every node: its holder, its fence, and the number of waiters.
    ///
    /// # Errors
    /// [`ReadError`] if no majority of the nodes answers.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, ReadError> {
        inspect(self.cluster(), &self.key(name.as_ref())?).await
    }

    /// Lists the names that are held or waited for and match the filter, with their state on every node.
    ///
    /// The nodes are searched step by step, so names that come and go meanwhile may be missing. Redis servers are scanned, a
    /// thousand keys at a time. If the [key template](crate::ClientBuilder::key_template) is just `{name}`, the key of a lock
    /// looks like any other key: then plain locks are not listed.
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
    ///
    /// # Errors
    /// [`ReadError`] if no majority of the nodes can be searched.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(&self, filter: &Filter) -> Result<Listing, ReadError> {
        list(self.cluster(), filter).await
    }

    /// Lists the names that are held or waited for in pages, with a bounded amount of work for each page.
    ///
    /// `position` is `""` for the first page, and [`ListPage::next`] for the one after it. Names come in no particular
    /// order, and a page may have none. If locks change or a node fails meanwhile, a name may be missing or come twice.
    ///
    /// # Errors
    /// [`ReadError`] if no majority of the nodes can be searched, or if `position` did not come from a page.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list_page(&self, filter: &Filter, position: &str) -> Result<ListPage, ReadError> {
        list_page(self.cluster(), filter, position).await
    }

    /// Breaks somebody else's lease: the one with the given fence, and no newer one.
    ///
    /// The holder learns of it at once if hints reach it, and otherwise with its next renewal. It cannot get the lock back
    /// under the same lease. Nobody else gets the lock before the lease would have ended, unless the break frees it
    /// [now](Break::now). If several leases share the lock, the newest fence identifies them, and all of them are broken.
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
    /// [`BreakError`] if nobody holds the lock, another lease holds it by now, or no majority answers.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop requests that were sent. The call can be repeated.
    pub async fn break_lock(&self, name: impl AsRef<str>, what: Break) -> Result<Broken, BreakError> {
        break_lock(self.cluster(), &self.key(name.as_ref())?, what).await
    }

    /// Extends a [detached](crate::Lease::detach) lease: a majority of the nodes restarts the ttl. Returns how long the
    /// lease is surely valid from now.
    ///
    /// A node that no longer has its vote does not grant it again: without the state of the guard, this client cannot know
    /// whether the lease was lost meanwhile.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if no majority can have it any more. That is final: this client releases its remaining votes,
    /// and does not extend it again. [`LeaseError::NoQuorum`] if too few nodes answered: it may still be held until the end
    /// of the validity that was known before.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop an extension that was sent.
    pub async fn extend(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        ops::extend(self.cluster(), lease).await
    }

    /// Checks whether a majority of the nodes has a detached lease now, and returns how long it is surely valid.
    ///
    /// A check can succeed after [`LeaseError::Lost`] while the client that acquired the lease is still asking nodes that
    /// did not have it, or its guard repairs it.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if no majority has it, or not for long enough to rely on. [`LeaseError::NoQuorum`] if too few nodes
    /// answered.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        ops::check(self.cluster(), lease).await
    }

    /// Releases a detached lease on every node, and returns whether it was still held.
    ///
    /// Unreachable nodes get the release later, as long as this client exists.
    ///
    /// # Errors
    /// [`LeaseError::NoQuorum`] if too few nodes acknowledged by the node deadline; the other votes end with their ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(&self, lease: &DetachedLease) -> Result<Released, LeaseError> {
        ops::release(self.cluster(), lease).await
    }

    /// Releases every lease that an owner has of this name, through any client and process, and refuses the owner for this
    /// name for the duration `keep_out`. Other names are not affected. Returns whether the owner had any lease.
    ///
    /// Use it if the owner may have attempts under way that you do not know of, for example after lost replies. They fail
    /// with [`AcquireError::Retired`](crate::AcquireError::Retired). Votes on unreachable nodes end with
    /// their ttl.
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
    /// [`LeaseError::NoQuorum`] if too few nodes acknowledged: the owner may still enter. The call can be repeated.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop requests that were sent. The call can be repeated.
    pub async fn retire(
        &self,
        name: impl AsRef<str>,
        owner: Owner,
        keep_out: Duration,
    ) -> Result<Released, LeaseError> {
        ops::retire(self.cluster(), &self.key(name.as_ref())?, owner, keep_out, None).await
    }

    /// [Retires](Self::retire) the owner of a detached lease, or [releases](Self::release) a lease that has no owner.
    ///
    /// # Errors
    /// [`LeaseError::NoQuorum`] if too few nodes acknowledged. The call can be repeated.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop requests that were sent. The call can be repeated.
    pub async fn retire_owner_of(&self, lease: &DetachedLease, keep_out: Duration) -> Result<Released, LeaseError> {
        let Some(owner) = lease.owner() else { return self.release(lease).await };
        ops::retire(self.cluster(), &self.key(lease.name().as_str())?, owner, keep_out, Some(lease)).await
    }

    /// Counts this process, too, as keeping this client's leases alive, each of them from its next renewal on.
    /// [`ClientBuilder::also_alive_with`] does the same from the start.
    ///
    /// Returns whether any node tracks processes. If none does, there is no need to renew.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] if there is no such process.
    pub fn also_alive_with(&self, pid: u32) -> Result<bool, ConfigError> {
        self.add_companion(Companion::Process(pid))
    }

    /// Counts every member of the process group of this leader as keeping this client's leases alive. The leader must be
    /// running now; members may outlive it. Otherwise like [`also_alive_with`](Self::also_alive_with).
    ///
    /// # Errors
    /// [`ConfigError::Setting`] if there is no such process.
    pub fn also_alive_with_group(&self, leader: u32) -> Result<bool, ConfigError> {
        self.add_companion(Companion::Group(leader))
    }

    fn add_companion(&self, companion: Companion) -> Result<bool, ConfigError> {
        self.cluster().also_alive_with(companion).map_err(not_a_process)
    }

    /// Reads the history of locks, newest first: breaks, and the grants, releases and losses of clients that record a
    /// [history](ClientBuilder::history). The nodes keep about [`HISTORY_MAX`](crate::HISTORY_MAX) events; a few may be
    /// missing.
    ///
    /// # Errors
    /// [`ReadError`] if no node answers.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn history(&self, limit: usize) -> Result<Vec<Event>, ReadError> {
        history(self.cluster(), limit).await
    }

    /// Returns the id of the cluster: random, assigned once, stored on every node, and the same for every client of these
    /// nodes. `None` until this client has seen it on a majority of the nodes.
    pub fn cluster_id(&self) -> Option<String> {
        self.cluster().membership.cluster()
    }

    /// Returns the URL of each node, without secrets, and why it cannot vote now; `None` if it can.
    pub fn nodes(&self) -> Vec<(String, Option<Silence>)> {
        self.node_stats().into_iter().map(|stats| (stats.node, stats.trouble)).collect()
    }

    /// Returns the health of each node: whether it can vote, its round trips, its clock, and how often it lost its memory.
    pub fn node_stats(&self) -> Vec<NodeStats> {
        let cluster = self.cluster();
        let middle = cluster.middle();
        let stats = |link: &Arc<Link>| NodeStats {
            node: link.title.clone(),
            trouble: link.trouble().or_else(|| cluster.skew(link.node, middle)),
            silent_for: link.silent_for(),
            round_trips: link.latency.round_trips(),
            skew_micros: link.clock_offset().zip(middle).map(|(offset, middle)| offset.saturating_sub(middle)),
            restarts: link.latency.restarts(),
        };
        cluster.links.iter().map(stats).collect()
    }

    /// Returns why this client cannot use its [state folder](crate::ClientBuilder::state_folder), with the path; `None` if
    /// it can, has not needed it yet, or has none. While the folder is unusable, the time between two runs does not count
    /// towards a quarantine.
    pub fn state_folder_trouble(&self) -> Option<String> {
        self.cluster().records.trouble()
    }

    /// Returns the counters of this client. Clones count together.
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
        self.cluster().counters.read(&self.cluster().traffic)
    }

    /// Returns the number of pending timer calls: attempts, leases and requests under way. Only for tests of this project.
    #[cfg(feature = "fuzzing")]
    #[doc(hidden)]
    pub fn calls_to_come(&self) -> usize {
        self.cluster().timers.to_come()
    }

    /// Makes these nodes one new cluster, which may vote at once. By calling it you declare that no lock can be outstanding
    /// on them. Returns when every node can vote.
    ///
    /// For a new cluster this saves the quarantine of `max_ttl`. On a cluster in use it is dangerous: it can allow two holders.
    ///
    /// # Errors
    /// [`ReconfigureError`] names the nodes that could not be reached, and those that have a lease or cannot list their
    /// names, unless [`danger_discard_leases`](crate::ClientBuilder::danger_discard_leases) is set. If there are any, no
    /// node is changed.
    ///
    /// # Cancel safety
    /// If the future is dropped, some nodes may have been changed and others not: repeat the call.
    pub async fn init_cluster(&self) -> Result<(), ReconfigureError> {
        self.cluster().init().await
    }

    /// Releases every lease, and waits until all nodes have acknowledged the releases, at most for the deadline.
    ///
    /// # Errors
    /// [`CloseError`] has the number of releases that were not delivered: those votes end with their ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the client from closing.
    pub async fn close(self, deadline: Duration) -> Result<(), CloseError> {
        let cluster = Arc::clone(self.cluster());
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
