//! The fences of reentrant locks. All leases that one owner has of one name return the same fence.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::OwnerId;

use crate::platform::sync::Mutex;

/// The highest fence of each reentrant lock that this client holds.
///
/// Fences of different names are unrelated, so an owner has one fence for each name.
#[derive(Default)]
pub(crate) struct OwnerFences {
    held: Mutex<BTreeMap<OwnedLock, FenceAndEntries>>,
}

/// An owner, and the key of a lock that the owner holds.
type OwnedLock = (OwnerId, String);

/// The highest fence of the owner's entries, and the number of these entries.
type FenceAndEntries = (Fence, usize);

impl OwnerFences {
    /// Adds an entry of `owner` to the lock with this key.
    pub(crate) fn enter(self: &Arc<Self>, owner: OwnerId, key: &str, fence: Fence) -> OwnerEntry {
        let lock = (owner, key.to_owned());
        let mut held = self.held.lock();
        let (highest, entries) = held.entry(lock.clone()).or_default();
        *highest = fence.max(*highest);
        *entries += 1;
        drop(held);
        OwnerEntry { fences: Arc::clone(self), lock }
    }
}

/// One entry of an owner to a reentrant lock. When the last entry is dropped, the client forgets the fence.
pub(crate) struct OwnerEntry {
    fences: Arc<OwnerFences>,
    lock: OwnedLock,
}

impl OwnerEntry {
    /// Returns the highest fence of all entries of the owner. `own` is the fence of this entry.
    pub(crate) fn highest(&self, own: Fence) -> Fence {
        self.fences.held.lock().get(&self.lock).map_or(own, |(highest, _)| own.max(*highest))
    }
}

impl Drop for OwnerEntry {
    fn drop(&mut self) {
        if let btree_map::Entry::Occupied(mut held) = self.fences.held.lock().entry(self.lock.clone()) {
            held.get_mut().1 -= 1;
            if held.get().1 == 0 {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_one_owner_and_name_share_a_fence_until_the_last_entry_is_dropped() {
        let fences: Arc<OwnerFences> = Arc::default();
        let (our_owner, other_owner) = (OwnerId::from_bits(1), OwnerId::from_bits(2));
        let first = fences.enter(our_owner, "a", Fence::new(10));
        let second = fences.enter(our_owner, "a", Fence::new(12));
        assert_eq!(first.highest(Fence::new(10)), Fence::new(12));
        let others = [fences.enter(our_owner, "b", Fence::new(5)), fences.enter(other_owner, "a", Fence::new(7))];
        assert_eq!(others.each_ref().map(|other| other.highest(Fence::new(1)).get()), [5, 7]);
        drop(second);
        assert_eq!(first.highest(Fence::new(10)), Fence::new(12), "a lease has already returned the fence 12");
        drop((first, others));
        assert!(fences.held.lock().is_empty());
    }
}
