//! One leader at a time: the exclusive lock, with its fence as the term.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use quorlock_core::fence::Fence;
use quorlock_core::name::Holder;
use quorlock_core::ticket::POLL_MAX;

use crate::api::client::Handle;
use crate::api::lease::Lease;
use crate::api::lock::Lock;
use crate::cluster::inspect::inspect;
use crate::error::{AcquireError, FenceError, LeaseError, LostError, ReadError};
use crate::platform::runtime;

/// One leader at a time. Made by [`Client::election`](crate::Client::election).
///
/// It is the exclusive lock of the name, and nothing besides: the leader is its holder, and the term is its fence, which
/// grows from leader to leader. Candidates wait in the queue.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let election = client.election("scheduler").label("host-a");
/// let leadership = election.campaign().await?;
/// assert!(leadership.is_leader());
/// let leader = election.leader().await?.expect("there is one");
/// assert_eq!(leader.term, leadership.term()?);
/// leadership.step_down().await?;
/// assert_eq!(election.leader().await?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    lock: Lock,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Who it is, where the nodes know it.
    pub holder: Option<Holder>,
    /// Its term: every later leader's is higher.
    pub term: Fence,
}

impl Election {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        Self { lock: Lock::new(handle, name) }
    }

    /// How long a leader that has died stays in the way.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { lock: self.lock.ttl(ttl) }
    }

    /// What followers see of this candidate once it leads; cut to 128 bytes.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self { lock: self.lock.label(label) }
    }

    /// Waits until elected.
    ///
    /// # Errors
    /// [`AcquireError`], as for [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the candidacy, at once and without blocking.
    pub async fn campaign(&self) -> Result<Leadership, AcquireError> {
        self.lock.acquire().await.map(|lease| Leadership { lease })
    }

    /// Waits until elected or the time is over: it returns at its deadline, not after.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says who led at the end; others as for [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the candidacy, at once and without blocking.
    pub async fn campaign_within(&self, wait: Duration) -> Result<Leadership, AcquireError> {
        self.lock.acquire_within(wait).await.map(|lease| Leadership { lease })
    }

    /// Who leads, by the word of a majority.
    ///
    /// # Errors
    /// [`ReadError`] when no majority can tell.
    ///
    /// # Cancel safety
    /// It only looks.
    pub async fn leader(&self) -> Result<Option<Leader>, ReadError> {
        let spec = self.lock.spec();
        let found = inspect(&spec.handle.cluster, spec.key()?).await?;
        Ok(found.holder().map(|(holder, term)| Leader { holder, term }))
    }

    /// Who leads now, and then every change of it: for followers. `None` while nobody leads.
    ///
    /// It looks about once a second, or three times in a ttl if that is more often, so terms that are shorter than that
    /// may be passed over. While no majority can tell, it says nothing. It keeps the client open, and ends
    /// when the client is closed.
    pub fn changes(&self) -> impl Stream<Item = Option<Leader>> + Send + use<> {
        let pace = self.lock.spec().order_ttl().map_or(POLL_MAX, |ttl| (ttl / 3).min(POLL_MAX));
        stream::unfold((self.clone(), None), move |(election, told)| async move {
            let mut first = told.is_none();
            loop {
                if !std::mem::take(&mut first) {
                    runtime::sleep(pace).await;
                }
                match election.leader().await {
                    Ok(leader) if told.as_ref() != Some(&leader) => {
                        return Some((leader.clone(), (election, Some(leader))));
                    }
                    Ok(_) | Err(ReadError::NoQuorum { .. }) => {}
                    Err(_) => return None,
                }
            }
        })
    }
}

/// Being the leader: until it steps down, is dropped, or is lost.
#[derive(Debug)]
#[must_use = "a leadership that is dropped at once is over"]
pub struct Leadership {
    lease: Lease,
}

impl Leadership {
    /// Whether it is surely still the leader, by a look at the clock.
    pub fn is_leader(&self) -> bool {
        !self.lease.validity().is_zero()
    }

    /// Its term, for whatever it commands: higher than every earlier leader's.
    ///
    /// # Errors
    /// [`FenceError::Lost`] when it leads no more.
    pub fn term(&self) -> Result<Fence, FenceError> {
        self.lease.fence()
    }

    /// Waits until it is the leader no more, other than by stepping down.
    ///
    /// # Cancel safety
    /// The future changes nothing and may be dropped.
    pub fn lost(&self) -> impl Future<Output = LostError> + Send + Sync + 'static {
        self.lease.lost()
    }

    /// The lease behind it.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn into_lease(self) -> Lease {
        self.lease
    }

    /// Lets the next candidate lead, and waits until a majority of the nodes knows.
    ///
    /// # Errors
    /// [`LeaseError`], as for [`Lease::release`]. It leads no more in either case.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop it.
    pub async fn step_down(self) -> Result<(), LeaseError> {
        self.lease.release().await
    }
}
