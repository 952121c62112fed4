//! Leases as the judge of a simulation sees them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use quorlock_core::time::Moment;

use crate::api::lease::Lease;
use crate::lease::claim::Claim;

/// A lease as a judge sees it: looking at it changes nothing.
#[derive(Clone)]
pub struct Peek(Weak<Claim>);

impl Peek {
    /// Looks at this lease.
    pub fn of(lease: &Lease) -> Self {
        Self(Arc::downgrade(lease.claim()))
    }

    /// Whether nobody has it any more, so that nothing can come of it.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// When its validity ends by its client's wall clock, in nanoseconds.
    pub fn wall_until(&self) -> u64 {
        self.0.upgrade().map_or(0, |claim| claim.wall_until() as u64)
    }

    /// What surely is left of it when its client's clocks say this, in nanoseconds: the suspend-proof one and the wall clock.
    pub fn validity(&self, nanos: u64, wall: u64) -> Duration {
        self.0.upgrade().map_or(Duration::ZERO, |claim| claim.peek(Moment::from_nanos(nanos), wall as i64))
    }
}
