//! Clocks, tasks, random numbers, mutexes and timers. The rest of the library uses only these, so that the feature
//! `sim` can replace them.

#[cfg(target_os = "linux")]
pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod entropy;
pub(crate) mod runtime;
#[cfg(feature = "sim")]
pub mod sim;
pub(crate) mod sync;
pub(crate) mod timers;
