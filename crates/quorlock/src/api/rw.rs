//! The lock with many readers or one writer.

use quorlock_core::name::OwnerId as Owner;
use quorlock_core::terms::Mode;

use crate::api::lock::Lock;
use crate::platform::entropy;

/// A lock with many readers or one writer. [`Client::rw`](crate::Client::rw) returns one.
///
/// [`read`](Self::read) returns the lock for reading, and [`write`](Self::write) the lock for writing. A writer
/// excludes all other holders of the name, also those of [`Client::lock`](crate::Client::lock). Readers that arrive
/// after a waiting writer wait for that writer. If a reader dies, its read lease ends with its own ttl.
///
/// A reader cannot become a writer: two readers that both wait to write would wait for each other forever. Each
/// `RwLock` value is one owner. If an owner acquires the lock for writing while it reads, it gets
/// [`AcquireError::UpgradeUnsupported`](crate::AcquireError::UpgradeUnsupported) instead of waiting for itself. A clone
/// is another owner (unlike a clone of a [`Reentrant`](crate::Reentrant)): give each task its own clone.
///
/// A read waits for all writers that arrived earlier, even if the same owner is already reading. Therefore an owner
/// must not read again while it reads, unless the owner was set with [`owned_by`](Self::owned_by).
///
/// The fence of a reader is higher than the fences of all earlier writers. The fence of a writer is higher than all
/// earlier fences. A protected resource must check the fences of readers and writers, but store only the fences of
/// writers.
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
pub type RwLock = Lock<ReadWrite>;

/// The kind of an [`RwLock`], with the owner that reads and writes.
#[derive(Debug)]
pub struct ReadWrite {
    owner: Owner,
    /// Whether the owner may read again while it reads.
    reenters: bool,
}

impl ReadWrite {
    pub(crate) fn new() -> Self {
        Self { owner: Owner::from_bits(entropy::bits()), reenters: false }
    }
}

/// A clone is another owner.
impl Clone for ReadWrite {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl RwLock {
    /// Sets the owner. All locks with the same owner act as one, in this process and in others.
    ///
    /// While the owner reads, it may read again: it gets another lease at once, with the same fence, even if a writer
    /// is waiting. If the reads of an owner always overlap, writers wait forever.
    pub fn owned_by(mut self, owner: Owner) -> Self {
        self.kind = ReadWrite { owner, reenters: true };
        self
    }

    /// Returns the lock for reading, which several readers can hold at the same time.
    pub fn read(&self) -> Lock<Mode> {
        self.with_kind(Mode::Shared { owner: self.kind.owner, reenters: self.kind.reenters })
    }

    /// Returns the lock for writing, which is exclusive.
    pub fn write(&self) -> Lock<Mode> {
        self.with_kind(Mode::Exclusive { writer: Some(self.kind.owner) })
    }
}
