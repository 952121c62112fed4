//! Fences (fencing tokens): numbers that grow with every lease of a name, across independent nodes.

use core::fmt;

use crate::nodes::gather;

/// A fencing token: a number that grows with every lease of a name. The protected resource checks it.
///
/// Fences come from the nodes' clocks, in microseconds, and fit a double exactly, because Lua has no other numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The largest fence, up to which a double represents every integer exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Creates a fence of this value, at most [`Fence::MAX`].
    pub const fn new(value: u64) -> Self {
        if value > Self::MAX.0 { Self::MAX } else { Self(value) }
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the next higher fence, at most [`Fence::MAX`].
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the median of the nodes' clocks; for an even number of clocks, the lower of the middle two.
pub fn median(readings: impl IntoIterator<Item = i64>) -> Option<i64> {
    let (mut array, count) = gather(readings, 0);
    let readings = &mut array[..count];
    readings.sort_unstable();
    let middle = readings.len().checked_sub(1)? / 2;
    Some(readings[middle])
}

/// Returns the fence to propose: the median of the nodes' clocks, but above every fence seen so far.
///
/// The proposal ignores the client's own wall clock, so a client with a wrong clock is neither locked out nor favoured.
pub fn propose(node_micros: Option<i64>, seen: Fence) -> Fence {
    let clock = node_micros.and_then(|micros| u64::try_from(micros).ok()).unwrap_or(0);
    Fence::new(clock).max(if seen == Fence::default() { seen } else { seen.next() })
}

/// Returns the lowest fence to which a majority of unequal grants can be raised. Example: for the fences 5, 7 and 900
/// and a majority of 2, this is 7, because the node that granted 5 can raise its fence to 7.
///
/// While a majority votes for one attempt, any fence that the majority grants is above all earlier fences. So the
/// lowest fence is enough, and it is not that of a node whose clock is far ahead of the other clocks.
pub fn seal_at(granted: impl IntoIterator<Item = Fence>, majority: usize) -> Option<Fence> {
    let (mut array, count) = gather(granted, Fence::default());
    let granted = &mut array[..count];
    granted.sort_unstable();
    granted.get(majority.checked_sub(1)?).copied()
}

/// Returns the fence that a majority has granted, if there is one.
pub fn sealed(granted: impl IntoIterator<Item = Fence>, majority: usize) -> Option<Fence> {
    let (mut array, count) = gather(granted, Fence::default());
    let granted = &mut array[..count];
    granted.sort_unstable();
    granted.windows(majority.max(1)).find(|grants| grants.first() == grants.last()).map(|grants| grants[0])
}

#[cfg(test)]
mod tests;
