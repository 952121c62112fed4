//! The lock with many readers or one writer.

use quorlock_core::mode::{Mode, OwnerId as Owner};

use crate::api::lock::Lock;
use crate::platform::entropy;

/// A lock with many readers or one writer. [`Client::rw`](crate::Client::rw) makes one.
///
/// [`read`](Self::read) and [`write`](Self::write) return the two locks to acquire. A writer excludes everyone else, also users
/// of [`Client::lock`](crate::Client::lock) with the same name. Readers that come after a waiting writer wait for it. The share
/// of a reader that died ends with its own ttl.
///
/// A reader cannot become a writer: two readers that both wait to write would wait for each other forever. One `RwLock` value
/// is one party. If a party writes while it reads, it gets [`AcquireError::Upgrade`](crate::AcquireError::Upgrade) instead of
/// waiting for itself. A clone is another party: give one to each task.
///
/// Every read waits for writers that asked earlier, also a second read of the same party. So do not read again while you read,
/// unless the party has an [owner](Self::owned_by).
///
/// The fence of a reader is higher than those of all earlier writers, and the fence of a writer is higher than all earlier
/// fences. A resource compares the fences of both, and stores only those of writers.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// let prices = client.rw("prices");
/// let (one, other) = (prices.read().acquire().await?, client.rw("prices").read().acquire().await?);
/// assert!(client.rw("prices").write().try_acquire().await?.is_none(), "two are reading");
/// drop((one, other));
/// let lease = prices.write().acquire().await?;
/// assert!(client.rw("prices").read().try_acquire().await?.is_none(), "one is writing");
/// # drop(lease);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub type RwLock = Lock<Party>;

/// The kind of an [`RwLock`]: readers and writers that are the same party.
#[derive(Debug)]
pub struct Party {
    owner: Owner,
    reenters: bool,
}

impl Party {
    pub(crate) fn new() -> Self {
        Self { owner: Owner::from_bits(entropy::bits()), reenters: false }
    }
}

/// A clone is another party.
impl Clone for Party {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl RwLock {
    /// Makes this the same party as others with this owner, in this process or another.
    ///
    /// While the owner reads, it may read again: it gets another lease at once, with the same fence, also while a writer waits.
    /// An owner whose reads always overlap therefore keeps writers out.
    pub fn owned_by(mut self, owner: Owner) -> Self {
        self.kind = Party { owner, reenters: true };
        self
    }

    /// Returns the lock for reading, which is shared with other readers.
    pub fn read(&self) -> Lock<Mode> {
        self.in_mode(Mode::Shared { owner: self.kind.owner, reenters: self.kind.reenters })
    }

    /// Returns the lock for writing, which is exclusive.
    pub fn write(&self) -> Lock<Mode> {
        self.in_mode(Mode::Exclusive { writer: Some(self.kind.owner) })
    }

    fn in_mode(&self, mode: Mode) -> Lock<Mode> {
        Lock { spec: self.spec.clone(), kind: mode }
    }
}
