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

    /// Returns whether the lease was dropped completely, so that it has no further effect.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Returns when the validity of the lease ends by the wall clock of its client, in nanoseconds.
    pub fn wall_until(&self) -> u64 {
        self.0.upgrade().map_or(0, |claim| claim.wall_until() as u64)
    }

    /// Returns the validity that surely remains at the given readings of the client's boot-time clock and wall clock,
    /// in nanoseconds.
    pub fn validity(&self, nanos: u64, wall: u64) -> Duration {
        self.0.upgrade().map_or(Duration::ZERO, |claim| claim.peek(Moment::from_nanos(nanos), wall as i64))
    }
}
