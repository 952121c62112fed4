//! The same API without async, for code that has no runtime.
//!
//! Each client has a thread that runs its connections. Each type of this module is a [`Blocking`] value around its
//! async counterpart: the async methods of the counterpart block the calling thread here, and all other methods are
//! available by dereferencing. To call an async method that has no blocking version, use [`wait`](Blocking::wait).
//!
//! Every blocking method panics within async code, such as a tokio task, because it would block all tasks on the same
//! thread. Within async code, use the [async API](crate), or call the blocking method in
//! [`spawn_blocking`](tokio::task::spawn_blocking).
//!
//! ```
//! use quorlock::blocking::Client;
//!
//! let client = Client::memory();
//! let lease = client.lock("nightly-report").acquire()?;
//! println!("only one of me, with fence {}", lease.fence()?);
//! lease.release()?;
//! assert_eq!(client.wait(client.inspect("nightly-report"))?.holder(), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use quorlock_core::backoff::Retry;
use quorlock_core::name::{Name, OwnerId as Owner};
use quorlock_core::terms::{Mode, Renewals};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::api::election::Leader;
use crate::api::lock::{Exclusive, Kind};
use crate::api::multi::Names;
use crate::api::rw::ReadWrite;
use crate::detached::DetachedLease;
use crate::error::{AcquireError, CloseError, ConnectError, LeaseError, LostError, ReadError, RunError};
use crate::lease::claim::Progress;

/// A value of the async API, with blocking methods in place of the async methods of `T`.
///
/// The methods of `T` that do not wait are available by dereferencing.
#[derive(Clone, Debug)]
#[must_use = "dropping a lease releases its lock"]
pub struct Blocking<T> {
    // This field is dropped before `running`, so that the thread still delivers the releases.
    inner: T,
    runtime: Handle,
    /// The thread ends when all clones of this sender are dropped and the releases are delivered.
    running: Arc<oneshot::Sender<()>>,
}

/// A blocking client. See [`crate::Client`].
///
/// Its thread ends when the last client, lock and lease are dropped and the releases are delivered. If the process ends
/// before that, names that are not released yet stay locked until their ttl ends. To wait for the releases, call
/// [`close`](Client::close).
pub type Client = Blocking<crate::Client>;
/// A name, and the settings for acquiring it. See [`crate::Lock`].
pub type Lock<K = Exclusive> = Blocking<crate::Lock<K>>;
/// A lock that its owner may acquire again. See [`crate::Reentrant`].
pub type Reentrant = Lock<Owner>;
/// A lock with many readers or one writer. See [`crate::RwLock`]: give each thread its own clone.
pub type RwLock = Lock<ReadWrite>;
/// A lock with a limited number of holders. See [`crate::Semaphore`].
pub type Semaphore = Lock<Mode>;
/// Exclusive locks of several names, which are acquired all or none. See [`crate::All`].
pub type All = Lock<Names>;
/// An election of one leader at a time. See [`crate::Election`].
pub type Election = Lock;
/// The guard of an acquired lock. See [`crate::Lease`].
pub type Lease = Blocking<crate::Lease>;
/// The leases of several names. See [`crate::Leases`].
pub type Leases = Blocking<crate::Leases>;

impl<T> Deref for Blocking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Blocking<T> {
    /// Blocks until a future of the async API is ready, and returns its output.
    ///
    /// # Panics
    /// Within async code, like every blocking method.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Returns the async value. It works as long as a blocking value of the same client exists.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn wrap<U>(&self, inner: U) -> Blocking<U> {
        Blocking { inner, runtime: self.runtime.clone(), running: Arc::clone(&self.running) }
    }
}

