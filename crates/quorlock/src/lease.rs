//! The life of a lease, from the first request to the release.

pub(crate) mod claim;
