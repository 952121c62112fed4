//! Numbers that grow with every lease of a name, across nodes that know nothing of each other.

use core::fmt;

use crate::nodes::gathered;

/// A number that grows with every lease of a name; the resource that is protected checks it.
///
/// Fences are drawn from the nodes' clocks, in microseconds, and are exact in a double: Lua has nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The largest fence: the last integer that a double tells from its neighbours.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A fence of this value, or [`Fence::MAX`].
    pub const fn new(value: u64) -> Self {
        if value > Self::MAX.0 { Self::MAX } else { Self(value) }
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The smallest fence above this one.
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

/// The middle of the nodes' readings; of an even number of them, the lower middle.
pub fn median(readings: impl IntoIterator<Item = i64>) -> Option<i64> {
    let (mut of_nodes, count) = gathered(readings, 0);
    let readings = &mut of_nodes[..count];
    readings.sort_unstable();
    let middle = readings.len().checked_sub(1)? / 2;
    Some(readings[middle])
}

/// What to propose: the middle of the nodes' clocks, but above every fence seen so far.
///
/// The client's own wall clock plays no part, so a client whose clock is wrong is neither locked out nor ahead.
pub fn propose(node_micros: Option<i64>, seen: Fence) -> Fence {
    let clock = node_micros.and_then(|micros| u64::try_from(micros).ok()).unwrap_or(0);
    Fence::new(clock).max(if seen == Fence::default() { seen } else { seen.next() })
}

/// The fence to which a majority of unequal grants can be raised with the least lift: the m-th smallest.
///
/// Any value that a majority carries under one vote of ours is above all earlier fences; the smallest such value
/// leaves out a node that is far ahead of the others.
pub fn seal_at(granted: impl IntoIterator<Item = Fence>, majority: usize) -> Option<Fence> {
    let (mut of_nodes, count) = gathered(granted, Fence::default());
    let granted = &mut of_nodes[..count];
    granted.sort_unstable();
    granted.get(majority.checked_sub(1)?).copied()
}

/// The fence that a majority carries, if there is one.
pub fn sealed(granted: impl IntoIterator<Item = Fence>, majority: usize) -> Option<Fence> {
    let (mut of_nodes, count) = gathered(granted, Fence::default());
    let granted = &mut of_nodes[..count];
    granted.sort_unstable();
    granted.windows(majority.max(1)).find(|run| run.first() == run.last()).map(|run| run[0])
}

#[cfg(test)]
mod tests;