impl Client {
    /// Connects with the default settings, and waits until a majority of the nodes can vote. See
    /// [`crate::Client::connect`].
    ///
    /// # Errors
    /// [`ConnectError::NoMajority`] names each node and why it cannot vote. Other errors if the configuration is
    /// invalid.
    ///
    /// # Panics
    /// Within async code.
    pub fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::start(crate::Client::builder().nodes(urls).connect())
    }

    /// Connects with a future of the [builder](crate::ClientBuilder):
    ///
    /// ```no_run
    /// # let urls = ["redis://10.0.0.1"];
    /// let client = quorlock::blocking::Client::start(quorlock::Client::builder().nodes(urls).connect_lazy())?;
    /// # Ok::<(), quorlock::ConnectError>(())
    /// ```
    ///
    /// # Errors
    /// The error of the future.
    ///
    /// # Panics
    /// Within async code, and if the system cannot start a thread.
    pub fn start<E>(connecting: impl Future<Output = Result<crate::Client, E>>) -> Result<Self, E> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("the system can poll sockets");
        let inner = runtime.block_on(connecting)?;
        let (running, ended) = oneshot::channel();
        let (handle, cluster) = (runtime.handle().clone(), Arc::clone(inner.cluster()));
        let run = move || {
            runtime.block_on(async {
                let _ = ended.await;
                cluster.wait_for_links_to_end().await;
            });
        };
        std::thread::Builder::new().name("quorlock".into()).spawn(run).expect("the system can start a thread");
        Ok(Self { inner, runtime: handle, running: Arc::new(running) })
    }

    /// Starts a client with one node in memory.
    ///
    /// # Panics
    /// Within async code, and if the system cannot start a thread.
    pub fn memory() -> Self {
        let Ok(client) = Self::start(async { Ok::<_, std::convert::Infallible>(crate::Client::memory().await) });
        client
    }

    /// Returns an exclusive lock. See [`crate::Client::lock`].
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.wrap(self.inner.lock(name))
    }

    /// Returns a lock whose kind is chosen at run time. See [`crate::Client::lock_as`].
    pub fn lock_as(&self, name: impl AsRef<str>, mode: Mode) -> Lock<Mode> {
        self.wrap(self.inner.lock_as(name, mode))
    }

    /// Returns a lock that its owner may acquire again. See [`crate::Client::reentrant`].
    pub fn reentrant(&self, name: impl AsRef<str>) -> Reentrant {
        self.wrap(self.inner.reentrant(name))
    }

    /// Returns a lock with many readers or one writer. See [`crate::Client::rw`].
    pub fn rw(&self, name: impl AsRef<str>) -> RwLock {
        self.wrap(self.inner.rw(name))
    }

    /// Returns a lock with at most `permits` holders. See [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        self.wrap(self.inner.semaphore(name, permits))
    }

    /// Returns the exclusive locks of all these names, as one lock. See [`crate::Client::all`].
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        self.wrap(self.inner.all(names))
    }

    /// Returns an election of one leader at a time. See [`crate::Client::election`].
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        self.wrap(self.inner.election(name))
    }

    /// Closes the client: releases every lease, and waits at most `deadline` until all nodes have acknowledged the
    /// releases.
    ///
    /// # Errors
    /// [`CloseError`] has the number of releases that were not delivered.
    pub fn close(self, deadline: Duration) -> Result<(), CloseError> {
        self.wait(self.inner.clone().close(deadline))
    }
}

impl<K> Lock<K> {
    fn map(self, change: impl FnOnce(crate::Lock<K>) -> crate::Lock<K>) -> Self {
        Self { inner: change(self.inner), runtime: self.runtime, running: self.running }
    }

    /// Sets the lifetime of the lease on the nodes. See [`crate::Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|lock| lock.ttl(ttl))
    }

    /// Sets the label that identifies the holder to other clients. See [`crate::Lock::label`].
    pub fn label(self, label: &str) -> Self {
        self.map(|lock| lock.label(label))
    }

    /// Sets whether and how often leases of this lock are renewed. See [`crate::Lock::renewals`].
    pub fn renewals(self, renewals: Renewals) -> Self {
        self.map(|lock| lock.renewals(renewals))
    }

    /// Sets how many attempts an acquire makes. See [`crate::Lock::retry`].
    pub fn retry(self, retry: Retry) -> Self {
        self.map(|lock| lock.retry(retry))
    }

    /// Calls `observer` whenever the state of a waiting acquire changes. See [`crate::Lock::observe`].
    pub fn observe(self, observer: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.map(|lock| lock.observe(observer))
    }
}

impl<K: Kind> Lock<K> {
    /// Tries once to acquire the lock. Returns `None` if somebody else holds the lock or waits for it.
    ///
    /// # Errors
    /// Any [`AcquireError`] except [`Held`](AcquireError::Held).
    pub fn try_acquire(&self) -> Result<Option<Blocking<K::Lease>>, AcquireError> {
        Ok(self.wait(self.inner.try_acquire())?.map(|lease| self.wrap(lease)))
    }

    /// Acquires the lock, waiting until it is free. See [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// [`AcquireError`], for example if the name or a setting is invalid.
    pub fn acquire(&self) -> Result<Blocking<K::Lease>, AcquireError> {
        self.wait(self.inner.acquire()).map(|lease| self.wrap(lease))
    }

