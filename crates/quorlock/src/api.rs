//! The public API: the client, the kinds of locks, and their leases.

pub mod blocking;
pub(crate) mod builder;
pub(crate) mod client;
pub(crate) mod election;
pub(crate) mod lease;
pub(crate) mod lock;
pub(crate) mod multi;
#[cfg(feature = "sim")]
pub mod peek;
pub(crate) mod rw;
