//! Who may enter a reentrant lock again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_core::fence::Fence;
use quorlock_core::mode::OwnerId;

use crate::entropy;

/// Who may enter a [reentrant lock](crate::Reentrant) that is held: whoever has the same owner.
///
/// Clones are the same owner. To be the same owner in another process, pass on what [`reveal`](Self::reveal) gives; it
/// is a secret, since whoever has it may enter. `Debug` does not show it.
#[derive(Clone)]
pub struct Owner {
    id: OwnerId,
    /// The highest fence that an entry of this owner was given, in this process.
    fence: Arc<AtomicU64>,
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
        Self { id, fence: Arc::default() }
    }

    pub(crate) fn id(&self) -> OwnerId {
        self.id
    }

    /// Notes the fence of an entry, and gives the highest.
    pub(crate) fn raise(&self, fence: Fence) -> Fence {
        fence.max(Fence::new(self.fence.fetch_max(fence.get(), Ordering::AcqRel)))
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Owner {}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(secret)")
    }
}
