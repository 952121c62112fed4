//! The lock: a name, how to acquire it, and as which kind.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use quorlock_core::backoff::Retry;
use quorlock_core::mode::{Mode, OwnerId as Owner};
use quorlock_core::name::Holder;
use quorlock_core::watchdog::Renewals;

use crate::api::client::Client;
use crate::api::lease::Lease;
use crate::api::spec::{Patience, Spec};
use crate::error::{AcquireError, ConfigError, RunError};
use crate::lease::claim::Progress;
use crate::node::key::LockKey;

/// A name, and how to acquire it. [`Client::lock`] makes one.
///
/// A lock holds nothing: [`acquire`](Self::acquire) returns a [`Lease`], and the lease holds the name. Invalid names and
/// settings are reported by the first acquire, before anything is sent.
///
/// All kinds of locks are a `Lock<K>` with the same settings and the same ways to acquire. The kind `K` decides who can hold
/// the name together: [`Exclusive`] locks have one holder at a time; see [`Reentrant`](crate::Reentrant),
/// [`RwLock`](crate::RwLock), [`Semaphore`](crate::Semaphore), [`All`](crate::All) and [`Election`](crate::Election).
///
/// Callers that find the name held wait in a queue. The lock goes to the lowest ticket on every node, and a release notifies
/// only the first waiter. [`observe`](Self::observe) shows the position.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// use std::time::Duration;
///
/// let lock = client.lock("invoices/42").ttl(Duration::from_secs(10)).label("nightly run");
/// let lease = lock.acquire().await?;
/// // .. pass lease.fence()? to the resource that the lock protects ..
/// lease.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock<K = Exclusive> {
    pub(crate) spec: Spec,
    pub(crate) kind: K,
}

/// The kind of a [`Lock`] with one holder at a time.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive;

/// A kind of [`Lock`] that can be acquired. Only this library implements it.
pub trait Kind: Sync {
    /// The result of an acquire: a [`Lease`], or [`Leases`](crate::Leases) for several names.
    type Lease;

    #[doc(hidden)]
    fn acquire(
        &self,
        spec: &Spec,
        patience: Patience,
    ) -> impl Future<Output = Result<Self::Lease, AcquireError>> + Send;
}

impl Kind for Exclusive {
    type Lease = Lease;

    async fn acquire(&self, spec: &Spec, patience: Patience) -> Result<Lease, AcquireError> {
        spec.acquire(spec.key()?, Mode::EXCLUSIVE, patience).await
    }
}

impl Kind for Mode {
    type Lease = Lease;

    async fn acquire(&self, spec: &Spec, patience: Patience) -> Result<Lease, AcquireError> {
        spec.acquire(spec.key()?, *self, patience).await
    }
}

impl Kind for Owner {
    type Lease = Lease;

    async fn acquire(&self, spec: &Spec, patience: Patience) -> Result<Lease, AcquireError> {
        spec.acquire(spec.key()?, Mode::Reentrant { owner: *self }, patience).await
    }
}

/// The settings of all kinds.
impl<K> Lock<K> {
    pub(crate) fn new(client: &Client, key: Result<Arc<LockKey>, ConfigError>, kind: K) -> Self {
        Self { spec: Spec::new(client, key), kind }
    }

    /// Sets the lifetime that is requested from the nodes: a holder that died blocks others for at most this long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.spec.ttl = ttl;
        self
    }

    /// Sets the label that others see when they find the name held. It is cut to 128 bytes.
    pub fn label(mut self, label: &str) -> Self {
        let Holder { host, pid, .. } = &self.spec.client.cluster().settings.holder;
        self.spec.holder = Holder::new(host, *pid, label).encode().into();
        self
    }

    /// Sets whether and how often leases of this lock are renewed.
    pub fn renewals(mut self, renewals: Renewals) -> Self {
        self.spec.renewals = renewals;
        self
    }

    /// Sets how many attempts [`acquire`](Lock::acquire) makes, and the delays between them where there is no queue.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.spec.retry = retry;
        self
    }

    /// Calls `observer` whenever the state of a waiting acquire changes: the holder, the position in the queue, and at last
    /// the grant.
    ///
    /// It is called by the task that awaits the acquire, and must not block. If the state changes twice before that task runs,
    /// only the latest is reported. The last call comes before the acquire returns.
    pub fn observe(mut self, observer: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.spec.observer = Some(Arc::new(observer));
        self
    }
}

