//! One leader at a time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use quorlock_core::fence::Fence;

use super::background::{Background, wait};
use super::lease::Lease;
use super::settings::settings;
use crate::api::election::Leader;
use crate::error::{AcquireError, FenceError, LeaseError, LostError, ReadError};

/// One leader at a time. See [`crate::Election`].
#[derive(Clone, Debug)]
pub struct Election {
    inner: crate::Election,
    background: Arc<Background>,
}

settings!(Election);

impl Election {
    /// Waits until elected.
    ///
    /// # Errors
    /// [`AcquireError`], as for [`Lock::acquire`](super::Lock::acquire).
    pub fn campaign(&self) -> Result<Leadership, AcquireError> {
        wait(self.inner.campaign()).map(Leadership::new)
    }

    /// Waits until elected or the time is over.
    ///
    /// # Errors
    /// [`AcquireError::WaitTimeout`] says who led at the end; others as for
    /// [`Lock::acquire_within`](super::Lock::acquire_within).
    pub fn campaign_within(&self, within: Duration) -> Result<Leadership, AcquireError> {
        wait(self.inner.campaign_within(within)).map(Leadership::new)
    }

    /// Who leads, by the word of a majority.
    ///
    /// # Errors
    /// [`ReadError`] when no majority can tell.
    pub fn leader(&self) -> Result<Option<Leader>, ReadError> {
        wait(self.inner.leader())
    }

    /// Who leads now, and then every change of it. See [`crate::Election::changes`].
    pub fn changes(&self) -> Changes {
        Changes { stream: Box::pin(self.inner.changes()), background: Arc::clone(&self.background) }
    }
}

/// Waits for each change of the leader: `None` while nobody leads. It ends when the client is closed.
pub struct Changes {
    stream: Pin<Box<dyn Stream<Item = Option<Leader>> + Send>>,
    background: Arc<Background>,
}

impl Iterator for Changes {
    type Item = Option<Leader>;

    fn next(&mut self) -> Option<Self::Item> {
        self.background.wait_with_timers(self.stream.next())
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}

/// Being the leader. See [`crate::Leadership`].
#[derive(Debug)]
#[must_use = "a leadership that is dropped at once is over"]
pub struct Leadership {
    lease: Lease,
}

impl Leadership {
    fn new(leadership: crate::Leadership) -> Self {
        Self { lease: Lease::new(leadership.into_lease()) }
    }

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
    pub fn lost(&self) -> LostError {
        self.lease.lost()
    }

    /// The lease behind it.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Lets the next candidate lead, and waits until a majority of the nodes knows.
    ///
    /// # Errors
    /// [`LeaseError`], as for [`Lease::release`]. It leads no more in either case.
    pub fn step_down(self) -> Result<(), LeaseError> {
        self.lease.release()
    }
}
