//! How long a lease still surely holds: ttl - elapsed - drift, and nothing else.

use core::time::Duration;

use crate::nodes::gathered;
use crate::time::{Drift, Moment, Ttl};

/// When a lease ends that a majority of nodes granted.
///
/// `sends` are the moments at which the granted requests were sent, one for each granting node. A grant lives for the
/// ttl from some point after its send, so the lease lives until the first of the best `majority` grants may lapse: the
/// m-th largest send, plus ttl, minus drift. `None` without a majority.
pub fn valid_until(sends: impl IntoIterator<Item = Moment>, majority: usize, ttl: Ttl, drift: Drift) -> Option<Moment> {
    Some(until(mth_largest(sends, majority)?, ttl, drift))
}

/// When a lease ends whose majority was asked no earlier than at `asked`.
pub fn until(asked: Moment, ttl: Ttl, drift: Drift) -> Moment {
    (asked + ttl.duration()).before(drift.of(ttl))
}

/// The moment that a majority reaches at least, of one for each node. `None` without a majority.
pub fn mth_largest(moments: impl IntoIterator<Item = Moment>, majority: usize) -> Option<Moment> {
    let (mut of_nodes, count) = gathered(moments, Moment::from_nanos(0));
    let moments = &mut of_nodes[..count];
    moments.sort_unstable_by(|a, b| b.cmp(a));
    moments.get(majority.checked_sub(1)?).copied()
}

/// What is left of a lease at `now`.
pub fn left(valid_until: Moment, now: Moment) -> Duration {
    valid_until.since(now)
}

#[cfg(test)]
mod tests;