    /// Acquires the lock, waiting at most for the duration `wait`. See [`crate::Lock::acquire_within`].
    ///
    /// # Errors
    /// [`AcquireError`] names the holder at the deadline, or the nodes that did not answer.
    pub fn acquire_within(&self, wait: Duration) -> Result<Blocking<K::Lease>, AcquireError> {
        self.wait(self.inner.acquire_within(wait)).map(|lease| self.wrap(lease))
    }
}

impl<K: Kind<Lease = crate::Lease>> Lock<K> {
    /// Acquires the lock, runs the work, and releases the lock. If the lease is lost, the work is not stopped: long
    /// work should call [`ensure`](crate::Lease::ensure) before each step.
    ///
    /// # Errors
    /// [`RunError::Acquire`] if the work did not start. [`RunError::Lost`] if the lease was lost before the work ended.
    pub fn run<T>(&self, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError> {
        let lease = self.acquire()?;
        let done = work(&lease);
        lease.ensure(Duration::ZERO)?;
        // The work is done, even if too few nodes acknowledge the release.
        let _ = lease.release();
        Ok(done)
    }
}

impl Lock {
    /// Makes this a plain lock, which uses only the original Redlock commands. See [`crate::Lock::plain`].
    pub fn plain(self) -> Self {
        self.map(crate::Lock::plain)
    }

    /// Reads the current leader. See [`crate::Lock::leader`].
    ///
    /// # Errors
    /// [`ReadError`] if too few nodes answer.
    pub fn leader(&self) -> Result<Option<Leader>, ReadError> {
        self.wait(self.inner.leader())
    }

    /// Returns an iterator of the current leader, and then of every change. See [`crate::Lock::leader_changes`].
    pub fn leader_changes(&self) -> impl Iterator<Item = Option<Leader>> + use<> {
        let mut changes = self.wrap(Box::pin(self.inner.leader_changes()));
        std::iter::from_fn(move || changes.runtime.block_on(changes.inner.next()))
    }
}

impl Reentrant {
    /// Sets the owner. See [`crate::Reentrant::owned_by`].
    pub fn owned_by(self, owner: Owner) -> Self {
        self.map(|lock| lock.owned_by(owner))
    }
}

impl RwLock {
    /// Sets the owner. All locks with the same owner act as one. See [`crate::RwLock::owned_by`].
    pub fn owned_by(self, owner: Owner) -> Self {
        self.map(|lock| lock.owned_by(owner))
    }

    /// Returns the lock for reading, which several readers can hold at the same time.
    pub fn read(&self) -> Lock<Mode> {
        self.wrap(self.inner.read())
    }

    /// Returns the lock for writing, which is exclusive.
    pub fn write(&self) -> Lock<Mode> {
        self.wrap(self.inner.write())
    }
}

impl Lease {
    /// Waits until the lease is lost. See [`crate::Lease::lost`].
    pub fn lost(&self) -> LostError {
        self.wait(self.inner.lost())
    }

    /// Renews the lease now. See [`crate::Lease::extend`].
    ///
    /// # Errors
    /// [`LeaseError`] if the lease is over, or no majority renewed it by the node deadline.
    pub fn extend(&self) -> Result<(), LeaseError> {
        self.wait(self.inner.extend())
    }

    /// Releases the lock, and waits until a majority of the nodes has acknowledged the release.
    ///
    /// # Errors
    /// [`LeaseError`] if the lease was already lost, or too few nodes acknowledged the release.
    pub fn release(self) -> Result<(), LeaseError> {
        self.runtime.block_on(self.inner.release())
    }

    /// Gives up the guard without releasing the lock. See [`crate::Lease::detach`].
    ///
    /// # Errors
    /// [`LostError`] if the lease is over.
    pub fn detach(self) -> Result<DetachedLease, LostError> {
        self.inner.detach()
    }
}

impl Leases {
    /// Waits until one of the leases is lost, and returns its name.
    pub fn lost(&self) -> (Name, LostError) {
        self.wait(self.inner.lost())
    }

    /// Releases all leases, and waits until a majority of the nodes has acknowledged each release.
    ///
    /// # Errors
    /// [`LeaseError`] of the first lease that was already lost, or whose release was not acknowledged.
    pub fn release(self) -> Result<(), LeaseError> {
        self.runtime.block_on(self.inner.release())
    }
}

#[cfg(test)]
mod tests;
