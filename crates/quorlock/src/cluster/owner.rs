//! The fences that all leases of one owner of a reentrant lock share.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::OwnerId;

use crate::platform::sync::Mutex;

/// The fences of the reentrant locks that a client holds, by owner and key.
///
/// Fences of different names are unrelated, so each name has its own.
#[derive(Default)]
pub(crate) struct OwnerFences {
    shared: Mutex<BTreeMap<Key, Shared>>,
}

/// An owner and the key of a name.
type Key = (OwnerId, String);

/// The highest fence of an owner's entries, and their number.
type Shared = (Fence, usize);

impl OwnerFences {
    /// Adds an entry of an owner.
    pub(crate) fn enter(self: &Arc<Self>, owner: OwnerId, key: &str, fence: Fence) -> OwnerFence {
        let key = (owner, key.to_owned());
        let mut all = self.shared.lock();
        let (highest, entries) = all.entry(key.clone()).or_default();
        *highest = fence.max(*highest);
        *entries += 1;
        drop(all);
        OwnerFence { all: Arc::clone(self), key }
    }
}

/// The handle of one entry to the fence of its owner. Dropping the last handle forgets the fence.
pub(crate) struct OwnerFence {
    all: Arc<OwnerFences>,
    key: Key,
}

impl OwnerFence {
    /// Returns the highest fence of the owner's entries, including this one.
    pub(crate) fn highest(&self, own: Fence) -> Fence {
        self.all.shared.lock().get(&self.key).map_or(own, |(highest, _)| own.max(*highest))
    }
}

impl Drop for OwnerFence {
    fn drop(&mut self) {
        if let btree_map::Entry::Occupied(mut shared) = self.all.shared.lock().entry(self.key.clone()) {
            shared.get_mut().1 -= 1;
            if shared.get().1 == 0 {
                shared.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_shared_by_the_entries_of_one_owner_and_name_and_forgotten_with_the_last() {
        let fences: Arc<OwnerFences> = Arc::default();
        let (us, them) = (OwnerId::from_bits(1), OwnerId::from_bits(2));
        let first = fences.enter(us, "a", Fence::new(10));
        let second = fences.enter(us, "a", Fence::new(12));
        assert_eq!(first.highest(Fence::new(10)), Fence::new(12));
        let others = [fences.enter(us, "b", Fence::new(5)), fences.enter(them, "a", Fence::new(7))];
        assert_eq!(others.each_ref().map(|other| other.highest(Fence::new(1)).get()), [5, 7]);
        drop(second);
        assert_eq!(first.highest(Fence::new(10)), Fence::new(12), "it was given out");
        drop((first, others));
        assert!(fences.shared.lock().is_empty());
    }
}
