//! The validity of a lease: ttl - elapsed - drift.

use core::time::Duration;

use crate::nodes::gathered;
use crate::time::{Drift, Moment, Ttl};

/// Returns when the validity of a lease ends that a majority granted.
///
/// `sends` are the send times of the granted requests, one for each granting node. A grant lasts for the ttl from some
/// point after its send, so the lease is valid until the first of the best `majority` grants may expire: the m-th
/// largest send time, plus ttl, minus drift. Returns `None` without a majority.
pub fn valid_until(sends: impl IntoIterator<Item = Moment>, majority: usize, ttl: Ttl, drift: Drift) -> Option<Moment> {
    Some(until(mth_largest(sends, majority)?, ttl, drift))
}

/// Returns when the validity ends if a majority was asked at `asked` or later.
pub fn until(asked: Moment, ttl: Ttl, drift: Drift) -> Moment {
    (asked + ttl.duration()).before(drift.of(ttl))
}

/// Returns the latest moment that a majority of these moments, one per node, reaches. Returns `None` without a
/// majority.
pub fn mth_largest(moments: impl IntoIterator<Item = Moment>, majority: usize) -> Option<Moment> {
    let (mut of_nodes, count) = gathered(moments, Moment::from_nanos(0));
    let moments = &mut of_nodes[..count];
    moments.sort_unstable_by(|a, b| b.cmp(a));
    moments.get(majority.checked_sub(1)?).copied()
}

/// Returns the validity left at `now`.
pub fn left(valid_until: Moment, now: Moment) -> Duration {
    valid_until.since(now)
}

#[cfg(test)]
mod tests;
