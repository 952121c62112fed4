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

mod background;

use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{LeaseId, Name};
use quorlock_core::retry::Retry;
use quorlock_core::vote::Silence;
use quorlock_core::watchdog::Renewals;

use crate::builder::ClientBuilder;
use crate::error::{
    AcquireError, CloseError, ConnectError, ExtendError, FenceError, InitError, LostError, ReleaseError, RunError,
};
use crate::node::memory::MemoryNodes;
use background::{Background, wait};

/// A set of nodes, and the locks on them. See [`crate::Client`].
///
/// When the last `Client` and [`Lock`] are dropped, every lease that is still alive is released; the client's thread ends
/// once it has delivered that. A process that ends sooner leaves it to the ttl: [`close`](Self::close) waits.
#[derive(Clone, Debug)]
pub struct Client {
    // Dropped first: closing what is held is what the background then has to deliver.
    client: crate::Client,
    background: Arc<Background>,
}

impl Client {
    /// Connects with the default settings. See [`crate::Client::connect`].
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration is at odds with itself or with a node.
    pub fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::build(crate::Client::builder().nodes(urls))
    }

    /// A client with one node of its own, in memory.
    ///
    /// # Panics
    /// When the system has no thread to give.
    pub fn memory() -> Self {
        let built = Self::build(crate::Client::builder().memory(&MemoryNodes::new(1)));
        built.expect("the defaults fit a node of our own")
    }

    /// Connects with the settings of a builder.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration is at odds with itself or with a node.
    ///
    /// # Panics
    /// When the system has no thread to give.
    pub fn build(builder: ClientBuilder) -> Result<Self, ConnectError> {
        let background = Background::start();
        let client = background.run(builder.connect())?;
        background.look_after(&client);
        Ok(Self { client, background: Arc::new(background) })
    }

    /// A lock of this name. Nothing is sent before it is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock { lock: self.client.lock(name), background: Arc::clone(&self.background) }
    }

    /// Each node's URL, without secrets, and why it cannot vote just now; `None` when it can.
    pub fn nodes(&self) -> Vec<(String, Option<Silence>)> {
        self.client.nodes()
    }

    /// Declares that no lock can be outstanding on these nodes. See [`crate::Client::init_cluster`].
    ///
    /// # Errors
    /// [`InitError`] names the nodes that could not be reached.
    pub fn init_cluster(&self) -> Result<(), InitError> {
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

/// A name plus how to ask for it. See [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock {
    lock: crate::Lock,
    background: Arc<Background>,
}

impl Lock {
    /// Asks the nodes for this lifetime.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|lock| lock.ttl(ttl))
    }

    /// Shown to whoever finds the lock held.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        self.map(|lock| lock.label(label))
    }

    /// Whether and how often leases of this lock are renewed.
    #[must_use]
    pub fn renewals(self, renewals: Renewals) -> Self {
        self.map(|lock| lock.renewals(renewals))
    }

    /// How [`acquire`](Self::acquire) asks again when the lock is held.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        self.map(|lock| lock.retry(retry))
    }

    /// The Redlock page to the letter. See [`crate::Lock::plain`].
    #[must_use]
    pub fn plain(self) -> Self {
        self.map(crate::Lock::plain)
    }

    /// Asks once. `None` when somebody else holds the lock.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held).
    pub fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        Ok(wait(self.lock.try_acquire())?.map(Lease::new))
    }

    /// Asks until the lock is ours, or until the retry policy has had enough attempts.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    pub fn acquire(&self) -> Result<Lease, AcquireError> {
        wait(self.lock.acquire()).map(Lease::new)
    }

    /// Asks until the lock is ours or the time is over.
    ///
    /// # Errors
    /// [`AcquireError`] says who held the lock at the end, or which nodes were missing.
    pub fn acquire_within(&self, within: Duration) -> Result<Lease, AcquireError> {
        wait(self.lock.acquire_within(within)).map(Lease::new)
    }

    /// Acquires, does the work, releases. Work that is not async cannot be dropped half-way: long work should ask
    /// [`Lease::ensure`] before each step.
    ///
    /// # Errors
    /// [`RunError::Acquire`] when the work never began, [`RunError::Lost`] when the lease was lost before its end.
    pub fn run<T>(&self, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError> {
        let lease = self.acquire()?;
        let done = work(&lease);
        lease.ensure(Duration::ZERO)?;
        wait(lease.lease.finish());
        Ok(done)
    }

    fn map(self, change: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        Self { lock: change(self.lock), background: self.background }
    }
}

/// What you get when a lock is won. See [`crate::Lease`].
#[derive(Debug)]
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct Lease {
    lease: crate::Lease,
}

impl Lease {
    fn new(lease: crate::Lease) -> Self {
        Self { lease }
    }

    /// What is locked.
    pub fn name(&self) -> &Name {
        self.lease.name()
    }

    /// The random value that signs this lease on the nodes.
    pub fn id(&self) -> LeaseId {
        self.lease.id()
    }

    /// The number that is higher than that of every earlier lease of this name.
    ///
    /// # Errors
    /// [`FenceError`] when the lease is over, or plain.
    pub fn fence(&self) -> Result<Fence, FenceError> {
        self.lease.fence()
    }

    /// How long the lease still surely holds if nothing renews it; zero when it is over.
    pub fn validity(&self) -> Duration {
        self.lease.validity()
    }

    /// Makes sure that at least this much validity is left, by a look at the clock.
    ///
    /// # Errors
    /// [`LostError`] when less is left, or none.
    pub fn ensure(&self, needed: Duration) -> Result<(), LostError> {
        self.lease.ensure(needed)
    }

    /// Waits until the lease is lost.
    pub fn lost(&self) -> LostError {
        wait(self.lease.lost())
    }

    /// Renews now.
    ///
    /// # Errors
    /// [`ExtendError`] when the lease is over, or no majority renewed it in time.
    pub fn extend(&self) -> Result<(), ExtendError> {
        wait(self.lease.extend())
    }

    /// Gives the lock back, and waits until a majority of the nodes has acknowledged it.
    ///
    /// # Errors
    /// [`ReleaseError`] when the lease was lost before, or too few nodes acknowledged.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(self.lease.release())
    }
}

#[cfg(test)]
mod tests;
