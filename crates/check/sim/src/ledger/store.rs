//! A store that a lock protects. It refuses writes with a lower fence than the highest fence so far.

use quorlock::Fence;

use super::Hold;

#[derive(Debug, Default)]
pub(crate) struct Store {
    highest_fence: Fence,
    /// The holder and lease of the write with the highest fence.
    last_writer: Option<(Hold, usize)>,
}

impl Store {
    /// Writes with this fence. Returns whether the store accepts the write, and whether the write corrupts the store. A
    /// write corrupts the store if it has the fence of another holder, and the two holders exclude each other.
    pub(super) fn write(&mut self, hold: Hold, lease: usize, fence: Fence) -> (bool, bool) {
        if fence < self.highest_fence {
            return (false, false);
        }
        let conflicts = |(other, other_lease): (Hold, usize)| other_lease != lease && other.excludes(hold);
        let is_corrupted = fence == self.highest_fence && self.last_writer.is_some_and(conflicts);
        // A reader's write does not raise the highest fence.
        if hold != Hold::Reader {
            (self.highest_fence, self.last_writer) = (fence, Some((hold, lease)));
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
        assert_eq!(store.write(Hold::Alone, 0, Fence::new(5)), (true, false));
        assert_eq!(store.write(Hold::Alone, 1, Fence::new(6)), (true, false));
        assert_eq!(store.write(Hold::Alone, 0, Fence::new(5)), (false, false));
        assert_eq!(store.write(Hold::Reader, 2, Fence::new(7)), (true, false));
        assert_eq!(store.write(Hold::Alone, 1, Fence::new(6)), (true, false), "a reader must not raise the fence");
    }

    #[test]
    fn two_writers_with_one_fence_are_a_violation() {
        let mut store = Store::default();
        store.write(Hold::Alone, 0, Fence::new(5));
        assert_eq!(store.write(Hold::Alone, 1, Fence::new(5)), (true, true));
    }
}
