//! The client: a connection to a set of nodes, which makes locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::name::{Name, OwnerId as Owner};
use quorlock_core::terms::Mode;
use quorlock_core::vote::Silence;

use crate::api::builder::{ClientBuilder, no_such_process};
use crate::api::election::Election;
use crate::api::lock::{Exclusive, Lock, Reentrant, Semaphore};
use crate::api::multi::All;
use crate::api::rw::{ReadWrite, RwLock};
use crate::cluster::Cluster;
use crate::cluster::break_lock::{Break, Broken, break_lock};
use crate::cluster::history::history;
use crate::cluster::inspect::{Inspection, inspect};
use crate::cluster::list::{Filter, ListPage, Listing, list, list_page};
use crate::cluster::stats::NodeStats;
use crate::detached::{DetachedLease, Released, ops};
use crate::error::{BreakError, CloseError, ConfigError, ConnectError, LeaseError, ReadError, ReconfigureError};
use crate::link::{Link, Stats};
use crate::node::event::Event;
use crate::node::memory::MemoryNodes;
use crate::node::{Companion, LockKey};
use crate::platform::entropy;

/// A client of a set of nodes, which makes locks on them. Clones are cheap, and share connections and settings.
///
/// The connections run on the runtime that `connect` ran on. They end when the last `Client`, [`Lock`] and
/// [`Lease`](crate::Lease) are dropped and all releases are delivered. [`close`](Self::close) releases every lease and
/// ends the connections earlier. Dropping the runtime also closes the client; locks whose releases were not delivered
/// stay held until their ttl ends.
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
    /// Run `quorlock nodes init` once for new servers. Without it, a client creates the cluster as soon as it has
    /// reached every server, and the servers vote only after a quarantine. A service that must start while its nodes
    /// are down or quarantined uses [`connect_lazy`](ClientBuilder::connect_lazy).
    ///
    /// Pass one `redis://`, `rediss://` or `sqlite:` URL, or three or more Redis URLs. See
    /// [`ClientBuilder::nodes`].
    ///
    /// # Errors
    /// [`ConnectError::NoMajority`] names each node and why it cannot vote. Other [`ConnectError`]s if the
    /// configuration is invalid, or if too many nodes are unusable until an operator acts: for example, they are
    /// replicas. See [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections.
    pub async fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::builder().nodes(urls).connect().await
    }

    /// Connects like [`connect`](Self::connect), but does not fail if no majority can vote yet: the client keeps trying
    /// in the background. See [`ClientBuilder::connect_lazy`].
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is invalid, or if too many nodes are unusable until an operator acts: for
    /// example, they are replicas. Unreachable nodes are not an error.
    ///
    /// # Cancel safety
    /// Dropping the future closes all connections.
    pub async fn connect_lazy<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::builder().nodes(urls).connect_lazy().await
    }

    /// Returns a client with one private node in memory, for tests and for locks within one process.
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

    /// Returns an exclusive lock, which has one holder at a time. Nothing is sent until the lock is acquired.
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

    /// Returns a lock that its owner may acquire again while holding it. The owner is new and random; clones of the
    /// lock have the same owner.
    pub fn reentrant(&self, name: impl AsRef<str>) -> Reentrant {
        Lock::new(self, self.key(name.as_ref()), self.new_owner())
    }

    /// Returns a lock with many readers or one writer.
    pub fn rw(&self, name: impl AsRef<str>) -> RwLock {
        Lock::new(self, self.key(name.as_ref()), ReadWrite::new())
    }

    /// Returns a lock with at most `permits` holders. `permits` is between 1 and [`PERMITS_MAX`](crate::PERMITS_MAX).
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        self.lock_as(name, Mode::Slot { permits, slot: 0 })
    }

    /// Returns the exclusive locks of all these names, as one lock: an acquire gets either all of them or none.
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        All::of(self, names)
    }

    /// Returns an election of one leader at a time. The leader is the holder of the exclusive lock of this name.
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
    /// The client searches the nodes step by step, so a lock that is acquired or released during the search may be
    /// missing. It scans Redis servers, a thousand keys at a time. If the [key
    /// template](crate::ClientBuilder::key_template) is just `{name}`, plain locks are not listed, because their keys
    /// look like any other key.
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

    /// Returns one page of the names that are held or waited for. The work for each page is bounded.
    ///
    /// Pass `""` as `cursor` for the first page, and [`ListPage::next`] of the previous page for every other page.
    /// Names are in no particular order, and a page may be empty. If locks change or a node fails between two pages, a
    /// name may be missing or appear twice.
    ///
    /// # Errors
    /// [`ReadError`] if no majority of the nodes can be searched, or if `cursor` is not the `next` of a page.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list_page(&self, filter: &Filter, cursor: &str) -> Result<ListPage, ReadError> {
        list_page(self.cluster(), filter, cursor).await
    }

    /// Breaks the lease with the given fence, which another client may hold. It does not break a newer lease.
    ///
    /// The nodes notify the holder at once; if the notification does not arrive, the holder learns of the break with
    /// its next renewal. The holder cannot renew the broken lease. Nobody else gets the lock before the lease would
    /// have ended, unless the break frees the lock [now](Break::now). If several leases share the lock, the newest
    /// fence identifies all of them, and all of them are broken.
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
    /// [`BreakError`] if nobody holds the lock, another lease now holds the lock, or no majority of the nodes answers.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop requests that were sent. The call can be repeated.
    pub async fn break_lock(&self, name: impl AsRef<str>, what: Break) -> Result<Broken, BreakError> {
        break_lock(self.cluster(), &self.key(name.as_ref())?, what).await
    }

    /// Extends a [detached](crate::Lease::detach) lease: a majority of the nodes restarts its ttl. Returns how long the
    /// lease is surely valid from now.
    ///
    /// A node that has lost its vote for the lease does not grant it again: unlike the [`Lease`](crate::Lease) guard,
    /// this client cannot know whether the lease was lost in the meantime.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if the lease can no longer have a majority. This is final: this client releases the
    /// remaining votes, and does not extend the lease again. [`LeaseError::NoQuorum`] if too few nodes answered: the
    /// lease may still be held until the end of its last known validity.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop an extension that was sent.
    pub async fn extend(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        ops::extend(self.cluster(), lease).await
    }

    /// Checks that a majority of the nodes has a detached lease now. Returns how long the lease is surely valid.
    ///
    /// A check can fail with [`LeaseError::Lost`] and a later check succeed: the client that acquired the lease may
    /// still be requesting it from nodes that did not have it.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if no majority of the nodes has the lease, or has it for long enough to rely on.
    /// [`LeaseError::NoQuorum`] if too few nodes answered.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        ops::check(self.cluster(), lease).await
    }

    /// Releases a detached lease on every node, and returns whether it was still held.
    ///
    /// As long as this client exists, it retries the release on unreachable nodes.
    ///
    /// # Errors
    /// [`LeaseError::NoQuorum`] if too few nodes acknowledged by the node deadline; the other votes end with their ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(&self, lease: &DetachedLease) -> Result<Released, LeaseError> {
        ops::release(self.cluster(), lease).await
    }

    /// Retires an owner from a name: releases every lease that the owner has of this name, in any client and process,
    /// and makes the nodes refuse the owner for this name for the duration `keep_out`. Other names are not affected.
    /// Returns whether the owner had a lease.
    ///
    /// Call this method if the owner may still have attempts under way that you do not know of, for example after lost
    /// replies. Such attempts fail with [`AcquireError::Retired`](crate::AcquireError::Retired). Votes on unreachable
    /// nodes end with their ttl.
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
    /// [`LeaseError::NoQuorum`] if too few nodes acknowledged: the owner may still acquire the lock. The call can be
    /// repeated.
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

    /// Adds a process to those that keep this client's leases alive. [`ClientBuilder::add_holder_process`] explains
    /// what this means.
    ///
    /// The process counts for a lease from the lease's next renewal. Returns whether any node tracks processes, as
    /// SQLite nodes do. If no node does, the call has no effect, and no lease has to be renewed because of it.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] if there is no such process.
    pub fn add_holder_process(&self, pid: u32) -> Result<bool, ConfigError> {
        self.add_companion(Companion::Process(pid))
    }

    /// Adds every member of a process group to the processes that keep this client's leases alive. `leader` is the id
    /// of the group's leader, which must be running now; the other members may outlive it. See
    /// [`add_holder_process`](Self::add_holder_process).
    ///
    /// # Errors
    /// [`ConfigError::Setting`] if there is no such process.
    pub fn add_holder_process_group(&self, leader: u32) -> Result<bool, ConfigError> {
        self.add_companion(Companion::Group(leader))
    }

    fn add_companion(&self, companion: Companion) -> Result<bool, ConfigError> {
        self.cluster().add_holder_process(companion).map_err(no_such_process)
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

    /// Returns the id of the cluster, or `None` until this client has seen the id on a majority of the nodes.
    ///
    /// The id is random. It is assigned when the cluster is created, and stored on every node, so it is the same for
    /// every client of these nodes.
    pub fn cluster_id(&self) -> Option<String> {
        self.cluster().membership.cluster()
    }

    /// Returns the URL of each node, without secrets, and why the node cannot vote now; `None` if it can vote.
    pub fn nodes(&self) -> Vec<(String, Option<Silence>)> {
        self.node_stats().into_iter().map(|stats| (stats.node, stats.trouble)).collect()
    }

    /// Returns the health of each node: whether it can vote, its round trips, its clock, and how often it lost its
    /// memory.
    pub fn node_stats(&self) -> Vec<NodeStats> {
        let cluster = self.cluster();
        let median = cluster.median_clock_offset();
        let stats = |link: &Arc<Link>| NodeStats {
            node: link.title.clone(),
            trouble: link.trouble().or_else(|| cluster.clock_trouble(link.node, median)),
            silent_for: link.silent_for(),
            round_trips: link.latency.round_trips(),
            skew_micros: link.clock_offset().zip(median).map(|(offset, median)| offset.saturating_sub(median)),
            restarts: link.latency.restarts(),
        };
        cluster.links.iter().map(stats).collect()
    }

    /// Returns why this client cannot use its [state folder](crate::ClientBuilder::state_folder), with the path.
    /// Returns `None` if the client can use the folder, has not needed it yet, or has no state folder. While the folder
    /// is unusable, a quarantine does not include the time between two runs.
    pub fn state_folder_trouble(&self) -> Option<String> {
        self.cluster().records.trouble()
    }

    /// Returns the counters of this client and all its clones together.
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
        self.cluster().counters.stats()
    }

    /// Returns the number of scheduled timer calls for acquires, leases and requests. Only for tests of this project.
    #[cfg(feature = "fuzzing")]
    #[doc(hidden)]
    pub fn scheduled_calls(&self) -> usize {
        self.cluster().timers.scheduled_calls()
    }

    /// Makes these nodes a new cluster, whose nodes may vote at once. Returns when every node can vote.
    ///
    /// Call it only if no lock can be outstanding on these nodes: on a cluster in use it can allow two holders. For new
    /// nodes, this call avoids the quarantine of `max_ttl`.
    ///
    /// # Errors
    /// [`ReconfigureError`] names the nodes that could not be reached. Unless
    /// [`danger_discard_leases`](crate::ClientBuilder::danger_discard_leases) is set, it also names the nodes that have
    /// a lease or cannot list their names. If there is any such node, no node is changed.
    ///
    /// # Cancel safety
    /// If the future is dropped, some nodes may have been changed and others not: repeat the call.
    pub async fn init_cluster(&self) -> Result<(), ReconfigureError> {
        self.cluster().init().await
    }

    /// Closes the client: releases every lease, and waits at most `deadline` until all nodes have acknowledged the
    /// releases.
    ///
    /// # Errors
    /// [`CloseError`] has the number of releases that were not delivered. The votes that they would have released end
    /// with their ttl.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the client from closing.
    pub async fn close(self, deadline: Duration) -> Result<(), CloseError> {
        let cluster = Arc::clone(self.cluster());
        cluster.close();
        cluster.wait_for_releases(deadline).await
    }
}

/// The handle that clones of a client, its locks and its leases share. Dropping the last of them closes the client.
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
