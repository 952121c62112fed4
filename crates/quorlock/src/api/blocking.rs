//! The same names without async, for code that has no runtime.
//!
//! A client owns a thread of its own on which its connections live; callers wait on their own threads.
//!
//! ```
//! use quorlock::blocking::Client;
//!
//! let client = Client::memory();
//! let lease = client.lock("nightly-report").acquire()?;
//! println!("only one of me, with fence {}", lease.fence()?);
//! lease.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod all;
mod background;
mod election;
mod lease;
mod lock;
mod reentrant;
mod rw;
mod semaphore;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::vote::Silence;

use crate::api::builder::ClientBuilder;
use crate::cluster::break_lock::{Break, Broken};
use crate::cluster::inspect::Inspection;
use crate::cluster::list::{Filter, ListPage, Listing};
use crate::cluster::owner::Owner;
use crate::cluster::stats::Stats;
use crate::detached::{DetachedLease, Released};
use crate::error::{BreakError, CloseError, ConnectError, LeaseError, ReadError, ReconfigureError};
use crate::node::event::Event;
use crate::node::memory::MemoryNodes;
pub use all::{All, Leases};
use background::{Background, wait};
pub use election::{Changes, Election, Leadership};
pub use lease::Lease;
pub use lock::Lock;
pub use reentrant::Reentrant;
pub use rw::RwLock;
pub use semaphore::Semaphore;

/// A set of nodes, and the locks on them. See [`crate::Client`].
///
/// The client's thread ends when the last `Client`, lock and lease are dropped, once it has delivered the releases. A
/// process that ends sooner leaves what is not delivered to the ttl: [`close`](Self::close) waits.
#[derive(Clone, Debug)]
pub struct Client {
    // Dropped first: closing what is held is what the background then has to deliver.
    client: crate::Client,
    background: Arc<Background>,
}

