//! The lock: a name, the settings for acquiring it, and the kind of lock.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use quorlock_core::backoff::Retry;
use quorlock_core::name::{Holder, OwnerId as Owner};
use quorlock_core::terms::{Mode, Renewals};

use crate::api::client::Client;
use crate::api::lease::Lease;
use crate::api::spec::{Patience, Spec};
use crate::error::{AcquireError, ConfigError, RunError};
use crate::lease::claim::Progress;
use crate::node::key::LockKey;

/// A name, and the settings for acquiring it. [`Client::lock`] returns one.
///
/// A `Lock` value holds nothing: [`acquire`](Self::acquire) returns a [`Lease`], and the lease holds the name. The
/// first acquire reports invalid names and settings, before it sends a request.
///
/// Every kind of lock is a `Lock<K>` with the same methods. The kind `K` decides which holders may have the name at the
/// same time. An [`Exclusive`] lock has one holder at a time. See [`Reentrant`](crate::Reentrant),
/// [`RwLock`](crate::RwLock), [`Semaphore`](crate::Semaphore), [`All`](crate::All) and [`Election`](crate::Election)
/// for the other kinds.
///
/// If the name is held, callers wait in a queue, which has the same order on every node. A release notifies only the
/// first waiter. [`observe`](Self::observe) reports the position in the queue.
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

    /// Sets the lifetime of the lease on the nodes. If the holder dies, the lock stays held for at most this long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.spec.ttl = ttl;
        self
    }

    /// Sets the label that identifies the holder to other clients. It is truncated to 128 bytes.
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

    /// Sets how many attempts [`acquire`](Lock::acquire) makes, and, for locks without a queue, the delays between
    /// attempts.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.spec.retry = retry;
        self
    }

    /// Calls `observer` whenever the state of a waiting acquire changes: when the holder or the position in the queue
    /// changes, and finally when the lock is granted.
    ///
    /// The task that awaits the acquire calls `observer`, which must not block. If the state changes twice before that
    /// task runs, `observer` gets only the latest state. The last call happens before the acquire returns.
    pub fn observe(mut self, observer: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.spec.observer = Some(Arc::new(observer));
        self
    }
}

impl<K: Kind> Lock<K> {
    /// Tries once to acquire the lock. Returns `None` if somebody else holds the lock or waits for it.
    ///
    /// # Errors
    /// Any [`AcquireError`] except [`Held`](AcquireError::Held). After an error the lock is not held, and the client is
    /// releasing the grants that it got.
    ///
    /// # Cancel safety
    /// Dropping the future releases every grant, at once and without blocking.
    pub async fn try_acquire(&self) -> Result<Option<K::Lease>, AcquireError> {
        match self.kind.acquire(&self.spec, Patience::Once).await {
            Err(AcquireError::Held(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Acquires the lock, waiting until it is free or the [`retry`](Self::retry) policy is exhausted.
    ///
    /// # Errors
    /// [`AcquireError`], for example if the name or a setting is invalid.
    ///
    /// # Cancel safety
    /// Dropping the future releases every grant and every queue position, at once and without blocking.
    pub async fn acquire(&self) -> Result<K::Lease, AcquireError> {
        self.acquire_with(Patience::Policy).await
    }

    /// Acquires the lock, waiting at most for the duration `wait`. It never returns later than that.
    ///
    /// With a wait of zero this method tries once, like [`try_acquire`](Self::try_acquire), but reports who
    /// [holds](AcquireError::Held) the lock.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] names the holder at the deadline. Other [`AcquireError`]s name the nodes that did
    /// not answer.
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
    /// Acquires the lock, runs the work, and releases the lock. If the lease is lost before the work ends, the work is
    /// dropped at its next await.
    ///
    /// If the work panics, unwinding releases the lock.
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
    /// [`RunError::Acquire`] if the work did not start. [`RunError::Lost`] if the lease was lost before the work ended.
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
    /// Makes this a plain lock, which uses only the original Redlock commands (`SET name id NX PX ttl` and a
    /// compare-and-delete script), and has no fence and no queue.
    ///
    /// A plain lock is cheaper, but finding its holder after a refusal takes one more round of requests. A plain lock
    /// and a fenced lock of the same name exclude each other. A plain lock may overtake waiters in the queue.
    pub fn plain(mut self) -> Self {
        self.spec.plain = true;
        self
    }
}

/// A lock that its owner may acquire again while holding it. [`Client::reentrant`](crate::Client::reentrant) returns
/// one.
///
/// Each new lock has a new owner; its clones have the same owner. To acquire the lock again in another task, pass the
/// [`owner`](Self::owner) to that task. To acquire it again in another process, pass the text of [`Owner::reveal`].
///
/// Each acquire returns a separate [`Lease`], which is renewed and released independently of the others. All leases of
/// the owner have the same fence, and the name is free after the last of them is released. If the owner already reads
/// the name with an [`RwLock`](crate::RwLock), an acquire fails with [`AcquireError::UpgradeUnsupported`], because it
/// would wait for itself.
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

    /// Returns the owner that acquires this lock.
    pub fn owner(&self) -> Owner {
        self.kind
    }
}

/// A lock with a limited number of holders. [`Client::semaphore`](crate::Client::semaphore) returns one.
///
/// A semaphore with N permits has N numbered slots. Each holder has one slot, which a majority of the nodes has
/// granted; two holders never have the same slot. [`Lease::slot`](crate::Lease::slot) returns the number of the slot.
/// (If each node only counted permits, two permits on three nodes would admit three holders.) All users of a name must
/// pass the same number of permits; an acquire with another number fails with
/// [`AcquireError::SlotsMismatch`](crate::AcquireError::SlotsMismatch).
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
