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
pub(crate) use text::sum;

/// A lease without a guard, made by [`Lease::detach`](crate::Lease::detach). Nothing renews it.
///
/// It ends with its ttl unless a client [extends](crate::Client::extend) it. Any client of the same nodes can
/// [check](crate::Client::check) and [release](crate::Client::release) it, also in another process or on another host.
/// [`reveal`](Self::reveal) returns it as one word, and `parse` reads that word.
///
/// The word is a secret, because everyone who has it can release the lock. `Display` and `Debug` do not show it.
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
    /// The client that acquired it, encoded for the nodes.
    pub(crate) holder: Arc<str>,
}

impl DetachedLease {
    /// The length of the longest text of a lease, in bytes, rounded up.
    pub const TEXT_BYTES_MAX: usize = 4_096;

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the random value that signs this lease on the nodes. It is a secret: with it, anyone can release the lock.
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// Returns the fence, which is higher than that of every earlier lease of this name, or `None` for a plain lock. A
    /// fence does not show that the lease is still held: [check](crate::Client::check) it.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Returns the slot of a semaphore, from 0, or `None` for other locks.
    pub fn slot(&self) -> Option<u32> {
        if let Mode::Slot { slot, .. } = self.mode { Some(slot) } else { None }
    }

    /// Returns the mode in which the lock is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the owner of a reentrant lock, or the party of a reader.
    pub fn owner(&self) -> Option<Owner> {
        self.mode.owner()
    }

    /// Returns the lifetime after each extension.
    pub fn ttl(&self) -> Duration {
        self.ttl.duration()
    }

    /// Returns the client that acquired the lease. An extension by another client does not change it.
    pub fn holder(&self) -> Option<Holder> {
        Holder::decode(&self.holder)
    }

    /// Returns the lease as one word of letters, digits and `.-_/:%`, which [`parse`](str::parse) reads. It is a secret.
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
    /// It was still held.
    Standing,
    /// No majority is known to have had it: it was released or broken earlier, or its ttl had ended.
    Gone,
}

#[cfg(test)]
mod tests;
