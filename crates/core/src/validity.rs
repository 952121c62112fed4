//! The validity of a lease: ttl - elapsed - drift.

use core::time::Duration;

use crate::nodes::gather;
use crate::time::{Moment, Ttl};

/// Returns when the validity of a lease ends.
///
/// `sends` are the send times of the granted requests, one for each granting node. A grant lasts for the ttl, from some
/// moment after its request was sent. The lease is valid while at least `majority` grants are certainly left. Example:
/// with the send times 1, 5 and 9 ms and a majority of 2, the validity ends at 5 ms plus ttl minus drift, because then
/// only the grant of 9 ms is certainly left. Returns `None` if fewer than `majority` nodes granted.
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

/// Returns the latest moment that is not after the moments of a majority, for one moment per node. Example: 5 ms for
/// the moments 1, 5 and 9 ms and a majority of 2. Returns `None` if there are fewer than `majority` moments.
pub fn mth_largest(moments: impl IntoIterator<Item = Moment>, majority: usize) -> Option<Moment> {
    let (mut array, count) = gather(moments, Moment::from_nanos(0));
    let moments = &mut array[..count];
    moments.sort_unstable_by(|a, b| b.cmp(a));
    moments.get(majority.checked_sub(1)?).copied()
}

/// Returns the validity left at `now`.
pub fn left(valid_until: Moment, now: Moment) -> Duration {
    valid_until.since(now)
}

#[cfg(test)]
mod tests;
