//! Leader election with an exclusive lock, whose fence is the term.

use futures_util::stream::{self, Stream};
use quorlock_core::fence::Fence;
use quorlock_core::name::Holder;
use quorlock_core::request::POLL_MAX;
use quorlock_core::time::TTL_MIN;

use crate::api::lock::Lock;
use crate::cluster::inspect::inspect;
use crate::error::ReadError;
use crate::platform::runtime;

/// An election of one leader at a time. [`Client::election`](crate::Client::election) returns one.
///
/// An election is the exclusive lock of its name. Candidates [`acquire`](Lock::acquire) the lock, and the holder of the
/// [`Lease`](crate::Lease) is the leader. The fence of the lease is the term, which grows from leader to leader. A
/// leader steps down by releasing the lease. Followers use [`leader`](Lock::leader) and
/// [`leader_changes`](Lock::leader_changes).
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let election = client.election("scheduler").label("host-a");
/// let leadership = election.acquire().await?;
/// let leader = election.leader().await?.expect("there is one");
/// assert_eq!(leader.term, leadership.fence()?);
/// leadership.release().await?;
/// assert_eq!(election.leader().await?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub type Election = Lock;

/// The leader of an [`Election`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The holder of the lock, if the nodes know it.
    pub holder: Option<Holder>,
    /// The fence of its lease. Every later leader has a higher term.
    pub term: Fence,
}

/// Methods for the followers of an [`Election`].
impl Lock {
    /// Reads the leader on which a majority of the nodes agrees.
    ///
    /// # Errors
    /// [`ReadError`] if too few nodes answer.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn leader(&self) -> Result<Option<Leader>, ReadError> {
        let found = inspect(self.client.cluster(), self.key()?).await?;
        Ok(found.holder().map(|(holder, term)| Leader { holder, term }))
    }

    /// Returns a stream of the current leader, and then of every change; `None` while there is no leader. To await the
    /// next item, use `StreamExt::next` of the crate `futures-util`.
    ///
    /// The stream reads the nodes about once a second, or three times in a ttl if that is more often, so it may miss
    /// shorter terms. While no majority of the nodes answers, the stream has no items. It keeps the client open, and
    /// ends when the client is closed.
    pub fn leader_changes(&self) -> impl Stream<Item = Option<Leader>> + Send + use<> {
        let interval = (self.ttl / 3).clamp(TTL_MIN / 3, POLL_MAX);
        stream::unfold((self.clone(), None), move |(election, last)| async move {
            let mut is_first = last.is_none();
            loop {
                if !std::mem::take(&mut is_first) {
                    runtime::sleep(interval).await;
                }
                match election.leader().await {
                    Ok(leader) if last.as_ref() != Some(&leader) => {
                        return Some((leader.clone(), (election, Some(leader))));
                    }
                    Ok(_) | Err(ReadError::NoQuorum { .. }) => {}
                    Err(_) => return None,
                }
            }
        })
    }
}
