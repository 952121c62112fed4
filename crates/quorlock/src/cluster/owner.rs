//! Who may enter a reentrant lock again.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;
use std::sync::{Arc, MutexGuard};

use quorlock_core::fence::Fence;
use quorlock_core::mode::OwnerId;

use crate::platform::entropy;
use crate::platform::sync::Mutex;

/// Who may enter a [reentrant lock](crate::Reentrant) that is held: whoever has the same owner.
///
/// Clones are the same owner. To be the same owner in another process, pass on what [`reveal`](Self::reveal) gives; it
/// is a secret, since whoever has it may enter. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Owner {
    id: OwnerId,
}

impl Owner {
    /// An owner that nobody else is.
    #[expect(clippy::new_without_default, reason = "two owners are never the same, as defaults would be")]
    pub fn new() -> Self {
        Self::with_id(OwnerId::from_bits(entropy::bits()))
    }

    /// The owner of these bits: 128 random ones, or the hash of a secret. Whoever has them is the same owner.
    pub fn from_bits(bits: u128) -> Self {
        Self::with_id(OwnerId::from_bits(bits))
    }

    /// The owner as text, for another process.
    pub fn reveal(&self) -> String {
        self.id.reveal()
    }

    /// Reads what [`reveal`](Self::reveal) gave; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        OwnerId::parse(text).map(Self::with_id)
    }

    pub(crate) fn with_id(id: OwnerId) -> Self {
        Self { id }
    }

    pub(crate) fn id(&self) -> OwnerId {
        self.id
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(secret)")
    }
}

/// The fences of the reentrant locks that a client holds, by owner and key.
///
/// A name's fences say nothing about those of another name, so each has its own.
#[derive(Default)]
pub(crate) struct OwnerFences {
    shared: Mutex<BTreeMap<Key, Shared>>,
}

/// An owner and the key of a name.
type Key = (OwnerId, String);

struct Shared {
    /// The highest fence of an entry.
    highest: Fence,
    /// How many entries there are.
    entries: usize,
}

impl OwnerFences {
    /// Adds an entry of an owner.
    pub(crate) fn enter(self: &Arc<Self>, owner: OwnerId, key: &str, fence: Fence) -> OwnerFence {
        let key = (owner, key.to_owned());
        let mut all = self.shared();
        let shared = all.entry(key.clone()).or_insert(Shared { highest: fence, entries: 0 });
        shared.highest = shared.highest.max(fence);
        shared.entries += 1;
        drop(all);
        OwnerFence { all: Arc::clone(self), key }
    }

    fn shared(&self) -> MutexGuard<'_, BTreeMap<Key, Shared>> {
        self.shared.lock()
    }
}

impl fmt::Debug for OwnerFences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fences of owners", self.shared().len())
    }
}

/// One entry's part in the fence of its owner. The fence is forgotten with the last of them.
pub(crate) struct OwnerFence {
    all: Arc<OwnerFences>,
    key: Key,
}

impl OwnerFence {
    /// The highest fence of the owner's entries, of which this is one.
    pub(crate) fn highest(&self, own: Fence) -> Fence {
        self.all.shared().get(&self.key).map_or(own, |shared| shared.highest.max(own))
    }
}

impl Drop for OwnerFence {
    fn drop(&mut self) {
        if let btree_map::Entry::Occupied(mut shared) = self.all.shared().entry(self.key.clone()) {
            shared.get_mut().entries -= 1;
            if shared.get().entries == 0 {
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
        assert!(fences.shared().is_empty());
    }
}
