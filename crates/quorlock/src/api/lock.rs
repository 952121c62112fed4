//! The lock: a name, the settings for acquiring it, and the kind of lock.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use quorlock_core::backoff::Retry;
use quorlock_core::hold::Defeat;
use quorlock_core::name::{Holder, Name, OwnerId as Owner};
use quorlock_core::terms::{Mode, PERMITS_MAX, Renewals, Terms};
use quorlock_core::time::Moment;
use quorlock_core::vote::{NodeVote, Refusal, Verdict};

use crate::api::client::Client;
use crate::api::lease::Lease;
use crate::cluster::inspect::inspect;
use crate::error::{AcquireError, ConfigError, HeldError, RunError};
use crate::lease::claim::{Claim, Observer, Progress};
use crate::node::LockKey;
use crate::platform::clock;

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
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock<K = Exclusive> {
    pub(crate) client: Client,
    pub(crate) key: Result<Arc<LockKey>, ConfigError>,
    pub(crate) ttl: Duration,
    renewals: Renewals,
    retry: Retry,
    /// The holder, encoded for the nodes.
    holder: Arc<str>,
    plain: bool,
    observer: Option<Observer>,
    pub(crate) kind: K,
}

impl<K: fmt::Debug> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, Self { ttl, kind, .. }) = (self.key.as_ref().map(|key| &key.name), self);
        f.debug_struct("Lock").field("name", &name).field("ttl", ttl).field("kind", kind).finish_non_exhaustive()
    }
}

/// The kind of a [`Lock`] with one holder at a time.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive;

/// A kind of [`Lock`] that can be acquired. Only this library implements it.
pub trait Kind: Sync + Sized {
    /// The result of an acquire: a [`Lease`], or [`Leases`](crate::Leases) for several names.
    type Lease;

    /// Acquires the lock. If `waits` is set, retries as the retry policy allows, at most until `give_up`; otherwise
    /// tries once.
    #[doc(hidden)]
    fn acquire(
        lock: &Lock<Self>,
        waits: bool,
        give_up: Option<Moment>,
    ) -> impl Future<Output = Result<Self::Lease, AcquireError>> + Send;
}

impl Kind for Exclusive {
    type Lease = Lease;

    async fn acquire(lock: &Lock<Self>, waits: bool, give_up: Option<Moment>) -> Result<Lease, AcquireError> {
        lock.acquire_name(lock.key()?, Mode::EXCLUSIVE, waits, give_up).await
    }
}

impl Kind for Mode {
    type Lease = Lease;

    async fn acquire(lock: &Lock<Self>, waits: bool, give_up: Option<Moment>) -> Result<Lease, AcquireError> {
        lock.acquire_name(lock.key()?, lock.kind, waits, give_up).await
    }
}

impl Kind for Owner {
    type Lease = Lease;

    async fn acquire(lock: &Lock<Self>, waits: bool, give_up: Option<Moment>) -> Result<Lease, AcquireError> {
        lock.acquire_name(lock.key()?, Mode::Reentrant { owner: lock.kind }, waits, give_up).await
    }
}

/// The settings of all kinds.
impl<K> Lock<K> {
    pub(crate) fn new(client: &Client, key: Result<Arc<LockKey>, ConfigError>, kind: K) -> Self {
        let settings = &client.cluster().settings;
        Self {
            key,
            ttl: settings.ttl,
            renewals: settings.renewals,
            retry: settings.retry,
            holder: Arc::clone(&settings.told_holder),
            plain: false,
            observer: None,
            client: client.clone(),
            kind,
        }
    }

    /// Returns the lock of the same name, with the same settings, as another kind.
    pub(crate) fn with_kind<L>(&self, kind: L) -> Lock<L> {
        Lock {
            client: self.client.clone(),
            key: self.key.clone(),
            holder: Arc::clone(&self.holder),
            observer: self.observer.clone(),
            ttl: self.ttl,
            renewals: self.renewals,
            retry: self.retry,
            plain: self.plain,
            kind,
        }
    }

    /// Sets the lifetime of the lease on the nodes. If the holder dies, the lock stays held for at most this long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the label that identifies the holder to other clients. It is truncated to 128 bytes.
    pub fn label(mut self, label: &str) -> Self {
        let Holder { host, pid, .. } = &self.client.cluster().settings.holder;
        self.holder = Holder::new(host, *pid, label).encode().into();
        self
    }

    /// Sets whether and how often leases of this lock are renewed.
    pub fn renewals(mut self, renewals: Renewals) -> Self {
        self.renewals = renewals;
        self
    }

