//! The exclusive lock: a name plus how to ask for it.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quorlock_core::mode::Mode;

use crate::api::client::Handle;
use crate::api::lease::Lease;
use crate::api::spec::{Patience, Spec, settings};
use crate::error::{AcquireError, RunError};

/// A name plus how to ask for it. It holds nothing: what holds is the [`Lease`] that comes of it.
///
/// Made by [`Client::lock`](crate::Client::lock). A name or setting that cannot be is told by the first attempt to
/// acquire, before anything is sent.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// use std::time::Duration;
///
/// let lock = client.lock("invoices/42").ttl(Duration::from_secs(10)).label("nightly run");
/// let lease = lock.acquire().await?;
/// // .. pass lease.fence()? to whatever the lock protects ..
/// lease.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// Whoever has to wait does so in the queue: on every node, the lock goes to the lowest ticket, and a release tells the first
/// in the queue and nobody else. [`observe`](Self::observe) shows the place.
#[derive(Clone, Debug)]
pub struct Lock {
    spec: Spec,
}

settings!(Lock);

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        Self { spec: Spec::new(handle, name) }
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The Redlock page to the letter: `SET name id NX PX ttl`, the compare-and-delete script, no fence, no queue.
    ///
    /// Cheaper, and it tells less: a refusal that is reported takes one more round, to see who holds the lock. A plain lock and a fenced one of the same name exclude each other; a plain one may
    /// overtake those who wait in the queue.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.spec.plain();
        self
    }

    /// Asks once. `None` when somebody else holds the lock, or waits for it.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held). Nothing is held then, and what votes were given are on
    /// their way back.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for, at once and without blocking.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        self.spec.once(Mode::EXCLUSIVE).await
    }

    /// Waits until the lock is ours, or until the [`retry`](Self::retry) policy has had enough attempts.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for and every place in the queue, at once and without
    /// blocking.
    pub async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.spec.acquire(Mode::EXCLUSIVE, Patience::Policy).await
    }

    /// Waits until the lock is ours or the time is over: it returns at its deadline, not after.
    ///
    /// A wait of zero asks once, as [`try_acquire`](Self::try_acquire) does, and tells who [holds](AcquireError::Held) it.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says who held the lock at the end; other [`AcquireError`]s, which nodes were missing.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for and every place in the queue, at once and without
    /// blocking.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Lease, AcquireError> {
        self.spec.acquire(Mode::EXCLUSIVE, Patience::within(wait)).await
    }

    /// Acquires, does the work, releases. If the lease is lost meanwhile, the work is dropped where it stands.
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
    /// [`RunError::Acquire`] when the work never began, [`RunError::Lost`] when it was dropped half-way, or when it
    /// ended in the very moment in which the lease was lost.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Lease) -> T) -> Result<T, RunError> {
        let lease = self.acquire().await?;
        let done = {
            let mut lost = pin!(lease.lost());
            let mut work = pin!(work(&lease));
            std::future::poll_fn(|context| {
                // The latch first: work that has lost its lock must not take another step.
                if let Poll::Ready(lost) = lost.as_mut().poll(context) {
                    return Poll::Ready(Err(lost));
                }
                work.as_mut().poll(context).map(Ok)
            })
            .await?
        };
        lease.ensure(Duration::ZERO)?;
        lease.finish().await;
        Ok(done)
    }
}
