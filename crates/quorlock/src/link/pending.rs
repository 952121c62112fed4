//! How many attempts and leases may still have something to give back.

use std::sync::atomic::Ordering;

use crate::platform::sync::AtomicUsize;

/// A count of those that are not settled. Links that are closed stay until there is none.
#[derive(Debug, Default)]
pub(crate) struct Pending(AtomicUsize);

impl Pending {
    pub(crate) fn open(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn settle(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
