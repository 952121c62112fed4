//! The validity of a lease: ttl - elapsed - drift.

use core::time::Duration;

use crate::nodes::gather;
use crate::time::{Moment, Ttl};

/// Returns when the validity of a lease ends.
///
/// `sends` are the send times of the granted requests, one for each granting node. Each grant lasts for the ttl, from
/// some moment after its request was sent. The lease is valid until fewer than `majority` grants may be left: the m-th
/// largest send time (m = `majority`), plus ttl, minus drift. Returns `None` without a majority.
pub fn valid_until(
    sends: impl IntoIterator<Item = Moment>,
    majority: usize,
    ttl: Ttl,
    drift: Duration,
) -> Option<Moment> {
    Some(until(mth_largest(sends, majority)?, ttl, drift))
}

/// Returns when the validity ends if a majority granted requests that were sent at `asked` or later.
pub fn until(asked: Moment, ttl: Ttl, drift: Duration) -> Moment {
    (asked + ttl.duration()).before(drift)
}

/// Returns the m-th largest of these moments, one per node, where m is `majority`. The moments of a majority are at or
/// after the result. Returns `None` without a majority.
pub fn mth_largest(moments: impl IntoIterator<Item = Moment>, majority: usize) -> Option<Moment> {
    let (mut of_nodes, count) = gather(moments, Moment::from_nanos(0));
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
