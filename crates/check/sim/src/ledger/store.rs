//! A store that a lock protects. It refuses writes with a lower fence than the highest fence so far.

use quorlock::Fence;

use super::LeaseKind;

#[derive(Debug, Default)]
pub(crate) struct Store {
    highest_fence: Fence,
    /// The kind and the number of the lease that made the write with the highest fence.
    highest_writer: Option<(LeaseKind, usize)>,
}

impl Store {
    /// Writes with this fence. Returns whether the store accepts the write, and whether the write corrupts the store. A
    /// write corrupts the store if another lease has written with the same fence, and the two leases exclude each other.
    pub(super) fn write(&mut self, kind: LeaseKind, lease: usize, fence: Fence) -> (bool, bool) {
        if fence < self.highest_fence {
            return (false, false);
        }
        let conflicts = |(other, other_lease): (LeaseKind, usize)| other_lease != lease && other.excludes(kind);
        let is_corrupted = fence == self.highest_fence && self.highest_writer.is_some_and(conflicts);
        // A reader's write does not raise the highest fence.
        if kind != LeaseKind::Reader {
            (self.highest_fence, self.highest_writer) = (fence, Some((kind, lease)));
        }
        (true, is_corrupted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_with_a_lower_fence_is_refused() {
        let mut store = Store::default();
        assert_eq!(store.write(LeaseKind::Alone, 0, Fence::new(5)), (true, false));
        assert_eq!(store.write(LeaseKind::Alone, 1, Fence::new(6)), (true, false));
        assert_eq!(store.write(LeaseKind::Alone, 0, Fence::new(5)), (false, false));
        assert_eq!(store.write(LeaseKind::Reader, 2, Fence::new(7)), (true, false));
        assert_eq!(store.write(LeaseKind::Alone, 1, Fence::new(6)), (true, false), "a reader raised the highest fence");
    }

    #[test]
    fn two_writers_with_one_fence_corrupt_the_store() {
        let mut store = Store::default();
        store.write(LeaseKind::Alone, 0, Fence::new(5));
        assert_eq!(store.write(LeaseKind::Alone, 1, Fence::new(5)), (true, true));
    }
}
