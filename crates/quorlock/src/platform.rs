//! The only clock, tasks, random bits, mutexes and timers of the library; and [`sim`], which replaces them.

#[cfg(target_os = "linux")]
pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod entropy;
pub(crate) mod runtime;
#[cfg(feature = "sim")]
pub mod sim;
pub(crate) mod sync;
pub(crate) mod timers;
