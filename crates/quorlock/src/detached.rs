//! A lease without a guard, which any client of the same nodes can extend, check and release.

pub(crate) mod ops;
mod text;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, LeaseId, Name, OwnerId as Owner};
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;

pub use text::LeaseTextError;
#[cfg(test)]
pub(crate) use text::checksum;

/// A lease without a guard, made by [`Lease::detach`](crate::Lease::detach). No watchdog renews it.
///
/// A detached lease ends with its ttl unless a client [extends](crate::Client::extend) it. Any client of the same nodes
/// can [check](crate::Client::check) and [release](crate::Client::release) the lease, even in another process or on
/// another host. [`reveal`](Self::reveal) writes the lease as one word, and `parse` reads that word.
///
/// The word is a secret, because everyone who has it can release the lock. `Display` and `Debug` do not show the word.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = quorlock::Client::memory().await;
/// use quorlock::DetachedLease;
///
/// let word = client.lock("deploy").acquire().await?.detach()?.reveal();
/// // .. passed to another process:
/// let lease: DetachedLease = word.parse()?;
/// let left = client.extend(&lease).await?;
/// assert!(left < lease.ttl() && client.check(&lease).await.is_ok());
/// client.release(&lease).await?;
/// assert!(client.check(&lease).await.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a lease that nobody releases blocks others until its ttl ends"]
pub struct DetachedLease {
    pub(crate) name: Name,
    pub(crate) id: LeaseId,
    /// `None` for a plain lock.
    pub(crate) fence: Option<Fence>,
    pub(crate) ttl: Ttl,
    pub(crate) mode: Mode,
    /// The client that acquired the lease, encoded for the nodes.
    pub(crate) holder: Arc<str>,
}

impl DetachedLease {
    /// An upper bound for the length of the word that [`reveal`](Self::reveal) returns, in bytes.
    pub const TEXT_BYTES_MAX: usize = 4_096;

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the random value that signs this lease on the nodes. The value is a secret: everyone who has it can
    /// release the lock.
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// Returns the fence, or `None` for a plain lock. The fence is higher than the fence of every earlier lease of this
    /// name. A fence does not prove that the lease is still held: [check](crate::Client::check) the lease.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Returns the slot of a semaphore, counted from 0, or `None` for other locks.
    pub fn slot(&self) -> Option<u32> {
        if let Mode::Slot { slot, .. } = self.mode { Some(slot) } else { None }
    }

    /// Returns the mode in which the lock is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the owner of a reentrant or shared lock, or `None` for other locks.
    pub fn owner(&self) -> Option<Owner> {
        self.mode.owner()
    }

    /// Returns the ttl: how long the nodes keep the lease after it was acquired or extended.
    pub fn ttl(&self) -> Duration {
        self.ttl.duration()
    }

    /// Returns the client that acquired the lease. An extension by another client does not change the holder.
    pub fn holder(&self) -> Option<Holder> {
        Holder::decode(&self.holder)
    }

    /// Returns the lease as one word of letters, digits and `.-_/:%`, which [`parse`](str::parse) reads. The word is a
    /// secret.
    pub fn reveal(&self) -> String {
        text::write(self)
    }
}

/// Reads the text of [`reveal`](DetachedLease::reveal).
impl FromStr for DetachedLease {
    type Err = LeaseTextError;

    fn from_str(text: &str) -> Result<Self, LeaseTextError> {
        text::read(text.trim())
    }
}

/// Shows the name and the fence, without secrets: `"deploy" with fence 1700000000123456`.
impl fmt::Display for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)?;
        match self.fence {
            Some(fence) => write!(f, " with fence {fence}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = &mut f.debug_struct("DetachedLease");
        lease.field("name", &self.name).field("fence", &self.fence).field("ttl", &self.ttl()).finish_non_exhaustive()
    }
}

/// Whether a released [`DetachedLease`] was still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease was still held.
    StillHeld,
    /// The lease was probably not held any more: no majority of the nodes had it. It was released or broken earlier, or
    /// its ttl had ended.
    AlreadyEnded,
}

#[cfg(test)]
mod tests;
