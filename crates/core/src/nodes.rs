//! Some of a cluster's nodes.

use core::fmt;

/// Some of the nodes, by their numbers; there are at most [`NODES_MAX`](crate::quorum::NODES_MAX) of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NodeSet(u32);

impl NodeSet {
    /// The first so many.
    pub fn first(count: usize) -> Self {
        (0..count).collect()
    }

    /// Whether this one is among them.
    pub const fn contains(self, node: usize) -> bool {
        node < u32::BITS as usize && self.0 >> node & 1 == 1
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds one.
    pub fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    /// Leaves one out.
    pub fn remove(&mut self, node: usize) {
        if self.contains(node) {
            self.0 &= !(1 << node);
        }
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Each of them, from the lowest number.
    pub const fn iter(self) -> Members {
        Members(self.0)
    }
}

impl IntoIterator for NodeSet {
    type Item = usize;
    type IntoIter = Members;

    fn into_iter(self) -> Members {
        self.iter()
    }
}

/// The nodes of a set.
#[derive(Clone, Debug)]
pub struct Members(u32);

impl Iterator for Members {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let node = self.0.trailing_zeros();
        // The lowest bit goes.
        self.0 &= self.0.wrapping_sub(1);
        (node < u32::BITS).then_some(node as usize)
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl Extend<usize> for NodeSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, nodes: I) {
        nodes.into_iter().for_each(|node| self.insert(node));
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::NODES_MAX;

    #[test]
    fn nodes_come_in_their_order_and_once() {
        let mut set: NodeSet = [30, 2, 2, 0].into_iter().collect();
        assert!(set.iter().eq([0, 2, 30]));
        set.remove(2);
        set.remove(7);
        assert!(set.contains(30) && !set.contains(2) && set.len() == 2);
        assert!(NodeSet::first(NODES_MAX).iter().eq(0..NODES_MAX));
        assert!(NodeSet::first(0).is_empty());
    }

    #[test]
    fn a_number_that_no_node_has_is_not_among_them() {
        let mut set = NodeSet::first(NODES_MAX);
        set.remove(1_000);
        assert!(!set.contains(NODES_MAX) && !set.contains(1_000) && set == NodeSet::first(NODES_MAX));
    }
}