    /// Sets how many attempts [`acquire`](Lock::acquire) makes, and, for locks without a queue, the delays between
    /// attempts.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Calls `observer` whenever the state of a waiting acquire changes: when the holder or the position in the queue
    /// changes, and finally when the lock is granted.
    ///
    /// The task that awaits the acquire calls `observer`, which must not block. If the state changes twice before that
    /// task runs, `observer` gets only the latest state. The last call happens before the acquire returns.
    pub fn observe(mut self, observer: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
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
        match K::acquire(self, false, None).await {
            Err(AcquireError::Held(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Acquires the lock, waiting until it is free, however long that takes.
    ///
    /// While no majority of the nodes votes, the method keeps trying, unless the [`retry`](Self::retry) policy limits
    /// the number of attempts. In a request handler, use [`acquire_within`](Self::acquire_within).
    ///
    /// # Errors
    /// [`AcquireError`], for example if the name or a setting is invalid.
    ///
    /// # Cancel safety
    /// Dropping the future releases every grant and every queue position, at once and without blocking.
    pub async fn acquire(&self) -> Result<K::Lease, AcquireError> {
        self.acquire_until(true, None).await
    }

    /// Acquires the lock, waiting at most for the duration `wait`.
    ///
    /// With a wait of zero this method asks each node once, for at most the node deadline, and reports who
    /// [holds](AcquireError::Held) the lock.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] names the holder at the deadline. If `wait` is shorter than the node deadline and
    /// too few nodes answered in time, the error names no holder. [`AcquireError::NoQuorum`] names the nodes that did
    /// not answer.
    ///
    /// # Cancel safety
    /// Dropping the future releases every grant and every queue position, at once and without blocking.
    pub async fn acquire_within(&self, wait: Duration) -> Result<K::Lease, AcquireError> {
        self.acquire_until(!wait.is_zero(), (!wait.is_zero()).then(|| clock::now() + wait)).await
    }

    async fn acquire_until(&self, waits: bool, give_up: Option<Moment>) -> Result<K::Lease, AcquireError> {
        let mut acquired = K::acquire(self, waits, give_up).await;
        if let Err(AcquireError::Held(held) | AcquireError::WaitTimeout(held)) = &mut acquired
            && self.plain
        {
            Box::pin(self.find_holder(held)).await;
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

/// Methods with which every kind acquires a name.
impl<K> Lock<K> {
    pub(crate) fn key(&self) -> Result<&Arc<LockKey>, ConfigError> {
        self.key.as_ref().map_err(Clone::clone)
    }

    /// Asks the nodes for the holder of a plain lock, because their refusals do not name it.
    async fn find_holder(&self, held: &mut HeldError) {
        if held.tally.refused() > 0
            && let Ok(key) = &self.key
            && let Ok(seen) = inspect(self.client.cluster(), key).await
        {
            held.add(seen.reports());
        }
    }

    /// Acquires one name in this mode.
    pub(crate) async fn acquire_name(
        &self,
        key: &Arc<LockKey>,
        mode: Mode,
        waits: bool,
        give_up: Option<Moment>,
    ) -> Result<Lease, AcquireError> {
        let cluster = self.client.cluster();
        let settings = &cluster.settings;
        let ttl = settings.check(self.ttl, self.renewals, self.retry)?;
        if let Mode::Slot { permits, .. } = mode
            && !(1..=PERMITS_MAX).contains(&permits)
        {
            let rule = format!("be between 1 and {PERMITS_MAX}");
            return Err(ConfigError::setting("the number of permits", permits, rule).into());
        }
        if cluster.is_closed() {
            return Err(AcquireError::Closed);
        }
        let terms = Terms {
            electors: Arc::clone(&settings.electors),
            ttl,
            drift: settings.drift.of(ttl),
            min_validity: settings.min_validity(ttl),
            node_deadline: settings.node_deadline(ttl),
            retry: if waits { self.retry } else { Retry::ONCE },
            give_up,
            channel: (waits && !self.plain).then_some(cluster.channel),
            plain: self.plain,
            mode,
            holder: Arc::clone(&self.holder),
            renewals: self.renewals,
            trusting: settings.trusting,
            rules: settings.rules,
        };
        let lease = Lease::new(Claim::start(cluster, key, terms), self.client.clone());
        match lease.claim.won(self.observer.as_ref()).await {
            Ok(()) => Ok(lease),
            Err(None) => Err(AcquireError::Closed),
            Err(Some(defeat)) => Err(self.explain(key.name.clone(), defeat, mode, give_up.is_some())),
        }
    }

    fn explain(&self, name: Name, defeat: Defeat, mode: Mode, timed: bool) -> AcquireError {
        let tally = self.client.cluster().name_nodes(defeat.tally);
        match defeat.verdict {
            Verdict::Held | Verdict::CutOff if timed => {
                AcquireError::WaitTimeout(Box::new(HeldError::new(name, tally)))
            }
            Verdict::Held | Verdict::CutOff => AcquireError::Held(Box::new(HeldError::new(name, tally))),
            Verdict::NoQuorum => AcquireError::NoQuorum { name, tally },
            Verdict::TooSlow | Verdict::Won => AcquireError::TooSlow { name, tally },
            Verdict::Mismatch if tally.votes.contains(&NodeVote::Refused(Refusal::Retired)) => {
                AcquireError::Retired { name }
            }
            Verdict::Mismatch => {
                let in_use = tally.votes.iter().find_map(|vote| match vote {
                    NodeVote::Refused(Refusal::Permits { stored }) => Some(*stored),
                    _ => None,
                });
                match (in_use, mode) {
                    (Some(in_use), Mode::Slot { permits, .. }) => {
                        AcquireError::SlotsMismatch { name, requested: permits, in_use }
                    }
                    _ => AcquireError::UpgradeUnsupported { name },
                }
            }
        }
    }
}

impl Lock {
    /// Makes this a plain lock, which uses only the original Redlock commands (`SET name id NX PX ttl` and a
    /// compare-and-delete script), and has no fence and no queue.
    ///
    /// A plain lock is cheaper, but finding its holder after a refusal takes one more round of requests. A plain lock
    /// and a fenced lock of the same name exclude each other. A plain lock may overtake waiters in the queue.
    pub fn plain(mut self) -> Self {
        self.plain = true;
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