impl<K: Kind> Lock<K> {
    /// Tries once. Returns `None` if somebody else holds the lock or waits for it.
    ///
    /// # Errors
    /// Any [`AcquireError`] except [`Held`](AcquireError::Held). Nothing is held then; grants are being released.
    ///
    /// # Cancel safety
    /// Dropping the future releases every grant, at once and without blocking.
    pub async fn try_acquire(&self) -> Result<Option<K::Lease>, AcquireError> {
        match self.kind.acquire(&self.spec, Patience::Once).await {
            Err(AcquireError::Held(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Waits until the lock is acquired, or until the [`retry`](Self::retry) policy is exhausted.
    ///
    /// # Errors
    /// [`AcquireError`], for example if the name or a setting is invalid.
    ///
    /// # Cancel safety
    /// Dropping the future releases every grant and every queue position, at once and without blocking.
    pub async fn acquire(&self) -> Result<K::Lease, AcquireError> {
        self.acquire_with(Patience::Policy).await
    }

    /// Waits until the lock is acquired, at most for this time. It returns at the deadline and not later.
    ///
    /// With a wait of zero it tries once, like [`try_acquire`](Self::try_acquire), but reports who
    /// [holds](AcquireError::Held) the lock.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] names the holder at the deadline. Other [`AcquireError`]s name the nodes that did not
    /// answer.
    ///
    /// # Cancel safety
    /// Dropping the future releases every grant and every queue position, at once and without blocking.
    pub async fn acquire_within(&self, wait: Duration) -> Result<K::Lease, AcquireError> {
        self.acquire_with(Patience::within(wait)).await
    }

    async fn acquire_with(&self, patience: Patience) -> Result<K::Lease, AcquireError> {
        let mut acquired = self.kind.acquire(&self.spec, patience).await;
        if let Err(AcquireError::Held(held) | AcquireError::WaitTimeout(held)) = &mut acquired
            && self.spec.plain
        {
            Box::pin(self.spec.find_holder(held)).await;
        }
        acquired
    }
}

impl<K: Kind<Lease = Lease>> Lock<K> {
    /// Acquires the lock, does the work, and releases the lock. If the lease is lost meanwhile, the work is dropped at its
    /// next await.
    ///
    /// A panic in the work releases the lock by unwinding.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = quorlock::Client::memory().await;
    /// let sum = client.lock("sum").run(async |lease| lease.fence().map(|_fence| 1 + 1)).await??;
    /// assert_eq!(sum, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`RunError::Acquire`] if the work never began. [`RunError::Lost`] if the lease was lost before the work ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Lease) -> T) -> Result<T, RunError> {
        let lease = self.acquire().await?;
        // Poll the loss first: work whose lease is lost must not take another step.
        let done = match select(pin!(lease.lost()), pin!(work(&lease))).await {
            Either::Left((lost, _)) => return Err(lost.into()),
            Either::Right((done, _)) => done,
        };
        lease.ensure(Duration::ZERO)?;
        // The work is done, even if too few nodes acknowledge the release.
        let _ = lease.release().await;
        Ok(done)
    }
}

impl Lock {
    /// Uses the original Redlock commands: `SET name id NX PX ttl` and a compare-and-delete script; no fence, no queue.
    ///
    /// This is cheaper, but finding the holder after a refusal takes one more round. A plain lock and a fenced lock of the
    /// same name exclude each other. A plain lock may overtake waiters in the queue.
    pub fn plain(mut self) -> Self {
        self.spec.plain = true;
        self
    }
}

/// A lock that its owner may enter again while holding it. [`Client::reentrant`](crate::Client::reentrant) makes one.
///
/// Each lock has a new owner; clones have the same one. Pass the [`owner`](Self::owner) to another task, or with
/// [`Owner::reveal`] to another process, to enter there.
///
/// Each entry is a [`Lease`] that is renewed and released independently. The name is free after the last release. All entries
/// have the same fence. An owner that reads the same name with an [`RwLock`](crate::RwLock) gets [`AcquireError::Upgrade`],
/// because it would wait for itself.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let lock = client.reentrant("ledger");
/// let outer = lock.acquire().await?;
/// let inner = lock.acquire().await?; // the same owner: no wait
/// assert_eq!(outer.fence()?, inner.fence()?);
/// assert!(client.reentrant("ledger").try_acquire().await?.is_none(), "another owner");
///
/// inner.release().await?;
/// assert!(client.reentrant("ledger").try_acquire().await?.is_none(), "still held by the outer entry");
/// outer.release().await?;
/// assert!(client.reentrant("ledger").try_acquire().await?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub type Reentrant = Lock<Owner>;

impl Reentrant {
    /// Sets the owner.
    pub fn owned_by(mut self, owner: Owner) -> Self {
        self.kind = owner;
        self
    }

    /// Returns the owner as which this lock enters.
    pub fn owner(&self) -> Owner {
        self.kind
    }
}

/// A lock with a limited number of holders. [`Client::semaphore`](crate::Client::semaphore) makes one.
///
/// Each holder has one of the slots, and a majority decides about each slot. (Counting permits on each node would admit too
/// many: two permits on three nodes admit three holders.) [`Lease::slot`](crate::Lease::slot) says which slot a lease has. All
/// users of a name must pass the same number of permits; if not, they get
/// [`AcquireError::Permits`](crate::AcquireError::Permits).
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let workers = client.semaphore("workers", 2);
/// let (one, other) = (workers.acquire().await?, workers.acquire().await?);
/// assert_ne!(one.slot(), other.slot());
/// assert!(workers.try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(workers.try_acquire().await?.is_some());
/// # drop(other);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub type Semaphore = Lock<Mode>;
