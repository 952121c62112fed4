//! Sets of a cluster's nodes, and the most nodes that a cluster can have.

use core::fmt;

/// The most nodes that a cluster can have.
pub const NODES_MAX: usize = 31;

/// Collects one value per node into an array, to avoid an allocation. Returns the array and the number of values.
pub(crate) fn gather<T: Copy>(values: impl IntoIterator<Item = T>, filler: T) -> ([T; NODES_MAX], usize) {
    let (mut array, mut count) = ([filler; NODES_MAX], 0);
    for (element, value) in array.iter_mut().zip(values) {
        *element = value;
        count += 1;
    }
    (array, count)
}

/// A set of nodes, by their positions in the configuration.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NodeSet(u32);

impl NodeSet {
    /// Returns the nodes before position `count`.
    pub fn first(count: usize) -> Self {
        (0..count).collect()
    }

    /// Returns whether the node is in the set.
    pub const fn contains(self, node: usize) -> bool {
        node < u32::BITS as usize && self.0 >> node & 1 == 1
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a node.
    pub fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    /// Removes a node.
    pub fn remove(&mut self, node: usize) {
        if self.contains(node) {
            self.0 &= !(1 << node);
        }
    }

    /// Returns the number of nodes.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the nodes in the order of their positions.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..NODES_MAX).filter(move |node| self.contains(*node))
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

    #[test]
    fn a_node_set_iterates_in_order_without_duplicates() {
        let mut set: NodeSet = [30, 2, 2, 0].into_iter().collect();
        assert!(set.iter().eq([0, 2, 30]));
        set.remove(2);
        set.remove(7);
        assert!(set.contains(30) && !set.contains(2) && set.len() == 2);
        assert!(NodeSet::first(NODES_MAX).iter().eq(0..NODES_MAX));
        assert!(NodeSet::first(0).is_empty());
    }

    #[test]
    fn a_node_set_contains_no_number_beyond_the_largest_node() {
        let mut set = NodeSet::first(NODES_MAX);
        set.remove(1_000);
        assert!(!set.contains(NODES_MAX) && !set.contains(1_000) && set == NodeSet::first(NODES_MAX));
    }
}