impl Client {
    /// Connects with the default settings, and waits until a majority of the nodes can vote. See
    /// [`crate::Client::connect`].
    ///
    /// # Errors
    /// [`ConnectError::NoMajority`] names each node and why it cannot vote; others when the configuration contradicts itself
    /// or a node.
    pub fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::build(crate::Client::builder().nodes(urls))
    }

    /// Connects like [`connect`](Self::connect), but also when no majority can vote yet. See
    /// [`crate::Client::connect_lazy`].
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration contradicts itself, or so many nodes that no majority is left.
    pub fn connect_lazy<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::build_lazy(crate::Client::builder().nodes(urls))
    }

    /// A client with one node of its own, in memory.
    ///
    /// # Panics
    /// When the system has no thread to give.
    pub fn memory() -> Self {
        let built = Self::build(crate::Client::builder().memory(&MemoryNodes::new(1)));
        built.expect("the defaults fit a node of our own")
    }

    /// Connects with the settings of a builder. See [`ClientBuilder::connect`].
    ///
    /// # Errors
    /// [`ConnectError`] when no majority can vote, or the configuration contradicts itself, or so many nodes that no majority is left.
    ///
    /// # Panics
    /// When the system has no thread to give.
    pub fn build(builder: ClientBuilder) -> Result<Self, ConnectError> {
        Self::start(builder.connect())
    }

    /// Connects with the settings of a builder, also when no majority can vote yet. See [`ClientBuilder::connect_lazy`].
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration contradicts itself, or so many nodes that no majority is left.
    ///
    /// # Panics
    /// When the system has no thread to give.
    pub fn build_lazy(builder: ClientBuilder) -> Result<Self, ConnectError> {
        Self::start(builder.connect_lazy())
    }

    fn start(
        connecting: impl Future<Output = Result<crate::Client, ConnectError>> + Send + 'static,
    ) -> Result<Self, ConnectError> {
        let background = Background::start();
        let client = background.run(connecting)?;
        background.look_after(&client);
        Ok(Self { client, background: Arc::new(background) })
    }

    /// A lock of this name. Nothing is sent before it is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.client.lock(name), &self.background)
    }

    /// A lock of this name that its owner may enter again. See [`crate::Client::reentrant`].
    pub fn reentrant(&self, name: impl AsRef<str>) -> Reentrant {
        Reentrant::new(self.client.reentrant(name), &self.background)
    }

    /// Many readers or one writer. See [`crate::Client::rw`].
    pub fn rw(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.client.rw(name), &self.background)
    }

    /// So many at a time, and no more. See [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.client.semaphore(name, permits), &self.background)
    }

    /// Exclusive locks of all these names, or of none. See [`crate::Client::all`].
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        All::new(self.client.all(names), &self.background)
    }

    /// One leader at a time, by the exclusive lock of this name. See [`crate::Client::election`].
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.client.election(name), &self.background)
    }

    /// How a name stands on every node. See [`crate::Client::inspect`].
    ///
    /// # Errors
    /// [`ReadError`] when no majority of the nodes can tell.
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, ReadError> {
        wait(self.client.inspect(name))
    }

    /// Ends somebody else's lease. See [`crate::Client::break_lock`].
    ///
    /// # Errors
    /// [`BreakError`] when nobody holds it, when another lease stands by now, and when no majority could be told.
    pub fn break_lock(&self, name: impl AsRef<str>, what: Break) -> Result<Broken, BreakError> {
        wait(self.client.break_lock(name, what))
    }

    /// The names that are held or waited for. See [`crate::Client::list`].
    ///
    /// # Errors
    /// [`ReadError`] when no majority of the nodes can be looked through.
    pub fn list(&self, filter: &Filter) -> Result<Listing, ReadError> {
        self.background.wait_with_timers(self.client.list(filter))
    }

    /// The names that are held or waited for, in pages. See [`crate::Client::list_page`].
    ///
    /// # Errors
    /// [`ReadError`] when no majority of the nodes can be searched, or no page gave this position.
    pub fn list_page(&self, filter: &Filter, position: &str) -> Result<ListPage, ReadError> {
        self.background.wait_with_timers(self.client.list_page(filter, position))
    }

    /// Extends a lease that was detached. See [`crate::Client::extend`].
    ///
    /// # Errors
    /// [`LeaseError`] when it is over, or too few nodes answered.
    pub fn extend(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        wait(self.client.extend(lease))
    }

    /// Looks whether a lease that was detached still stands. See [`crate::Client::check`].
    ///
    /// # Errors
    /// [`LeaseError`] when it does not, or too few nodes answered.
    pub fn check(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        wait(self.client.check(lease))
    }

    /// Gives back a lease that was detached. See [`crate::Client::release`].
    ///
    /// # Errors
    /// [`LeaseError`] when too few nodes acknowledged.
    pub fn release(&self, lease: &DetachedLease) -> Result<Released, LeaseError> {
        wait(self.client.release(lease))
    }

    /// Gives back everything that an owner has of a name, and does not let it in again for this long. See
    /// [`crate::Client::retire`].
    ///
    /// # Errors
    /// [`LeaseError`] when too few nodes acknowledged.
    pub fn retire(&self, name: impl AsRef<str>, owner: &Owner, keep_out: Duration) -> Result<Released, LeaseError> {
        wait(self.client.retire(name, owner, keep_out))
    }

    /// Retires the owner of a lease that was detached. See [`crate::Client::retire_owner_of`].
    ///
    /// # Errors
    /// [`LeaseError`] when too few nodes acknowledged.
    pub fn retire_owner_of(&self, lease: &DetachedLease, keep_out: Duration) -> Result<Released, LeaseError> {
        wait(self.client.retire_owner_of(lease, keep_out))
    }

    /// What has happened to locks, newest first. See [`crate::Client::history`].
    ///
    /// # Errors
    /// [`ReadError`] when no node answers.
    pub fn history(&self, limit: usize) -> Result<Vec<Event>, ReadError> {
        self.background.wait_with_timers(self.client.history(limit))
    }

    /// What this client has done so far, in numbers. Clones count together.
    pub fn stats(&self) -> Stats {
        self.client.stats()
    }

    /// The id of the cluster. See [`crate::Client::cluster_id`].
    pub fn cluster_id(&self) -> Option<String> {
        self.client.cluster_id()
    }

    /// Each node's URL, without secrets, and why it cannot vote just now; `None` when it can.
    pub fn nodes(&self) -> Vec<(String, Option<Silence>)> {
        self.client.nodes()
    }

    /// Declares that no lock can be outstanding on these nodes. See [`crate::Client::init_cluster`].
    ///
    /// # Errors
    /// [`ReconfigureError`] names the nodes that could not be reached.
    pub fn init_cluster(&self) -> Result<(), ReconfigureError> {
        let client = self.client.clone();
        self.background.run(async move { client.init_cluster().await })
    }

    /// Releases every lease and waits until all nodes have been told, at most for the deadline.
    ///
    /// # Errors
    /// [`CloseError`] says how many releases were not delivered.
    pub fn close(self, deadline: Duration) -> Result<(), CloseError> {
        let client = self.client.clone();
        self.background.run(client.close(deadline))
    }
}

#[cfg(test)]
mod tests;
