//! A view of leases for the checker of a simulation.

use std::sync::{Arc, Weak};
use std::time::Duration;

use quorlock_core::time::Moment;

use crate::api::lease::Lease;
use crate::lease::claim::Claim;

/// A view of a lease that changes nothing.
#[derive(Clone)]
pub struct Peek(Weak<Claim>);

impl Peek {
    /// Returns a view of this lease.
    pub fn of(lease: &Lease) -> Self {
        Self(Arc::downgrade(&lease.claim))
    }

    /// Returns whether the lease and its claim (the object behind the lease) were dropped, so that they have no further
    /// effect.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Returns when the validity of the lease ends by the wall clock of its client, in nanoseconds.
    pub fn wall_until(&self) -> u64 {
        self.0.upgrade().map_or(0, |claim| claim.wall_until() as u64)
    }

    /// Returns the validity that surely remains when the client's boot-time clock shows `boot_nanos` and its wall clock
    /// shows `wall_nanos`.
    pub fn validity(&self, boot_nanos: u64, wall_nanos: u64) -> Duration {
        self.0.upgrade().map_or(Duration::ZERO, |claim| claim.peek(Moment::from_nanos(boot_nanos), wall_nanos as i64))
    }
}
