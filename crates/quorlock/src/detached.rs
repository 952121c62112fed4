//! A lease that nobody holds here: what it takes to extend, check and release it, anywhere.

pub(crate) mod ops;
mod text;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::mode::{Mode, OwnerId as Owner};
use quorlock_core::name::{Holder, LeaseId, Name};
use quorlock_core::time::Ttl;

pub use text::LeaseTextError;
#[cfg(test)]
pub(crate) use text::sum;

/// A lease that was [detached](crate::Lease::detach): it is not a guard, and nobody renews it.
///
/// It lasts for its ttl from the last renewal unless somebody [extends](crate::Client::extend) it, and it can be
/// [checked](crate::Client::check) and [released](crate::Client::release) by any client of the same nodes, in another
/// process or on another host. [`reveal`](Self::reveal) gives it as one word, and `parse` reads that word.
///
/// Whoever has that word can release the lock: it is a secret. `Display` and `Debug` do not show it.
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
#[must_use = "a lease that nobody releases is in the way until its ttl is over"]
pub struct DetachedLease {
    pub(crate) name: Name,
    pub(crate) id: LeaseId,
    /// `None` for a plain lock.
    pub(crate) fence: Option<Fence>,
    pub(crate) ttl: Ttl,
    pub(crate) mode: Mode,
    /// Who acquired it, as the nodes have it.
    pub(crate) holder: Arc<str>,
}

impl DetachedLease {
    /// The length of the longest text of a lease, in bytes, rounded up.
    pub const TEXT_BYTES_MAX: usize = 4_096;

    /// What is locked.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The random value that signs this lease on the nodes. Whoever knows it can release the lock.
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// The number that is higher than that of every earlier lease of this name; `None` for a plain lock. It is not known
    /// here whether the lease still stands: [check](crate::Client::check) it.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Which slot it has, from 0, of a semaphore; `None` for other locks.
    pub fn slot(&self) -> Option<u32> {
        if let Mode::Slot { slot, .. } = self.mode { Some(slot) } else { None }
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Who entered, of a reentrant lock, or reads.
    pub fn owner(&self) -> Option<Owner> {
        self.mode.owner()
    }

    /// How long it lasts from each extension.
    pub fn ttl(&self) -> Duration {
        self.ttl.duration()
    }

    /// Who acquired it: an extension by somebody else does not change that.
    pub fn holder(&self) -> Option<Holder> {
        Holder::decode(&self.holder)
    }

    /// The lease as one word that can be passed on and pasted anywhere: letters, digits and `.-_/:%`. It is a secret.
    pub fn reveal(&self) -> String {
        text::write(self)
    }
}

/// Reads what [`reveal`](DetachedLease::reveal) gave.
impl FromStr for DetachedLease {
    type Err = LeaseTextError;

    fn from_str(text: &str) -> Result<Self, LeaseTextError> {
        text::read(text.trim())
    }
}

/// For people: `"deploy" with fence 1700000000123456`.
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

/// What a release of a [`DetachedLease`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// It stood until now.
    Standing,
    /// No majority is known to have had it any more: it was released, broken or lapsed before.
    Gone,
}

#[cfg(test)]
mod tests;
