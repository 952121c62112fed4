//! The exclusive lock: a name plus how to ask for it.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quorlock_core::acquire::{Defeat, Plan};
use quorlock_core::hold::Terms;
use quorlock_core::mode::Mode;
use quorlock_core::name::{Holder, Name};
use quorlock_core::quorum::Verdict;
use quorlock_core::retry::Retry;
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::watchdog::Renewals;

use crate::attempt::{Attempt, Decision};
use crate::client::Handle;
use crate::clock;
use crate::error::{AcquireError, ConfigError, HeldError, RunError};
use crate::keeper::Held;
use crate::lease::Lease;
use crate::link::Voter;
use crate::node::place::Place;

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
#[derive(Clone, Debug)]
pub struct Lock {
    handle: Arc<Handle>,
    recipe: Result<Recipe, ConfigError>,
}

#[derive(Clone, Debug)]
struct Recipe {
    place: Arc<Place>,
    ttl: Ttl,
    renewals: Renewals,
    retry: Retry,
    holder: Holder,
    plain: bool,
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        let settings = &handle.cluster.settings;
        let recipe = (|| {
            Ok(Recipe {
                place: Arc::new(settings.template.place(&Name::new(name)?)?),
                ttl: Ttl::new(settings.ttl, settings.max_ttl)?,
                renewals: settings.renewals,
                retry: settings.retry,
                holder: settings.holder.clone(),
                plain: false,
            })
        })();
        Self { handle, recipe }
    }

    /// Asks the nodes for this lifetime: the time after which a holder that has died is out of the way.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        let max_ttl = self.handle.cluster.settings.max_ttl;
        self.with(|recipe| {
            recipe.ttl = Ttl::new(ttl, max_ttl)?;
            Ok(())
        })
    }

    /// Shown to whoever finds the lock held; cut to 128 bytes.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        self.with(|recipe| {
            recipe.holder = Holder::new(&recipe.holder.host, recipe.holder.pid, label);
            Ok(())
        })
    }

    /// Whether and how often leases of this lock are renewed.
    #[must_use]
    pub fn renewals(self, renewals: Renewals) -> Self {
        self.with(|recipe| {
            recipe.renewals = renewals;
            Ok(())
        })
    }

    /// How [`acquire`](Self::acquire) asks again when the lock is held.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        self.with(|recipe| {
            crate::builder::check_retry(retry)?;
            recipe.retry = retry;
            Ok(())
        })
    }

    /// The Redlock page to the letter: `SET name id NX PX ttl`, the compare-and-delete script, no fence.
    ///
    /// Cheaper, and it tells less. A plain lock and a fenced one of the same name exclude each other.
    #[must_use]
    pub fn plain(self) -> Self {
        self.with(|recipe| {
            recipe.plain = true;
            Ok(())
        })
    }

    /// Asks once. `None` when somebody else holds the lock.
    ///
    /// # Errors
    /// Any [`AcquireError`] but [`Held`](AcquireError::Held). Nothing is held then, and what votes were given are on
    /// their way back.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for, at once and without blocking.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        match self.decide(Retry::ONCE, None).await {
            Err(AcquireError::Held(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Asks until the lock is ours, or until the [`retry`](Self::retry) policy has had enough attempts.
    ///
    /// # Errors
    /// [`AcquireError`], when the attempts are used up or the lock was asked for in a way that cannot be.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for, at once and without blocking.
    pub async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.decide(self.recipe.as_ref().map_or(Retry::ONCE, |recipe| recipe.retry), None).await
    }

    /// Asks until the lock is ours or the time is over. At least one round is waited for.
    ///
    /// # Errors
    /// [`AcquireError`] says who held the lock at the end, or which nodes were missing.
    ///
    /// # Cancel safety
    /// Dropping the future takes back every vote that was asked for, at once and without blocking.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Lease, AcquireError> {
        let retry = self.recipe.as_ref().map_or(Retry::ONCE, |recipe| recipe.retry);
        self.decide(retry, Some(clock::now() + wait)).await
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

    async fn decide(&self, retry: Retry, give_up: Option<Moment>) -> Result<Lease, AcquireError> {
        let recipe = self.recipe.as_ref().map_err(Clone::clone)?;
        let cluster = &self.handle.cluster;
        if cluster.is_closed() {
            return Err(AcquireError::Closed);
        }
        let settings = &cluster.settings;
        let node_deadline = settings.node_deadline(recipe.ttl);
        settings.check(recipe.ttl, recipe.renewals)?;
        let holder = recipe.holder.encode();
        let plan = Plan {
            quorum: settings.quorum,
            ttl: recipe.ttl,
            drift: settings.drift,
            min_validity: settings.min_validity(recipe.ttl),
            node_deadline,
            retry,
            give_up: give_up.map(|end| end.max(clock::now() + node_deadline)),
            plain: recipe.plain,
            mode: Mode::EXCLUSIVE,
            holder: holder.clone(),
            rules: settings.rules,
        };
        let terms = Terms {
            quorum: settings.quorum,
            ttl: recipe.ttl,
            drift: settings.drift,
            node_deadline,
            renewals: recipe.renewals,
            trusting: settings.trusting,
            mode: Mode::EXCLUSIVE,
            holder,
            rules: settings.rules,
        };
        match Attempt::start(cluster, &recipe.place, plan).await {
            Decision::Won(won, mark, legacy) => {
                cluster.counters.won(&won);
                let id = won.attempt;
                let held = Held::keep(cluster, &recipe.place, terms, won, mark).map_err(|_| AcquireError::Closed)?;
                legacy.pass_to(id, &(Arc::clone(&held) as Arc<dyn Voter>));
                Ok(Lease::new(held))
            }
            Decision::Lost(defeat) => {
                cluster.counters.defeated(defeat.verdict);
                Err(self.explain(recipe.place.name.clone(), defeat))
            }
            Decision::Closed => Err(AcquireError::Closed),
        }
    }

    fn explain(&self, name: Name, defeat: Defeat) -> AcquireError {
        let tally = self.handle.cluster.name_nodes(defeat.tally);
        match defeat.verdict {
            Verdict::Held => AcquireError::Held(Box::new(HeldError::new(name, tally))),
            Verdict::NoQuorum => AcquireError::NoQuorum { name, tally },
            Verdict::TooSlow | Verdict::Won => AcquireError::TooSlow { name, tally },
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Recipe) -> Result<(), ConfigError>) -> Self {
        if let Ok(recipe) = &mut self.recipe
            && let Err(error) = change(recipe)
        {
            self.recipe = Err(error);
        }
        self
    }
}
